"""Seeded defects in opening hours: times of openings, the wake-up of asks, and starts within the hours."""

from mutants.defect import Defect
from mutants.operators import drop, returns, swap

TIMES = ("extensions/opening_hours/test_opening_times",)
HOURS = ("extensions/opening_hours/test_opening_hours",)
STARTS = ("extensions/backfill/test_opening_starts",)

OPENING_HOURS = (
    Defect(
        "start-of-today-for-tomorrow",
        "Shadows.has_room",
        swap("one . waits == waits for", "True for"),
        "an ask of a closed leaf takes the only planned start from asks that may start now",
        STARTS,
    ),
    Defect(
        "start-in-former-hours",
        "PlannedStarts._may_plan",
        drop("is_overdue"),
        "after a change of opening hours a start stays at a time at which the leaf is closed",
        STARTS,
    ),
    Defect(
        "start-in-closed-hours",
        "Openings.gate",
        returns("None"),
        "a start is planned while the leaf is closed",
        STARTS,
    ),
    Defect(
        "calendar-of-former-hours",
        "CalendarFull.lets_through",
        swap("not is_open", "False"),
        "asks are not planned among the later starts once their leaf closes",
        STARTS,
    ),
    Defect(
        "maximum-of-former-hours",
        "StartRequest.end_wait",
        returns("False"),
        "asks behind a maximum with a start are not planned once their leaf closes",
        STARTS,
    ),
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
