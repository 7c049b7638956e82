"""Lines: one number in each step of 5 s for an hour, and in each minute for a day.

A step is numbered by its time divided by its length. So all lines have the same steps, and a
line needs no times of its own. A step has the index of its number modulo the size of the ring.
"""

from array import array
from collections.abc import Iterator
from math import isnan, nan

STEP_SECONDS = 5
MINUTE_SECONDS = 60
STEPS_OF_MINUTE = MINUTE_SECONDS // STEP_SECONDS

STEPS = 720
"""Retained steps: those of an hour, in whole minutes."""

MINUTES = 1_440
"""Retained minutes: those of a day."""

LINE_BYTES = 8 * (STEPS + MINUTES)
"""Bytes of memory of a line."""


class Line:
    """The values of a number; NaN stands for none."""

    __slots__ = ("_adds", "_minutes", "_steps")

    def __init__(self, *, adds: bool = False) -> None:
        """Start without values. The value of a minute is the mean of its steps, or with `adds` the sum."""
        self._adds = adds
        self._steps = array("d", (nan,)) * STEPS
        self._minutes = array("d", (nan,)) * MINUTES

    def put(self, step: int, value: float) -> None:
        """Set the value of the present step."""
        self._steps[step % STEPS] = value

    def move(self, before: int, step: int) -> None:
        """Advance from the present step to a later one: minutes end, and steps between have no values."""
        first, last = before // STEPS_OF_MINUTE, step // STEPS_OF_MINUTE
        if last > first:
            self._minutes[first % MINUTES] = self._minute(first, before)
            for minute in range(first + 1, min(last + 1, first + 1 + MINUTES)):
                self._minutes[minute % MINUTES] = nan
        for passed in range(before + 1, min(step + 1, before + 1 + STEPS)):
            self._steps[passed % STEPS] = nan

    def _minute(self, minute: int, present: int) -> float:
        """The value of a minute up to the present step."""
        first = minute * STEPS_OF_MINUTE
        count = min(STEPS_OF_MINUTE, present + 1 - first)
        place = first % STEPS
        # The steps of a minute are adjacent: the ring has whole minutes.
        found = [value for value in self._steps[place : place + count] if not isnan(value)]
        if not found:
            return nan
        return sum(found) if self._adds else sum(found) / len(found)

    def steps(self, first: int, present: int) -> Iterator[float]:
        """The values from the step `first` to the present one."""
        for step in range(first, present + 1):
            yield self._steps[step % STEPS] if step > present - STEPS else nan

    def minutes(self, first: int, present: int) -> Iterator[float]:
        """The values from the minute `first` to that of the present step, which is incomplete."""
        last = present // STEPS_OF_MINUTE
        for minute in range(first, last):
            yield self._minutes[minute % MINUTES] if minute > last - MINUTES else nan
        if first <= last:
            yield self._minute(last, present)
