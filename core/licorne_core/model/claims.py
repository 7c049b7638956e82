"""Claims: room on nodes, and below maxima, that an ask or gang holds for a later start; and rooms that are
reserved for gang members.

An extension creates claims and plans them anew. Their holders are tried before all other asks in every pass.
Until the planned start, others may use the room if they end before it or leave enough free
(`model/nodes/claims.py`).
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any

from licorne_core.messages.claims import BehindReservationCheck
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import ASSUMED, Request
from licorne_core.model.effort import COMPARISONS_OF_A_TRY, Search
from licorne_core.model.nodes.node import Node
from licorne_core.values.asks import AskClass, Passed
from licorne_core.values.resources import Items


class Claim(ABC):
    """Claim of one ask, or of all asks that are placed together with it. Compared by identity.

    Always true: each pending request refers to its claim, and so does each node with room for it.
    """

    app: Application
    members: Sequence[tuple[Request, Node]]
    """The asks, each with the node on which it has room."""
    total: Items
    """Amounts of all its asks."""

    @property
    @abstractmethod
    def as_passed(self) -> Passed:
        """The record of this claim, for an allocation that passes it."""

    @property
    @abstractmethod
    def is_closed(self) -> bool:
        """True if its asks may not start now, because of the time alone."""

    @abstractmethod
    def decide(self, now: float) -> Any:
        """The decision that places the asks or changes their claim; None if there is none."""

    @abstractmethod
    def placed(self, node: Node, now: float) -> None:
        """Note that one of the asks gets this node at unix seconds `now`, and is no longer pending."""

    @abstractmethod
    def end(self) -> None:
        """End the claim of all its asks: one of them is not pending any more, or has a node reserved."""

    @abstractmethod
    def leave(self, request: Request) -> None:
        """End the claim of an ask that is withdrawn; that of the others may stay."""

    @abstractmethod
    def give_up(self, now: float) -> None:
        """Give up the claim; the asks may get another one later."""

    @abstractmethod
    def lose(self, node: Node) -> None:
        """Note that a node of the claim was removed, closed or resized."""

    @abstractmethod
    def give_way(self, node: Node, now: float) -> None:
        """Plan the claim again if it lacks room on the node, as an ask that preempts was placed there."""

    @abstractmethod
    def check(self, request: Request) -> BehindReservationCheck | None:
        """Check, for `explain`, if the request would use its room on nodes with free room; None if not."""


class MemberRoom(ABC):
    """Room reserved for a gang member whose ask has not arrived; the ask is placed there, or nearby.

    An extension creates it and finds the node. Always true: it is in the list of its application's gang,
    and the amounts of the class are reserved on its node, if any.
    """

    app: Application
    task_group: str
    ask_class: AskClass
    where: str
    """Name of the set of nodes to which the ask may go."""
    node: Node | None
    request: Request | None
    """The ask that is assumed on a node for it, while the RM is asked."""

    @property
    def is_free(self) -> bool:
        """True if no ask is assumed for it."""
        return self.request is None or self.request.state is not ASSUMED

    @abstractmethod
    def nodes(self) -> Collection[Node]:
        """All nodes on which the ask may be placed."""

    @abstractmethod
    def hold_for(self, request: Request) -> None:
        """Hold the room for an assumed ask; until the RM has answered, other asks use other nodes."""

    @abstractmethod
    def put_back(self) -> None:
        """Free the room for other asks, as its ask is not assumed any more."""

    @abstractmethod
    def end(self) -> None:
        """End the reservation: the room was used, or is not needed any more."""


def room_for(app: Application, task_group: str) -> MemberRoom | None:
    """The first free room for members of a task group; None if there is none."""
    return next((one for one in app.gang.rooms if one.task_group == task_group and one.is_free), None)


def rooms_of(app: Application, request: Request) -> list[MemberRoom]:
    """Rooms that are held for an assumed ask."""
    return [room for room in app.gang.rooms if room.request is request]


class Claims(Search):
    """The claims of one partition, and the rooms for gang members. `work` counts comparisons of nodes."""

    __slots__ = ("held", "now", "passed", "reasons", "rooms")

    def __init__(self) -> None:
        """Start empty."""
        super().__init__(COMPARISONS_OF_A_TRY)
        self.held: dict[Claim, None] = {}
        """The claims, in the order in which they were made."""
        self.rooms: dict[MemberRoom, None] = {}
        """The rooms that are reserved for members of gangs."""
        self.reasons: set[str] = set()
        """All values that `Room.reason` may have."""
        self.now = 0.0
        """Time of the present turn, in unix seconds, from which runtimes count; 0 before the first."""
        self.passed: Passed | None = None
        """The claim that the present decision passes (`scheduling/cycle.py`)."""
