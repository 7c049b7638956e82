"""Budgets: bounds on the usage of several RMs together, as operators write them.

A budget is named by its path from the top, such as ``company/research``, whose parent is ``company``.
An application belongs to the budgets that a pattern names it for, and to all above them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from licorne_core.values.ids import PartitionName, RmId, bare_partition, rm_of
from licorne_core.values.resources import Resources

ANY = "*"
"""Stands for any characters of a name, or for none."""

SEPARATOR = "/"
"""Between the levels of a budget's name."""


def fits_pattern(pattern: str, name: str) -> bool:
    """True if the pattern, in which `ANY` stands for any characters, describes the whole name.

    Each text between two of them is searched once, from the left, so that the time is bounded by
    the length of the name for each.
    """
    first, *rest = pattern.split(ANY)
    if not rest:
        return pattern == name
    last = rest.pop()
    end = len(name) - len(last)
    if end < len(first) or not (name.startswith(first) and name.endswith(last)):
        return False
    at = len(first)
    for part in rest:
        at = name.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPattern:
    """RMs, partitions and queues; ``*`` stands for any characters in each.

    `partition` is a name without its RM, in any case of letters. `queue` is the path of a leaf or
    of a queue above it.
    """

    rm: str = ANY
    partition: str = ANY
    queue: str = ANY

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
