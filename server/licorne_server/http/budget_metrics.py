"""Metrics of budgets over RMs, in bounded numbers."""

from collections.abc import Iterable, Iterator

from licorne_core.values.resources import Resources
from licorne_server.http.families import Families
from licorne_server.rms.budgets.members import BudgetState

MAX_BUDGETS = 100
"""Most budgets with metrics, those nearest to the top of the file first."""

MAX_HOLDERS = 50
"""Most RMs of a budget with metrics of their own, by their ids."""

MAX_RESOURCES = 16
"""Most resources of a budget, by their names."""

OTHERS = "(others)"
"""Id for all other RMs, so that sums are complete."""

_LIMIT = ("licorne_budget_limit", "Limits of budgets over RMs.")
_OF_RMS = (
    ("used", "licorne_budget_used", "What RMs use of budgets."),
    ("slice", "licorne_budget_slice", "What RMs may use of budgets, where several members share these."),
    ("overdraft", "licorne_budget_overdraft", "What RMs use beyond their slices."),
)


def gather_budgets(budgets: Iterable[BudgetState], families: Families) -> Iterator[None]:
    """Add the metrics of budgets, one budget at each step; the caller may pause at each."""
    for number, budget in enumerate(budgets):
        yield
        if number >= MAX_BUDGETS:
            return
        names = sorted(budget.limit)[:MAX_RESOURCES]
        _put(families, *_LIMIT, (budget.name,), budget.limit, names)
        # Each member publishes the metrics of its own RMs.
        holdings = [holding for holding in budget.holdings if holding.here]
        for place, holding in enumerate(holdings):
            where = (budget.name, str(holding.rm_id) if place < MAX_HOLDERS else OTHERS)
            for field, name, text in _OF_RMS:
                _put(families, name, text, where, getattr(holding, field), names)


def _put(
    families: Families, name: str, text: str, where: tuple[str, ...], amounts: Resources, names: list[str]
) -> None:
    labels = ("budget", "rm", "resource") if len(where) > 1 else ("budget", "resource")
    values: dict[tuple[str, ...], float] = {(one,): amounts[one] for one in names if one in amounts}
    families.put("gauge", name, text, labels, values, where)
