"""Claims: what an ask, or a whole gang, holds for later, with room on nodes from a time on; and kept rooms.

An extension makes claims and plans them anew. The holders are tried before all other asks in every pass.
Until it starts others may use the room, if they end before or leave it free then (`model/nodes/claims.py`).
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any

from licorne_core.messages.claims import BehindReservationCheck
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import ASSUMED, Request
from licorne_core.model.effort import LOOKS_OF_A_TRY, Search
from licorne_core.model.nodes.node import Node
from licorne_core.values.asks import AskClass


class Claim(ABC):
    """What one ask, or all that are placed together with it, holds. Compared by identity.

    Always true: each request knows its claim while it is pending, and each node that has room for it.
    """

    app: Application
    members: Sequence[tuple[Request, Node]]
    """The asks, each with the node that has room for it."""

    @abstractmethod
    def decide(self, now: float) -> Any:
        """The decision by which the asks are placed, or hold another claim; None for neither."""

    @abstractmethod
    def placed(self, now: float) -> None:
        """One of the asks gets its node at unix seconds `now`, and is not pending right after that."""

    @abstractmethod
    def end(self) -> None:
        """One of the asks is not pending any more, or has a node reserved: the others lose it as well."""

    @abstractmethod
    def give_up(self, now: float) -> None:
        """The asks hold it no more, and may hold another one later."""

    @abstractmethod
    def lose(self, node: Node) -> None:
        """A node with room for it is gone, takes no more asks, or has another size."""

    @abstractmethod
    def check(self, request: Request) -> BehindReservationCheck | None:
        """For `explain`: what the request would take of its room, on nodes that have room now; else None."""


class KeptRoom(ABC):
    """Room for a member of a gang that has still to be asked for: its ask goes there, or to nodes near by.

    An extension makes it and finds the node. Always true: its application has it in the list of its gang,
    and the amounts of the class are kept on the node, if there is one.
    """

    app: Application
    task_group: str
    ask_class: AskClass
    where: str
    """Name of all nodes to which the ask may go."""
    node: Node | None
    request: Request | None
    """The ask that was assumed on a node for it, as the RM is asked."""

    @property
    def is_free(self) -> bool:
        """True if no ask is about to take it."""
        return self.request is None or self.request.state is not ASSUMED

    @abstractmethod
    def nodes(self) -> Collection[Node]:
        """All nodes to which the ask may go."""

    @abstractmethod
    def hold_for(self, request: Request) -> None:
        """Hold it for an assumed ask; others go elsewhere until the RM has answered."""

    @abstractmethod
    def put_back(self) -> None:
        """Its ask is assumed no more."""

    @abstractmethod
    def end(self) -> None:
        """It is taken, or of no use any more."""


def room_for(app: Application, task_group: str) -> KeptRoom | None:
    """The first free room for members of a task group."""
    return next((one for one in app.gang.rooms if one.task_group == task_group and one.is_free), None)


def rooms_of(app: Application, request: Request) -> list[KeptRoom]:
    """Those that are held for an assumed ask."""
    return [room for room in app.gang.rooms if room.request is request]


class Claims(Search):
    """The claims of one partition, and the kept rooms. `work` counts looks at nodes."""

    __slots__ = ("held", "now", "reasons", "rooms")

    def __init__(self) -> None:
        """Start empty."""
        super().__init__(LOOKS_OF_A_TRY)
        self.held: dict[Claim, None] = {}
        """The claims, in the order in which they were made."""
        self.rooms: dict[KeptRoom, None] = {}
        """The rooms that are kept for members of gangs."""
        self.reasons: set[str] = set()
        """All that a `Room.reason` may be."""
        self.now = 0.0
        """Time of the turn that decides now, in unix seconds: runtimes count from it; 0 before the first."""
