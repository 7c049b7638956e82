"""Windows of time, aligned to the calendar of UTC: they begin and end everywhere at the same time."""

from enum import StrEnum
from typing import Final, NamedTuple

HOUR: Final = 3600
DAY: Final = 86_400
WEEK: Final = 7 * DAY
_MONDAY: Final = 4 * DAY
"""The first Monday of the unix calendar, which begins on a Thursday."""
_DAYS_OF_400_YEARS: Final = 146_097
_MARCH_OF_YEAR_0: Final = 719_468
"""Days from 1 March of year 0 to 1970."""


class Window(StrEnum):
    """Length of a window, as a configuration spells it."""

    HOUR = "hour"
    """From minute 0 on."""
    DAY = "day"
    """From 00:00 on."""
    WEEK = "week"
    """From Monday, 00:00, on."""
    MONTH = "month"
    """From the first day of the month, 00:00, on."""


class Span(NamedTuple):
    """A window in unix seconds: its beginning belongs to it, and its end to the next one."""

    begin: int
    end: int


def window_at(window: Window, time: float) -> Span:
    """The window of a time, which is in unix seconds from 1970 on."""
    seconds = int(time // 1)
    if window is Window.MONTH:
        return _month(seconds // DAY)
    length = {Window.HOUR: HOUR, Window.DAY: DAY, Window.WEEK: WEEK}[window]
    offset = _MONDAY if window is Window.WEEK else 0
    begin = (seconds - offset) // length * length + offset
    return Span(begin, begin + length)


def _month(day: int) -> Span:
    """The month of a day, which is counted from 1970."""
    number = int(day * 4800 / _DAYS_OF_400_YEARS)
    while _first_day(number) > day:
        number -= 1
    while _first_day(number + 1) <= day:
        number += 1
    return Span(_first_day(number) * DAY, _first_day(number + 1) * DAY)


def _first_day(number: int) -> int:
    """The first day of a month, both counted from 1970.

    The year is counted from March, so that a leap day is its last day.
    """
    year, month = divmod(1970 * 12 + number - 2, 12)
    leaps = year // 4 - year // 100 + year // 400
    return year * 365 + leaps + (153 * month + 2) // 5 - _MARCH_OF_YEAR_0
