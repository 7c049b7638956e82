"""Gates: what has to change before a blocked ask is worth another look.

A gate is an ask class (a node that fits is missing), a `QuotaGate`, a quota and `RUNNING` (it lets
no further application start), an application and `BACKOFF`, or one of the others below.
"""

from collections.abc import Hashable
from typing import NamedTuple

from licorne_core.asks import AskClass
from licorne_core.quotas import Quota, within_max
from licorne_core.scheduling.starved import Starved

Gate = Hashable
BACKOFF = "back-off"
"""Stands for the class in the gate of an application that is not looked at for a while."""
PREDICATES = "predicates"
"""The gate of asks about which the RM must be asked, while it owes too many answers already."""
RUNNING = "running applications"
"""Stands for the class in the gate of a quota that lets no further application start."""


class QuotaGate(NamedTuple):
    """The maximum of the quota is in the way of the class."""

    quota: Quota
    ask_class: AskClass


class Gates:
    """Which gates have opened since a pass found them shut.

    `opened` has them in the order in which they opened, `count` says how often any did. Many may
    open by one node that has room for one ask: whether a class still has a node is seen
    before anybody is woken for it.
    """

    __slots__ = ("_starved", "count", "opened")

    def __init__(self, starved: Starved) -> None:
        """All are shut; `starved` knows which classes have no node."""
        self._starved = starved
        self.opened: dict[Gate, None] = {}
        self.count = 0

    def open(self, gate: Gate) -> None:
        """What the gate blocked is worth another look."""
        self.opened[gate] = None
        self.count += 1

    def shut(self, gate: Gate) -> None:
        """A look has shown that it is not."""
        self.opened.pop(gate, None)

    def shut_all(self) -> None:
        """A pass is through: what is open now blocks nobody."""
        for gate in self.opened:
            if isinstance(gate, AskClass):
                self._starved.leave(gate)
        self.opened.clear()

    def is_open(self, gate: Gate) -> bool:
        """Whether the gate is open, and is going to let somebody through."""
        if gate not in self.opened:
            return False
        if not self._is_passable(gate):
            del self.opened[gate]
            return False
        return True

    def _is_passable(self, gate: Gate) -> bool:
        if isinstance(gate, AskClass):
            return self._starved.is_fed(gate)
        if isinstance(gate, QuotaGate) and not within_max(gate.quota, gate.ask_class.items):
            gate.quota.short_of[gate.ask_class] = None
            return False
        return True
