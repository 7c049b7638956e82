"""Budgets of hours, compared with the settings of queues and with the books."""

from licorne_core.extensions.hours import NAME
from licorne_core.extensions.hours.book import HoursBook
from licorne_core.model.queues.tree import QueueTree
from licorne_core.values.errors import InvariantBroken


def check_budgets(book: HoursBook, tree: QueueTree, bit: int, *, settled: bool) -> None:
    """Compare the budgets with settings and usage, and the bits of queues.

    Raises:
        InvariantBroken: a setting, a bit or an amount differs.
    """
    for queue in tree.all():
        budgets = book.of.get(queue, ())
        wanted = [limit.resource for limit in queue.settings.of(NAME) or ()]
        has_hours = any(above in book.of for above in queue.lineage)
        if settled and (
            has_hours != bool(queue.interests & bit) or wanted != [budget.resource for budget in budgets]
        ):
            raise InvariantBroken(f"F2: queue {queue.path} has hours: {budgets}, of {wanted}")
        for budget in budgets:
            amount = queue.allocated.get(budget.resource, 0)
            if budget.amount != amount:
                raise InvariantBroken(f"F1: queue {queue.path}: {budget.amount} {budget.resource}")
