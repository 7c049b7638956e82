"""The time budget of a round, under a clock that a test moves."""

from licorne_core.values.ids import RmId
from licorne_server.engine.engine import ALONE, TOGETHER, TOGETHER_SECONDS, BudgetChooser

ONE, TWO = RmId("one"), RmId("two")


def test_budgets_are_small_while_several_rms_are_at_work() -> None:
    """A single busy RM gets a large budget; several get small ones, and for a while afterwards."""
    now = 100.0
    chooser = BudgetChooser(lambda: now)
    for _ in range(2):
        chooser.note(ONE)
        assert chooser.choose() is ALONE
    chooser.note(TWO)
    assert chooser.choose() is TOGETHER
    now += TOGETHER_SECONDS / 2
    chooser.note(ONE)
    now += TOGETHER_SECONDS * 0.75
    assert chooser.choose() is TOGETHER
    now += TOGETHER_SECONDS / 2
    chooser.note(ONE)
    assert chooser.choose() is ALONE
