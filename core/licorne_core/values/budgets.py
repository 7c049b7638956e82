"""Budgets: bounds on the usage of several RMs together, as operators write them.

A budget is named by its path from the top, such as ``company/research``, whose parent is ``company``.
An application belongs to the budgets that a pattern names it for, and to all above them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from licorne_core.values.ids import RmId
from licorne_core.values.resources import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPattern:
    """RMs, partitions and queues; ``*`` stands for any characters in each.

    `partition` is a name without its RM. `queue` is the path of a leaf or of a queue above it.
    """

    rm: str = "*"
    partition: str = "*"
    queue: str = "*"


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
