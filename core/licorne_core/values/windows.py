"""Windows of time, aligned to the calendar in UTC, so that they begin and end everywhere at the same time."""

from enum import StrEnum
from typing import Final, NamedTuple

HOUR: Final = 3600
DAY: Final = 86_400
WEEK: Final = 7 * DAY
_MONDAY: Final = 4 * DAY
"""The first Monday of the unix calendar, which begins on a Thursday."""
_DAYS_OF_400_YEARS: Final = 146_097
_MARCH_OF_YEAR_0: Final = 719_468
"""Days from 1 March of year 0 to the beginning of 1970."""


class Window(StrEnum):
    """Length of a window, as configurations name it."""

    HOUR = "hour"
    """A window that begins at minute 0 of each hour."""
    DAY = "day"
    """A window that begins at 00:00."""
    WEEK = "week"
    """A window that begins on Monday at 00:00."""
    MONTH = "month"
    """A window that begins on the first day of the month at 00:00."""


class Span(NamedTuple):
    """A window in unix seconds, including its beginning and without its end."""

    begin: int
    end: int


def window_at(window: Window, time: float) -> Span:
    """The window that contains a time, which is in unix seconds and not before 1970."""
    seconds = int(time // 1)
    if window is Window.MONTH:
        return _month(seconds // DAY)
    length = {Window.HOUR: HOUR, Window.DAY: DAY, Window.WEEK: WEEK}[window]
    offset = _MONDAY if window is Window.WEEK else 0
    begin = (seconds - offset) // length * length + offset
    return Span(begin, begin + length)


def _month(day: int) -> Span:
    """The month that contains a day; days are counted from 1970."""
    number = int(day * 4800 / _DAYS_OF_400_YEARS)
    while _first_day(number) > day:
        number -= 1
    while _first_day(number + 1) <= day:
        number += 1
    return Span(_first_day(number) * DAY, _first_day(number + 1) * DAY)


def _first_day(number: int) -> int:
    """The first day of a month, both counted from 1970.

    Years are counted from March, so that a leap day is the last day of a year.
    """
    year, month = divmod(1970 * 12 + number - 2, 12)
    leaps = year // 4 - year // 100 + year // 400
    return year * 365 + leaps + (153 * month + 2) // 5 - _MARCH_OF_YEAR_0
