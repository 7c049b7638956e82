"""Retained state of the absent partitions of one RM, which a new partition of the same name restores."""

from licorne_core.messages.kept import MOST_KEPT, Kept, KeptByPartition
from licorne_core.values.ids import PartitionName, partition_key


class KeptOfPartitions:
    """Retained state by names of partitions, in the order in which these were dropped."""

    by_name: dict[PartitionName, Kept]

    def __init__(self, kept: KeptByPartition) -> None:
        """Start with the state retained before the registration."""
        self.by_name = dict(kept)

    def of(self, name: PartitionName) -> list[Kept]:
        """Retained state for a partition of the name, in any case of letters."""
        key = partition_key(name)
        return [kept for known, kept in self.by_name.items() if partition_key(known) == key]

    def forget(self, name: PartitionName) -> None:
        """Drop the state of a partition that exists again."""
        key = partition_key(name)
        self.by_name = {known: kept for known, kept in self.by_name.items() if partition_key(known) != key}

    def keep(self, name: PartitionName, kept: Kept) -> None:
        """Retain the state of a dropped partition, as its configuration may be added again.

        All absent partitions together may retain as much for an extension as one partition does for absent
        owners. Beyond that, the partition dropped first loses its state.
        """
        of_use = {of: [one for one in things.items() if one[1]] for of, things in kept.items()}
        newest = {of: dict(things[-MOST_KEPT:]) for of, things in of_use.items() if things}
        if newest:
            self.by_name[name] = newest
        while self._has_too_much():
            del self.by_name[next(iter(self.by_name))]

    def _has_too_much(self) -> bool:
        counts: dict[str, int] = {}
        for kept in self.by_name.values():
            for of, things in kept.items():
                counts[of] = counts.get(of, 0) + len(things)
        return max(counts.values(), default=0) > MOST_KEPT
