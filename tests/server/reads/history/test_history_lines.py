"""The history of one number over an hour and a day."""

from collections.abc import Iterable
from math import isnan

from licorne_server.reads.history.tracks import LINE_BYTES, MINUTES, STEPS, STEPS_OF_MINUTE, Series


def plain(values: Iterable[float]) -> list[float | None]:
    """Values with None for NaN."""
    return [None if isnan(value) else value for value in values]


def filled(first: int, last: int, *, adds: bool = False) -> Series:
    """A line with its number in each step from the first to the last."""
    line = Series(adds=adds)
    for step in range(first, last + 1):
        if step > first:
            line.move(step - 1, step)
        line.put(step, step)
    return line


def test_an_hour_of_steps_is_kept() -> None:
    """After an hour each new step replaces the oldest; a step without a sample has no value."""
    line = filled(1000, 1000 + STEPS + 5)
    last = 1000 + STEPS + 5
    assert plain(line.steps(last - STEPS, last)) == [None, *range(last - STEPS + 1, last + 1)]
    assert plain(filled(10, 12).steps(8, 12)) == [None, None, 10, 11, 12]


def test_a_minute_is_the_mean_of_its_steps() -> None:
    """A minute has the mean of its steps, for counters the total; the current minute has the steps so far."""
    first = 100 * STEPS_OF_MINUTE
    last = first + 2 * STEPS_OF_MINUTE + 2
    assert plain(filled(first, last).minutes(99, last)) == [None, first + 5.5, first + 17.5, last - 1.0]
    sums = plain(filled(first, last, adds=True).minutes(100, last))
    assert sums == [12 * (first + 5.5), 12 * (first + 17.5), 3 * (last - 1.0)]


def test_a_day_of_minutes_is_kept() -> None:
    """A longer line has the minutes of the last day."""
    last = (MINUTES + 10) * STEPS_OF_MINUTE
    line = filled(0, last)
    found = plain(line.minutes(10, last))
    assert len(found) == MINUTES + 1
    assert found[0] is None
    assert found[1] == 11 * STEPS_OF_MINUTE + 5.5
    assert None not in found[1:]


def test_steps_without_samples_have_no_value() -> None:
    """A gap of the clock, of seconds, hours or days, has no values, and older values are not repeated."""
    for gap in (3, 30, STEPS, 10 * STEPS, 3 * MINUTES * STEPS_OF_MINUTE):
        line = filled(0, 25)
        step = 25 + gap
        line.move(25, step)
        line.put(step, 7)
        shown = plain(line.steps(max(0, step - STEPS + 1), step))
        assert shown[-1] == 7
        assert shown[-gap:-1] == [None] * min(gap - 1, STEPS - 1)
        minutes = plain(line.minutes(max(0, step // STEPS_OF_MINUTE - MINUTES + 1), step))
        assert minutes[-1] == (7 if gap > 3 else (24 + 25 + 7) / 3)
        assert sum(value is not None for value in minutes) <= 4


def test_the_memory_of_a_line_is_constant() -> None:
    """The memory of a line does not grow with its values."""
    line = filled(0, 2 * STEPS)
    assert len(line._steps) * line._steps.itemsize + len(line._minutes) * line._minutes.itemsize == LINE_BYTES
