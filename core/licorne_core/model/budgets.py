"""Budgets over RMs: quotas of applications in many partitions.

A budget has a quota at three levels. That of a partition is the sum over its applications there, and
bounds nothing: with it the usage of a partition goes at once when the partition is dropped. That of
an RM is bounded by the RM's slice, and the total by the limit if there are no slices. An
application has all three among its quotas, and so they are booked like those of queues.

An ask may wait for a budget in one partition while usage goes in another: `BudgetBook.freed` has the
quotas with more room for which somebody waits.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import nsmallest

from licorne_core.messages.budgets import BudgetCheck, SetBudgets
from licorne_core.model.quotas import Quota, claimed
from licorne_core.values.budgets import ANY, SEPARATOR, Budget, BudgetPattern
from licorne_core.values.ids import AppId, PartitionName, QueuePath, RmId, rm_of
from licorne_core.values.resources import BOUNDLESS, EMPTY, Resources, refund

MOST_HOLDERS = 5
"""RMs that a check names."""

MOST_PATHS = 10_000
"""Leaves whose budgets are kept in mind in one partition."""


class BudgetQuota(Quota):
    """Usage of a budget in a partition, by an RM, or by all."""

    __slots__ = ("freed", "waiters")

    freed: "Freed"
    """Where it is noted when it has more room; it does not know its account, so that no cycle of
    references is left of either."""
    waiters: dict[PartitionName, None]
    """Partitions with asks that this quota blocks."""

    def __init__(self, name: str, freed: "Freed") -> None:
        """Start unbooked and unbounded."""
        # A type that a budget does not name is not limited.
        super().__init__("budget", name, QueuePath(""), strict=False)
        self.freed = freed
        self.waiters = {}

    def __repr__(self) -> str:
        """``<BudgetQuota company/research: {'vcore': 5} of {'vcore': 10}>``."""
        return f"<BudgetQuota {self.name}: {self.allocated} of {self.max}>"

    @property
    def started_applications(self) -> int:
        """Budgets bound no number of applications."""
        return 0

    def counts(self, app_id: AppId) -> bool:
        """Budgets count no applications."""
        return False


Freed = dict[BudgetQuota, None]
"""Quotas that may have more room, for which somebody waits."""


class Account:
    """A budget in force, with its quotas."""

    __slots__ = ("_freed", "above", "budget", "by_rm", "name", "parts", "total")

    def __init__(self, budget: Budget, above: "Account | None", freed: Freed) -> None:
        """Start without usage."""
        self._freed = freed
        self.name = budget.name
        self.budget = budget
        self.above = above
        self.total = BudgetQuota(budget.name, freed)
        self.by_rm: dict[RmId, BudgetQuota] = {}
        """RMs with partitions in which applications have counted."""
        self.parts: dict[PartitionName, BudgetQuota] = {}
        """The same partitions."""
        self.follow(budget)

    def follow(self, budget: Budget) -> None:
        """Take other bounds and patterns; asks that wait for the former bounds are tried again."""
        self.budget = budget
        self.total.max = dict(budget.limit) if budget.slices is None else None
        for rm_id, quota in self.by_rm.items():
            quota.max = self._bound_of(rm_id)
        note_freed((self.total, *self.by_rm.values()))

    def close(self) -> None:
        """The budget is gone: nothing is bounded by it any more."""
        for quota in (self.total, *self.by_rm.values()):
            quota.max = None
        note_freed((self.total, *self.by_rm.values()))

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
        return (part, self.by_rm[rm_id], self.total)

    def slice_of(self, quota: BudgetQuota) -> str:
        """The RM whose slice bounds the quota; empty for the limit."""
        return next((rm_id for rm_id, own in self.by_rm.items() if own is quota), "")

    def holders(self, types: Collection[str]) -> tuple[tuple[RmId, Resources], ...]:
        """The RMs with most of these types, the largest first, with all that they have."""

        def most(own: tuple[RmId, BudgetQuota]) -> tuple[int, RmId]:
            return -sum(own[1].allocated.get(name, 0) for name in types), own[0]

        found = nsmallest(MOST_HOLDERS, self.by_rm.items(), key=most) if types else []
        return tuple((rm_id, dict(own.allocated)) for rm_id, own in found if own.allocated)

    def forget(self, partition: PartitionName) -> None:
        """The partition is gone, with all that it has booked here."""
        part = self.parts.pop(partition, None)
        if part is None:
            return
        rm_id = rm_of(partition)
        own = self.by_rm[rm_id]
        for quota in (own, self.total):
            quota.waiters.pop(partition, None)
            refund(quota.allocated, tuple(part.allocated.items()))
            refund(quota.preempting, tuple(part.preempting.items()))
            refund(quota.promised, tuple(part.promised.items()))
            refund(quota.kept, tuple(part.kept.items()))
        if not any(rm_of(name) == rm_id for name in self.parts):
            del self.by_rm[rm_id]
        note_freed((own, self.total))


def note_freed(quotas: Iterable[BudgetQuota]) -> None:
    """Note that budgets may have more room, for those who wait in any partition."""
    for quota in quotas:
        if quota.waiters:
            quota.freed[quota] = None


class BudgetBook:
    """All budgets, and the resource types that are on no node."""

    def __init__(self) -> None:
        """Start without budgets."""
        self.accounts: dict[str, Account] = {}
        """By name, parents before children."""
        self.floating: frozenset[str] = frozenset()
        """Types of which every node has `BOUNDLESS`."""
        self.hidden: frozenset[str] = frozenset()
        """Types that reports of nodes leave out: also former ones that some nodes still have."""
        self.version = 0
        """Rises whenever other applications may be members."""
        self.freed: Freed = {}
        self.waking: deque[tuple[BudgetQuota, PartitionName]] = deque()
        """Those of them that are being told, each with a partition that has not heard of it."""

    def set(self, command: SetBudgets) -> None:
        """Replace all budgets; a budget of the same name keeps its usage."""
        former, self.accounts = self.accounts, {}
        for budget in command.budgets:
            account = former.pop(budget.name, None)
            above = self.accounts.get(budget.parent)
            if account is None:
                account = Account(budget, above, self.freed)
            else:
                # A parent of the same name may be another one.
                account.above = above
                account.follow(budget)
            self.accounts[budget.name] = account
        for account in former.values():
            account.close()
        self.hidden |= command.floating
        self.floating = command.floating
        self.version += 1

    def forget(self, partition: PartitionName) -> None:
        """The partition is gone."""
        for account in self.accounts.values():
            account.forget(partition)

    def to_wake(self, most: int) -> Iterator[tuple[BudgetQuota, PartitionName]]:
        """Quotas with more room, each with a partition that waits for it; so many at most."""
        waking, freed = self.waking, self.freed
        for _ in range(most):
            while freed and not waking:
                quota = next(iter(freed))
                del freed[quota]
                waking.extend((quota, name) for name in quota.waiters)
            if not waking:
                return
            yield waking.popleft()

    def check(self, quota: BudgetQuota, requested: Resources, short: Resources) -> BudgetCheck:
        """The check of an ask that lacks `short` in a quota, which has to be bounded."""
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

    def with_floating(self, capacity: Resources) -> Resources:
        """The capacity of a node, with the floating types."""
        if not self.floating:
            return capacity
        return {**capacity, **dict.fromkeys(sorted(self.floating), BOUNDLESS)}

    def shown(self, amounts: Resources) -> Resources:
        """Amounts of nodes for readers, without floating types."""
        if not self.hidden:
            return amounts
        return {name: value for name, value in amounts.items() if name not in self.hidden}


class PartitionBudgets:
    """Finds the budgets of the applications of one partition."""

    def __init__(self, book: BudgetBook, name: PartitionName) -> None:
        """Find budgets of the book."""
        self.book = book
        self._name = name
        self._version = -1
        self._known: dict[QueuePath, tuple[BudgetQuota, ...]] = {}
        self._exact: dict[str, list[Account]] = {}
        self._wild: list[tuple[Account, BudgetPattern]] = []

    def of(self, lineage: Sequence[Quota]) -> tuple[BudgetQuota, ...]:
        """Quotas of the applications in a leaf, which is the first of the queues up to root.

        Those of lower budgets come first.
        """
        if not self.book.accounts:
            return ()
        if self._version != self.book.version:
            self._prepare()
        leaf = lineage[0].path
        known = self._known.get(leaf)
        if known is None:
            if len(self._known) >= MOST_PATHS:
                self._known.clear()
            known = self._known[leaf] = self._find([queue.path for queue in lineage])
        return known

    def _prepare(self) -> None:
        """Keep the patterns that describe the partition."""
        self._version = self.book.version
        self._known.clear()
        self._exact.clear()
        self._wild.clear()
        for account in self.book.accounts.values():
            for member in account.budget.members:
                if not member.fits_partition(self._name):
                    continue
                if ANY in member.queue and member.queue != ANY:
                    self._wild.append((account, member))
                else:
                    self._exact.setdefault(member.queue, []).append(account)

    def _find(self, lineage: list[QueuePath]) -> tuple[BudgetQuota, ...]:
        found: dict[Account, None] = {}
        for path in (ANY, *lineage):
            found.update(dict.fromkeys(self._exact.get(path, ())))
        for account, member in self._wild:
            if account not in found and member.fits_queue(lineage):
                found[account] = None
        for account in list(found):
            above = account.above
            while above is not None:
                found[above] = None
                above = above.above
        lower_first = sorted(found, key=lambda account: (-account.name.count(SEPARATOR), account.name))
        return tuple(quota for account in lower_first for quota in account.quotas_in(self._name))
