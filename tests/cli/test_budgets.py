"""`licorne budgets` against a running server."""

from licorne.v1.state_pb2 import Budget, BudgetHolding
from licorne_cli.nouns.budgets import BUDGETS


def test_an_rm_of_another_member_has_its_slice() -> None:
    """The usage of an RM is reported by its member only; slice, want and overdraft by every member."""
    budget = Budget(name="b", limit={"gpu": 4}, used={"gpu": 1}, unassigned={"gpu": -1}, sliced=True)
    budget.holdings.append(BudgetHolding(rm_id="far", slice={"gpu": 3}, overdraft={"gpu": 1}))
    rows = [[column.cell(row) for column in BUDGETS.columns] for row in BUDGETS.rows(budget)]
    assert rows == [
        ["b", "-", "gpu=4", "-", "gpu=1", "gpu=-1", "-", "-"],
        ["b", "far", "-", "gpu=3", "?", "-", "-", "gpu=1"],
    ]
