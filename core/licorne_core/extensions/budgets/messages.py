"""Budgets over RMs as values; their commands, the check of an ask, and reports.

A budget is named by its path from the top, such as ``company/research``, whose parent is ``company``. An
application belongs to the budgets with a pattern that matches it, and to all ancestors of these budgets.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from licorne_core.extensions.budgets import QUOTA
from licorne_core.messages.checks import ExtensionCheck, Shown
from licorne_core.messages.commands import SharedCommand
from licorne_core.values.ids import PartitionName, RmId, bare_partition, rm_of
from licorne_core.values.names import WILDCARD, fits_pattern
from licorne_core.values.resources import Resources, in_units

SEPARATOR = "/"
"""Separates the levels of a budget's name."""
BUDGET_EXCEEDED: Final = "BUDGET_EXCEEDED"
"""Code of `BudgetCheck`."""
QUOTA_CODES: Final = {QUOTA: BUDGET_EXCEEDED}
"""Codes by kind of quota (`messages/reasons.py`)."""


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
        """True if the pattern matches the partition and its RM."""
        bare = bare_partition(name).lower()
        return fits_pattern(self.rm, rm_of(name)) and fits_pattern(self.partition.lower(), bare)

    def fits_queue(self, lineage: Iterable[str]) -> bool:
        """True if the pattern matches one of these paths: of a leaf, and of the queues above it."""
        return any(fits_pattern(self.queue, path) for path in lineage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A budget with its own patterns; applications of its children count in this budget too.

    `limit` bounds the types that it names. Without `slices` it bounds the usage of all RMs together.
    With `slices`, each RM is bounded by its slice only: an RM or a type without a slice may use nothing.
    """

    name: str
    limit: Resources
    members: tuple[BudgetPattern, ...] = ()
    slices: Mapping[RmId, Resources] | None = None

    @property
    def parent(self) -> str:
        """The name of the budget above; empty for a budget at the top."""
        return self.name.rpartition(SEPARATOR)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBudgets(SharedCommand):
    """Replace all budgets, parents before children; raises ConfigError for invalid ones.

    `floating` types, such as licences, are on no node, and are bounded only by budgets and maxima. New limits
    and slices apply immediately. Members are counted in slices of a job: until it ends, an application counts
    in its new budgets from its turn on, and in its former ones as well.
    """

    budgets: Sequence[Budget]
    floating: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBudgetSlices(SharedCommand):
    """Replace the slices of one budget with those that the escrow has computed.

    Raises NotFound for an unknown budget.
    """

    budget: str
    slices: Mapping[RmId, Resources]


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetCheck(ExtensionCheck):
    """Usage of a budget, with the ask, must stay within its limit, or within the RM's `slice_of`.

    `bound` is the limit, or the slice if `slice_of` names an RM; `used` is the usage that it bounds.
    `holders` has the usage of the RMs that use most of the short types, the largest first. `short` is the
    excess of each type; empty when the ask fits.
    """

    budget: str
    requested: Resources
    used: Resources
    bound: Resources
    slice_of: str
    holders: tuple[tuple[RmId, Resources], ...]
    short: Resources

    @property
    def code(self) -> str:
        """``BUDGET_EXCEEDED``."""
        return BUDGET_EXCEEDED

    @property
    def passed(self) -> bool:
        """True if the ask fits within the bound."""
        return not self.short

    def message(self) -> str:
        """The reason in one sentence."""
        if self.passed:
            return f"fits in budget {self.budget}"
        what = f"the slice of RM {self.slice_of} in budget" if self.slice_of else "budget"
        text = f"exceeds {what} {self.budget} by {in_units(self.short)}"
        held = ", ".join(f"{rm_id} {in_units(used)}" for rm_id, used in self.holders)
        return f"{text}; held by {held}" if held else text

    def shown(self) -> Shown:
        """The budget, its usage, and the RMs with the largest usage."""
        return Shown(QUOTA, self.budget, 0.0, self.requested, self.used, self.bound, dict(self.holders))

    def seen_by(self, may_see: Callable[[RmId], bool]) -> "BudgetCheck":
        """The check without RMs that the reader may not see."""
        return replace(self, holders=tuple(held for held in self.holders if may_see(held[0])))


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetUse:
    """Usage of a budget by one RM.

    `wanted` has the amounts that asks blocked by the budget need beyond the RM's slice, or beyond the limit
    if there are no slices; if there are very many asks, only some are counted. `overdraft` is the usage above
    the slice.
    """

    used: Resources
    wanted: Resources
    overdraft: Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetReport:
    """A budget with its usage in total and by RM.

    `overdraft` is the usage of all RMs above the limit, if there are no slices. `counting` is true as long as
    a change of budgets has not counted all members.
    """

    name: str
    limit: Resources
    members: tuple[BudgetPattern, ...]
    slices: Mapping[RmId, Resources] | None
    used: Resources
    overdraft: Resources
    rms: Mapping[RmId, BudgetUse]
    counting: bool
