"""Seeded defects in opening hours: the times at which leaves open and close, and the wake-up of asks."""

from mutants.defect import Defect
from mutants.operators import drop, swap

TIMES = ("extensions/opening_hours/test_opening_times",)
HOURS = ("extensions/opening_hours/test_opening_hours",)

OPENING_HOURS = (
    Defect(
        "open-for-a-moment-more",
        "OpeningHours.at",
        swap("time < midnight + end", "time <= midnight + end"),
        "asks start at the exact end of the opening hours",
        (*TIMES, *HOURS),
    ),
    Defect(
        "closed-at-midnight",
        "OpeningHours.at",
        swap("first . end if", "0 if"),
        "the end of the day is reported as the end of opening hours that continue after midnight",
        (*TIMES, *HOURS),
    ),
    Defect(
        "nobody-wakes-at-the-opening",
        "OpeningClock._follow",
        drop("mark"),
        "asks that wait for opening hours are not woken when the hours begin",
        HOURS,
    ),
    Defect(
        "turn-before-the-closing",
        "OpeningClock._is_due",
        swap("<=", "<"),
        "where many leaves close at once, some place asks after the end of their hours",
        HOURS,
    ),
    Defect(
        "closed-without-hours",
        "OpeningClock.settled",
        drop("removed"),
        "a leaf whose opening hours were removed stays closed",
        HOURS,
    ),
)
