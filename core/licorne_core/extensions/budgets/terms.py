"""Budgets: bounds on the usage of several RMs together, as operators write them.

A budget is named by its path from the top, such as ``company/research``, whose parent is ``company``.
An application belongs to the budgets that a pattern names it for, and to all above them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from licorne_core.values.ids import PartitionName, RmId, bare_partition, rm_of
from licorne_core.values.names import WILDCARD, fits_pattern
from licorne_core.values.resources import Resources

SEPARATOR = "/"
"""Between the levels of a budget's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPattern:
    """RMs, partitions and queues; ``*`` stands for any characters in each.

    `partition` is a name without its RM, in any case of letters. `queue` is the path of a leaf or
    of a queue above it.
    """

    rm: str = WILDCARD
    partition: str = WILDCARD
    queue: str = WILDCARD

    def fits_partition(self, name: PartitionName) -> bool:
        """True if it describes the partition and its RM."""
        bare = bare_partition(name).lower()
        return fits_pattern(self.rm, rm_of(name)) and fits_pattern(self.partition.lower(), bare)

    def fits_queue(self, lineage: Iterable[str]) -> bool:
        """True if it describes one of these paths: of a leaf, and of the queues above it."""
        return any(fits_pattern(self.queue, path) for path in lineage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A budget with its own patterns; applications of its children count in it too.

    `limit` bounds the types that it names. Without `slices` it bounds the usage of all RMs together.
    With them, each RM is bounded by its slice alone: an RM or a type that they do not name has none.
    """

    name: str
    limit: Resources
    members: tuple[BudgetPattern, ...] = ()
    slices: Mapping[RmId, Resources] | None = None

    @property
    def parent(self) -> str:
        """The name of the budget above; empty at the top."""
        return self.name.rpartition(SEPARATOR)[0]
