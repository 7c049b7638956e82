"""Budgets over RMs: quotas of applications in many partitions.

A budget has quotas at three levels. The quota of a partition is the sum over the budget's applications in it.
It has no own bound, as the other two include it; with it the usage of a dropped partition is removed in
one step. The quota of an RM is bounded by the RM's slice, and the total by the limit if there are no slices.
An application has all three among its quotas, so they are booked like those of queues.

An ask may wait for a budget in one partition while usage ends in another: `FreedQuotas` has the quotas with
more room for which asks wait.
"""

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from heapq import nsmallest
from typing import Any

from licorne_core.extensions.budgets import NAME, QUOTA
from licorne_core.extensions.budgets.messages import Budget, BudgetCheck
from licorne_core.messages.events.allocations import BoundTexts
from licorne_core.model.core import Core
from licorne_core.model.quotas import Quota, SharedQuota, claimed, note_freed
from licorne_core.values.ids import PartitionName, RmId, rm_of
from licorne_core.values.resources import EMPTY, Resources, refund

NO_BUDGET = "Not enough budget"

MOST_HOLDERS = 5
"""Maximum number of RMs that a check names."""


class BudgetQuota(SharedQuota):
    """Usage of a budget: of one partition, of one RM, or in total."""

    __slots__ = ("_freed",)

    def __init__(self, name: str, freed: "FreedQuotas") -> None:
        """Start without usage and bounds.

        The quota refers neither to its account nor to the book, so that no reference cycle keeps them alive.
        """
        room = BoundTexts(f"fits in budget '{name}'", f"exceeds budget '{name}'")
        super().__init__(QUOTA, name, room, NO_BUDGET)
        self._freed = freed

    def __repr__(self) -> str:
        """``<BudgetQuota company/research: {'vcore': 5} of {'vcore': 10}>``."""
        return f"<BudgetQuota {self.name}: {self.allocated} of {self.max}>"

    def freed(self) -> None:
        """Wake the partitions with asks that wait for this quota, after the command."""
        self._freed.quotas[self] = None
        self._freed.set_busy()

    def check(self, core: Core, requested: Resources, short: Resources) -> BudgetCheck:
        """Check an ask against this quota (see `BudgetBook.check`)."""
        shared: Any = core.shared[NAME]
        book: BudgetBook = shared.book
        return book.check(self, requested, short)


class FreedQuotas:
    """Quotas with more room for which asks wait."""

    __slots__ = ("_busy", "quotas")

    def __init__(self, busy: dict[str, None]) -> None:
        """Start without quotas; the extension's name is in `busy` while a partition has to be woken."""
        self._busy = busy
        self.quotas: dict[BudgetQuota, None] = {}

    def set_busy(self) -> None:
        """Record that a count is running, or that partitions have to be woken."""
        self._busy[NAME] = None


