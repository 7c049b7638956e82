"""Blockers of gangs that are placed whole or not at all."""

from typing import NamedTuple

from licorne_core.messages.together import GANG_INCOMPLETE, NO_PLACE_TOGETHER, TogetherCheck
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.groups import AskGroup
from licorne_core.model.nodes.book import NODES, Packing
from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.waiting.blockers import Blockers, OfThing
from licorne_core.values.asks import AskClass


class IfEmpty(NamedTuple):
    """The nodes that, if empty, would hold the gang members that are placed together next.

    `packing` has the units that the node order keeps whole for them; None if no nodes would hold them, for
    the reason in `lack`. The result is valid for these `sizes` of nodes, and numbers of `members` by class.
    """

    sizes: tuple[int, int]
    members: tuple[tuple[AskClass, int], ...]
    packing: Packing | None
    lack: TogetherCheck | None


class NoPlace(OfThing):
    """The placeholders of an application have no room together, or a member has none near its gang.

    It belongs to the application, or to the group of a member. It opens after a change of a node that has
    room for one of them, and after an answer of the RM about nodes for them.
    """

    __slots__ = ("_waiting_gangs", "classes", "lack", "packing", "reserved_node", "tried_at")

    def __init__(
        self,
        thing: Application | AskGroup,
        blockers: Blockers,
        app: Application,
        waiting_gangs: "dict[NoPlace, None]",
    ) -> None:
        """Start without a search; the blocker is in `waiting_gangs` as long as items wait."""
        super().__init__(thing, blockers)
        self._waiting_gangs = waiting_gangs
        waiting_gangs[self] = None
        self.classes: tuple[AskClass, ...] = ()
        """Classes of the members without room."""
        self.reserved_node: Node | None = None
        """Node on which amounts are reserved for the member."""
        self.tried_at: object = None
        """Versions of nodes, gang and RM answers at the time of the last search."""
        self.packing: Packing | None = NODES
        """The units that the node order keeps whole; None while the RM is asked, or if no nodes suffice."""
        self.lack = TogetherCheck(app_id=app.app_id, code=NO_PLACE_TOGETHER, text="")
        """Result of the last search."""

    def may_use(self, node: Node) -> bool:
        """True if the node has room for one of the members now, or is the one reserved for the member."""
        return node is self.reserved_node or any(
            node.refusal(ask_class) is None for ask_class in self.classes
        )

    def retire(self) -> None:
        """Remove this blocker from the waiting gangs."""
        del self._waiting_gangs[self]
        super().retire()


class Incomplete(OfThing):
    """Not all placeholders that an application has announced have arrived.

    It never opens by itself: each placeholder that arrives unparks the groups of the gang.
    """

    __slots__ = ("lack",)

    def __init__(self, app: Application, blockers: Blockers) -> None:
        """Create the blocker of an application, without waiting items."""
        super().__init__(app, blockers)
        self.lack = TogetherCheck(app_id=app.app_id, code=GANG_INCOMPLETE, text="")
        """The missing asks, as a reason."""
