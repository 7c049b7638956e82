"""What the partitions of one RM have kept that are not there: one of the name takes it over."""

from licorne_core.messages.kept import MOST_KEPT, Kept, KeptByPartition
from licorne_core.values.ids import PartitionName, partition_key


class KeptOfPartitions:
    """What is kept of partitions by their names, the first that was dropped first."""

    by_name: dict[PartitionName, Kept]

    def __init__(self, kept: KeptByPartition) -> None:
        """Start with what was kept before the registration."""
        self.by_name = dict(kept)

    def of(self, name: PartitionName) -> list[Kept]:
        """What a partition of the name, in any case of letters, is to know."""
        key = partition_key(name)
        return [kept for known, kept in self.by_name.items() if partition_key(known) == key]

    def forget(self, name: PartitionName) -> None:
        """The partition is there, and knows by itself."""
        key = partition_key(name)
        self.by_name = {known: kept for known, kept in self.by_name.items() if partition_key(known) != key}

    def keep(self, name: PartitionName, kept: Kept) -> None:
        """Keep for a partition that is dropped, as its configuration may come back.

        All of them together have as much of an extension as one partition may keep of owners that are
        gone. Of more, the partition that was dropped first is forgotten.
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