class BudgetAccount:
    """A current budget with its quotas."""

    __slots__ = ("_freed", "above", "budget", "by_rm", "name", "parts", "total")

    def __init__(self, budget: Budget, above: "BudgetAccount | None", freed: FreedQuotas) -> None:
        """Start without usage."""
        self._freed = freed
        self.name = budget.name
        self.budget = budget
        self.above = above
        self.total = BudgetQuota(budget.name, freed)
        self.by_rm: dict[RmId, BudgetQuota] = {}
        """The budget's usage by RM, for RMs with partitions in which applications have counted."""
        self.parts: dict[PartitionName, BudgetQuota] = {}
        """The budget's usage by partition, for the same partitions."""
        self.follow(budget)

    def follow(self, budget: Budget) -> None:
        """Replace limit and patterns; asks that wait for the old limit are tried again."""
        self.budget = budget
        self.total.max = dict(budget.limit) if budget.slices is None else None
        for rm_id, quota in self.by_rm.items():
            quota.max = self._bound_of(rm_id)
        note_freed((self.total, *self.by_rm.values()))

    def close(self) -> None:
        """Remove all bounds of a removed budget; the count of members wakes the asks that it held."""
        for quota in (self.total, *self.by_rm.values()):
            quota.max = None

    def _bound_of(self, rm_id: RmId) -> Resources | None:
        slices = self.budget.slices
        if slices is None:
            return None
        own = slices.get(rm_id, {})
        return {name: own.get(name, 0) for name in self.budget.limit}

    def quotas_in(self, partition: PartitionName) -> tuple[BudgetQuota, ...]:
        """The quotas of an application in the partition."""
        part = self.parts.get(partition)
        rm_id = rm_of(partition)
        if part is None:
            part = self.parts[partition] = BudgetQuota(self.name, self._freed)
            if rm_id not in self.by_rm:
                own = self.by_rm[rm_id] = BudgetQuota(self.name, self._freed)
                own.max = self._bound_of(rm_id)
            part.above = (self.by_rm[rm_id], self.total)
        return (part, self.by_rm[rm_id], self.total)

    def slice_of(self, quota: BudgetQuota) -> str:
        """The RM whose slice bounds the quota; empty if the limit bounds it."""
        return next((rm_id for rm_id, own in self.by_rm.items() if own is quota), "")

    def holders(self, types: Collection[str]) -> tuple[tuple[RmId, Resources], ...]:
        """The RMs with the largest usage of these types, the largest first, each with its whole usage."""

        def most(own: tuple[RmId, BudgetQuota]) -> tuple[int, RmId]:
            return -sum(own[1].allocated.get(name, 0) for name in types), own[0]

        found = nsmallest(MOST_HOLDERS, self.by_rm.items(), key=most) if types else []
        return tuple((rm_id, dict(own.allocated)) for rm_id, own in found if own.allocated)

    def forget(self, partition: PartitionName) -> None:
        """Remove the usage of a removed partition."""
        part = self.parts.pop(partition, None)
        if part is None:
            return
        rm_id = rm_of(partition)
        own = self.by_rm[rm_id]
        for quota in (own, self.total):
            quota.waiters = {pool: name for pool, name in quota.waiters.items() if name != partition}
            refund(quota.allocated, tuple(part.allocated.items()))
            refund(quota.preempting, tuple(part.preempting.items()))
            refund(quota.promised, tuple(part.promised.items()))
            refund(quota.withheld, tuple(part.withheld.items()))
        if not any(rm_of(name) == rm_id for name in self.parts):
            del self.by_rm[rm_id]
        note_freed((own, self.total))


class BudgetBook:
    """All budgets of a core, and the partitions with asks that wait for them."""

    def __init__(self, busy: dict[str, None]) -> None:
        """Start without budgets; the extension's name is in `busy` while a partition has to be woken."""
        self.freed = FreedQuotas(busy)
        self.accounts: dict[str, BudgetAccount] = {}
        """Accounts by name, parents before children."""
        self.version = 0
        """Rises whenever the members of budgets may have changed."""
        self.waking: deque[tuple[Quota, PartitionName]] = deque()
        """Quotas with more room, each with a partition that has not been woken yet."""

    def set(self, budgets: Sequence[Budget]) -> None:
        """Replace all budgets; a budget of the same name keeps its usage."""
        former, self.accounts = self.accounts, {}
        for budget in budgets:
            account = former.pop(budget.name, None)
            if account is None:
                account = BudgetAccount(budget, self.accounts.get(budget.parent), self.freed)
            else:
                # Its parent is the same too, as a budget is named by its path.
                account.follow(budget)
            self.accounts[budget.name] = account
        for account in former.values():
            account.close()
        self.version += 1

    def forget(self, partition: PartitionName) -> None:
        """Remove the usage of a removed partition."""
        for account in self.accounts.values():
            account.forget(partition)

    def to_wake(self, most: int) -> Iterator[tuple[Quota, PartitionName]]:
        """Quotas with more room, each with a partition that waits for it; at most `most` of them."""
        waking, freed = self.waking, self.freed.quotas
        for _ in range(most):
            while freed and not waking:
                quota = next(iter(freed))
                del freed[quota]
                waking.extend((pool.thing, name) for pool, name in quota.waiters.items())
            if not waking:
                return
            yield waking.popleft()

    def check(self, quota: BudgetQuota, requested: Resources, short: Resources) -> BudgetCheck:
        """The check of an ask that lacks `short` in a quota, which must have a bound."""
        account = self.accounts[quota.name]
        return BudgetCheck(
            budget=quota.name,
            requested=requested,
            used=dict(claimed(quota)),
            bound=dict(quota.max or EMPTY),
            slice_of=account.slice_of(quota),
            holders=account.holders(short),
            short=short,
        )
