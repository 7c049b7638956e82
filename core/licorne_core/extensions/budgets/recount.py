"""B1: usage of a budget is the sum over its RMs, and usage of an RM the sum over its partitions.

The usage of a partition is the sum over the applications that belong to the budget, which the kernel
recounts. A budget lists the partitions in which asks wait for it.
"""

from licorne_core.extensions.budgets.accounts import BudgetBook, BudgetQuota
from licorne_core.model.quotas import Quota
from licorne_core.partitions.registry import Registry
from licorne_core.scheduling.waiting.shortages import QuotaPool
from licorne_core.values.ids import rm_of
from licorne_core.values.resources import describe, equals, sum_of
from licorne_core.views.audit.rules import require

_AMOUNTS = ("allocated", "preempting", "promised", "withheld")


def check_books(book: BudgetBook, registry: Registry, *, is_counting: bool) -> None:
    """Compare the levels of each budget, and applications with the budgets whose patterns match them.

    While members are counted, an application may not have entered a budget, or not have left it.

    Raises:
        InvariantBroken: an amount or a membership differs.
    """
    for account in book.accounts.values():
        at = f"budget {account.name}"
        gone = [name for name in account.parts if name not in registry.partitions]
        require("B1", not gone, f"{at} has usage in {gone}, which are gone")
        require("B1", {rm_of(name) for name in account.parts} == {*account.by_rm}, f"{at}: {account.by_rm}")
        for what in _AMOUNTS:
            for rm_id, own in account.by_rm.items():
                here = [part for name, part in account.parts.items() if rm_of(name) == rm_id]
                _same_sum(f"{at} of {rm_id}: {what}", own, here, what)
            _same_sum(f"{at}: {what}", account.total, list(account.parts.values()), what)
        for quota in (account.total, *account.by_rm.values()):
            waiting = {
                name
                for name, partition in registry.partitions.items()
                if any(quota in one.thing.bounding() for one in partition.wakeups.blockers.like(QuotaPool))
            }
            noted = {*quota.waiters.values()}
            require("B1", waiting == noted, f"{at}: {noted} wait, not {waiting}")
    for partition in registry.partitions.values():
        for app in partition.applications.values():
            right = partition.limits.further(app, app.leaf)
            known = is_counting or app.further == right
            require("B1", known, f"{app!r} counts in {app.further}, not in {right}")


def _same_sum(at: str, quota: Quota, parts: list[BudgetQuota], what: str) -> None:
    booked, counted = getattr(quota, what), sum_of(getattr(part, what) for part in parts)
    require("B1", equals(booked, counted), f"{at}: {describe(booked)}, counted {describe(counted)}")
