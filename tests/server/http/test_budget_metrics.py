"""Metrics of budgets over RMs."""

from licorne_core.values.ids import RmId
from licorne_server.http.families import Families
from licorne_server.http.metrics import MAX_BUDGET_RESOURCES, MAX_BUDGETS, MAX_HOLDERS, gather_budgets
from licorne_server.rms.budgets.members import BudgetState, HoldingState


def holding(number: int, *, here: bool = True) -> HoldingState:
    """An RM that uses one unit of everything."""
    ones = {f"r{one:02}": 1 for one in range(30)}
    return HoldingState(
        rm_id=RmId(f"rm{number:03}"), here=here, used=ones, slice=ones, wanted={}, overdraft={}
    )


def budget(number: int, holdings: int, elsewhere: int = 0) -> BudgetState:
    """A budget of many RMs and resources."""
    return BudgetState(
        name=f"b{number}",
        limit={f"r{one:02}": 9 for one in range(30)},
        members=(),
        used={},
        unassigned={},
        sliced=True,
        counting=False,
        holdings=(
            *(holding(one) for one in range(holdings)),
            *(holding(one, here=False) for one in range(holdings, holdings + elsewhere)),
        ),
    )


def samples(*budgets: BudgetState) -> dict[str, float]:
    """All samples."""
    families = Families()
    for _ in gather_budgets(budgets, families):
        pass
    lines = [line for chunk in families.lines(openmetrics=False) for line in chunk.splitlines()]
    return {
        name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")
    }


def test_samples_of_a_budget_are_bounded() -> None:
    """RMs beyond a number share one sample with their total; resources beyond a number have no sample."""
    found = samples(budget(0, MAX_HOLDERS + 7))
    used = {name: value for name, value in found.items() if name.startswith("licorne_budget_used")}
    assert len(used) == (MAX_HOLDERS + 1) * MAX_BUDGET_RESOURCES
    assert used['licorne_budget_used{budget="b0",rm="(others)",resource="r00"}'] == 7


def test_the_number_of_budgets_with_metrics_is_bounded() -> None:
    """Only the first budgets have metrics."""
    found = samples(*(budget(number, 1) for number in range(MAX_BUDGETS + 5)))
    assert (
        len([name for name in found if name.startswith("licorne_budget_limit")])
        == MAX_BUDGETS * MAX_BUDGET_RESOURCES
    )


def test_a_member_has_samples_of_its_own_rms_only() -> None:
    """The sum over all members counts each RM once."""
    assert not [name for name in samples(budget(0, 1, elsewhere=2)) if "rm001" in name]
