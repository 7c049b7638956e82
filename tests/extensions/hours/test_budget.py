"""A budget of hours, in whole numbers."""

from licorne_core.extensions.hours.budget import HoursBudget
from licorne_core.extensions.hours.messages import HoursLimit
from licorne_core.values.ids import QueuePath
from licorne_core.values.windows import Window

MONDAY = 1_704_067_200
"""A Monday, 00:00 UTC."""


def test_very_small_usage_is_summed() -> None:
    """Usage of a thousandth of a core for a millisecond at a time is counted."""
    budget = HoursBudget(QueuePath("root.a"), HoursLimit("vcore", 1, Window.HOUR), 0.0)
    for number in range(1000):
        for amount, time in ((1, number), (0, number + 0.001)):
            budget.follow(amount, time)
    assert budget.at(1000.0)[1] == 1_000_000


def hours(amount: int, window: Window = Window.DAY) -> HoursBudget:
    """A budget of this number of GPU-hours, which begins on a Monday at 0:00."""
    return HoursBudget(QueuePath("root.a"), HoursLimit("gpu", amount, window), MONDAY)


def test_hours_are_used_up_and_available_again() -> None:
    """The end of a budget is computed to the microsecond, and the next window starts without usage."""
    budget = hours(8)
    budget.follow(4, MONDAY + 3600.5)
    assert budget.changes_at(4) == MONDAY + 3 * 3600 + 0.5
    assert not budget.follow(4, MONDAY + 3 * 3600 + 0.499999)
    assert budget.follow(4, MONDAY + 3 * 3600 + 0.5)
    assert budget.spent
    assert budget.changes_at(4) == MONDAY + 86_400
    # Running allocations continue, and count in the next window from its beginning.
    assert budget.follow(4, MONDAY + 86_400)
    assert budget.used == 0
    assert budget.changes_at(4) == MONDAY + 86_400 + 2 * 3600


def test_usage_below_the_limit_of_a_window_blocks_nothing() -> None:
    """Usage below the limit never uses up a budget, and a budget of zero is always used up."""
    slow = hours(25)
    slow.follow(1, MONDAY)
    at = slow.changes_at(1)
    assert at is not None
    slow.follow(1, at)
    assert not slow.spent
    nothing = hours(0)
    assert nothing.spent
    assert not nothing.follow(0, MONDAY + 86_400)
    assert nothing.spent


def test_only_usage_in_the_present_window_counts() -> None:
    """Of usage over several windows, the part since the beginning of the present window counts."""
    budget = hours(1000, Window.HOUR)
    budget.follow(2, MONDAY + 1800)
    span, used = budget.at(MONDAY + 5 * 3600 + 60)
    assert span == (MONDAY + 5 * 3600, MONDAY + 6 * 3600)
    assert used == 2 * 60 * 1_000_000


def test_a_changed_limit_applies_at_once() -> None:
    """A new amount applies at once, with the usage so far; a new kind of window starts without usage."""
    budget = hours(8)
    budget.follow(4, MONDAY)
    budget.change(HoursLimit("gpu", 4, Window.DAY), MONDAY + 3600)
    assert budget.spent
    other = hours(8)
    other.follow(4, MONDAY)
    other.change(HoursLimit("gpu", 4, Window.WEEK), MONDAY + 3600)
    assert (other.spent, other.used) == (False, 0)
