"""What all RMs of a core have in common: types that are on no node, and what extensions share."""

from collections.abc import Iterable, Mapping
from typing import Any

from licorne_core.values.ids import PartitionName
from licorne_core.values.resources import BOUNDLESS, Resources


class Floating:
    """Resource types that are on no node, such as licences: quotas alone bound them."""

    def __init__(self) -> None:
        """Start without such types."""
        self.types: frozenset[str] = frozenset()
        """Types of which every node has `BOUNDLESS`."""
        self.hidden: frozenset[str] = frozenset()
        """Types that reports of nodes leave out: also former ones that some nodes still have."""

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
    """What an extension has in common for all partitions (`points.py`), as long as the core is there.

    It knows neither the core nor the registry, which is given to it, so that no cycle of references is left
    of either. While it has work left its name is in `busy`: a tick comes at once, and it is told of all that
    ends.
    """

    def __init__(self, name: str, busy: dict[str, None]) -> None:
        """With nothing to do."""
        self.name = name
        self.busy = busy

    def after_command(self, registry: Any) -> None:
        """A command has ended, or the deadlines that come before a turn have."""

    def after_turn(self, registry: Any, now: float) -> None:
        """The turn of a tick has ended."""

    def forget(self, partition: PartitionName) -> None:
        """The partition is gone, with all that it has booked."""

    def owes(self, partition: PartitionName) -> bool:
        """True if the partition has still to hear of what may let its asks through."""
        return False

    def check(self, registry: Any) -> None:
        """Add all up anew; raises InvariantBroken if something differs."""


class Core:
    """What is of no RM: one of each scheduler."""

    def __init__(self, kinds: Iterable[tuple[str, type[Shared]]]) -> None:
        """Start without floating types, and with these parts of extensions."""
        self.floating = Floating()
        self.busy: dict[str, None] = {}
        """Extensions whose part has work left."""
        self.shared: Mapping[str, Shared] = {name: kind(name, self.busy) for name, kind in kinds}
        """By the names of extensions, in the order of their table."""
