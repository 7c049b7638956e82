"""State that all RMs of a core share: types of resources that no node has, and state of extensions."""

from collections.abc import Iterable, Mapping
from typing import Any

from licorne_core.values.ids import PartitionName
from licorne_core.values.resources import BOUNDLESS, Resources


class Floating:
    """Resource types that no node has, such as licences: they are bounded by quotas alone."""

    def __init__(self) -> None:
        """Start without such types."""
        self.types: frozenset[str] = frozenset()
        """Types of which every node is given `BOUNDLESS`."""
        self.hidden: frozenset[str] = frozenset()
        """Types that reports of nodes omit: `types`, and former floating types that some nodes still have."""

    def added_to(self, capacity: Resources) -> Resources:
        """The capacity of a node, with the floating types."""
        if not self.types:
            return capacity
        return {**capacity, **dict.fromkeys(sorted(self.types), BOUNDLESS)}

    def shown(self, amounts: Resources) -> Resources:
        """Amounts of nodes for readers, without floating types."""
        if not self.hidden:
            return amounts
        return {name: value for name, value in amounts.items() if name not in self.hidden}


class Shared:
    """State of an extension for all partitions together (`points.py`); it lives as long as the core.

    It does not refer to the core or the registry, which is an argument instead, so that no reference cycle
    keeps them alive. While it has work, its name is in `busy`: then the next tick is due immediately, and
    calls the methods below.
    """

    def __init__(self, name: str, busy: dict[str, None]) -> None:
        """Start without work."""
        self.name = name
        self.busy = busy

    def after_command(self, registry: Any) -> None:
        """Process the end of a command, or of the deadlines before a turn."""

    def after_turn(self, registry: Any, now: float) -> None:
        """Process the end of the turn of a tick."""

    def forget(self, partition: PartitionName) -> None:
        """Drop a removed partition and everything that it has booked."""

    def owes(self, partition: PartitionName) -> bool:
        """True if the partition has not been notified of a change that may unblock its asks."""
        return False

    def check(self, registry: Any) -> None:
        """Recompute all sums; raises InvariantBroken if a sum differs."""


class Core:
    """State that belongs to no RM: one object for each scheduler."""

    def __init__(self, kinds: Iterable[tuple[str, type[Shared]]]) -> None:
        """Start without floating types, with these states of extensions."""
        self.floating = Floating()
        self.busy: dict[str, None] = {}
        """Names of the extensions whose state has work left."""
        self.shared: Mapping[str, Shared] = {name: kind(name, self.busy) for name, kind in kinds}
        """States by the names of their extensions, in the order of the table of extensions."""
