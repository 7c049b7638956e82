"""Verbs of scenarios about budgets."""

from licorne_core.extensions.budgets.messages import SetBudgets, SetBudgetSlices
from licorne_core.extensions.budgets.reports import budget_reports
from licorne_core.extensions.budgets.tree import load_budgets
from licorne_core.values.ids import RmId
from scenarios.printing import amounts
from scenarios.stage import Line, Stage


def budgets(stage: Stage, line: Line) -> list[str]:
    """``budgets``, followed by a tree of budgets: the budgets over all RMs from now on."""
    tree = load_budgets(line.text)
    return stage.send(SetBudgets(budgets=tree.budgets, floating=tree.floating))


def escrow(stage: Stage, line: Line) -> list[str]:
    """``escrow BUDGET RM:TYPE=N ...``: the new slices of RMs in a budget."""
    (name,) = line.words
    found: dict[RmId, dict[str, int]] = {}
    for key, value in line.resources().items():
        rm_id, _, what = key.partition(":")
        found.setdefault(RmId(rm_id), {})[what] = value
    return stage.send(SetBudgetSlices(budget=name, slices=found))


def spent(stage: Stage, _: Line) -> list[str]:
    """``spent``: the budgets, with usage, demand and overdraft of each RM."""
    lines = []
    for budget in budget_reports(stage.driver.views):
        lines.append(f"{budget.name}: has {amounts(budget.used)} of {amounts(budget.limit)}")
        for rm_id, use in budget.rms.items():
            own = "" if budget.slices is None else f" of {amounts(budget.slices.get(rm_id, {}))}"
            wants = f", wants {amounts(use.wanted)} more" if use.wanted else ""
            over = f", {amounts(use.overdraft)} too much" if use.overdraft else ""
            lines.append(f"  {rm_id} has {amounts(use.used)}{own}{wants}{over}")
    return lines
