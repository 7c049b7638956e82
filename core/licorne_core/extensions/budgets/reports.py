"""Reports of budgets, with their usage and the amounts that blocked asks need."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from licorne_core.extensions.budgets.accounts import BudgetAccount, BudgetQuota
from licorne_core.extensions.budgets.messages import BudgetReport, BudgetUse
from licorne_core.extensions.budgets.shared import budgets_of
from licorne_core.model.apps.groups import AskGroup
from licorne_core.model.quotas import Quota, headroom
from licorne_core.partitions.registry import Registry
from licorne_core.values.errors import NotFound, shown
from licorne_core.values.ids import RmId, rm_of
from licorne_core.values.resources import EMPTY, Items, Resources
from licorne_core.views import Views

MOST_ITEMS: Final = 1_000
"""Maximum number of blocked items, such as groups of asks, that are examined for one RM and budget."""


def budget_reports(views: Views) -> tuple[BudgetReport, ...]:
    """All budgets, parents before children."""
    registry = views.registry
    return tuple(_report(registry, account) for account in budgets_of(registry.core).book.accounts.values())


def budget_report(views: Views, name: str) -> BudgetReport:
    """One budget.

    Raises:
        NotFound: there is no budget with the name.
    """
    account = budgets_of(views.registry.core).book.accounts.get(name)
    if account is None:
        raise NotFound(f"budget {shown(name)} not found")
    return _report(views.registry, account)


def _report(registry: Registry, account: BudgetAccount) -> BudgetReport:
    budget = account.budget
    rm_ids = dict.fromkeys((*account.by_rm, *(budget.slices or ())))
    return BudgetReport(
        name=account.name,
        limit=budget.limit,
        members=budget.members,
        slices=budget.slices,
        used=dict(account.total.allocated),
        overdraft=_above(account.total),
        rms={rm_id: _use(account, rm_id) for rm_id in rm_ids},
        counting=budgets_of(registry.core).counting is not None,
    )


def _use(account: BudgetAccount, rm_id: RmId) -> BudgetUse:
    own = account.by_rm.get(rm_id)
    if own is None:
        return BudgetUse(used=EMPTY, wanted=EMPTY, overdraft=EMPTY)
    bound = own if own.max is not None else account.total
    return BudgetUse(used=dict(own.allocated), wanted=_wanted(bound, rm_id), overdraft=_above(own))


def _above(quota: BudgetQuota) -> Resources:
    return {name: -left for name, left in headroom(quota).items() if left < 0 and name in quota.allocated}


def _wanted(bound: BudgetQuota, rm_id: RmId) -> Resources:
    """Amounts that blocked asks of the RM need beyond the remaining amounts."""
    wanted: dict[str, int] = {}
    for items, number in _blocked(bound, rm_id):
        for name, value in items:
            wanted[name] = wanted.get(name, 0) + value * number
    left = headroom(bound)
    beyond = {name: value - max(0, left[name]) for name, value in wanted.items() if name in left}
    return {name: value for name, value in beyond.items() if value > 0}


def _blocked(bound: BudgetQuota, rm_id: RmId) -> Iterator[tuple[Items, int]]:
    """Sizes of asks that the quota blocks, each with the number of these asks in a group.

    Where asks wait for amounts that claims hold, these have to be left beside them.
    """
    groups: dict[AskGroup, None] = {}
    quotas: dict[Quota, None] = {}
    pools = [pool for pool, name in bound.waiters.items() if rm_of(name) == rm_id]
    items = ((pool, one) for pool in pools for line in pool.waiting_lines.values() for one in line.members)
    for pool, one in islice(items, MOST_ITEMS):
        if isinstance(one, AskGroup):
            groups[one] = quotas[pool.thing] = None
            yield one.ask_class.items, one.waiting
    claims = {claim: room for quota in quotas for claim, room in quota.claims.items()}
    for claim, room in claims.items():
        if not any(request.group in groups for request, _ in islice(claim.members, MOST_ITEMS)):
            yield room.items, 1
