"""Claims: what an ask, or a whole gang, holds for later, with room on nodes from a time on.

An extension makes claims and plans them anew. The holders are tried before all other asks in every pass.
Until it starts others may use the room, if they end before or leave it free then (`model/nodes/claims.py`).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from licorne_core.messages.claims import BehindReservationCheck
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.node import Node


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


class Claims:
    """The claims of one partition."""

    __slots__ = ("held", "now", "reasons", "work")

    def __init__(self) -> None:
        """Start empty."""
        self.held: dict[Claim, None] = {}
        """The claims, in the order in which they were made."""
        self.reasons: set[str] = set()
        """All that a `Room.reason` may be."""
        self.now = 0.0
        """Time of the turn that decides now, in unix seconds: runtimes count from it; 0 before the first."""
        self.work = 0
        """What searches for claims have cost so far, in looks at nodes (`LOOKS_OF_A_TRY`)."""
