"""Budgets of hours: usage counts to the microsecond, for the length of its window."""

from mutants.defect import Defect
from mutants.operators import drop, swap

BUDGET = ("extensions/hours/test_budget",)
HOURS = ("extensions/hours/test_hours",)

OF_HOURS = (
    Defect(
        "spent-a-moment-later",
        "HoursBudget.follow_at",
        swap(">=", ">"),
        "an ask is allocated when exactly all hours are used",
        (*BUDGET, *HOURS),
    ),
    Defect(
        "window-carries-over",
        "HoursBudget.at",
        swap("0 , max", "used, max"),
        "a new window begins with what was used in the last",
        BUDGET,
    ),
    Defect(
        "nobody-wakes-at-the-reset",
        "Hours.follow_time",
        drop("mark"),
        "asks that wait for hours go on waiting in the next window",
        HOURS,
    ),
    Defect(
        "used-hours-go-with-the-partition",
        "remove_partition",
        drop("keep"),
        "a partition that is dropped and brought back has all its hours again",
        HOURS,
    ),
    Defect(
        "used-hours-go-with-the-budget",
        "HoursBook._leave",
        drop("keep"),
        "a budget that is dropped and brought back has all its hours again",
        HOURS,
    ),
    Defect(
        "hours-told-with-every-look",
        "HoursBook._plan",
        swap("budget . spent != budget . published", "budget.spent"),
        "an event tells again and again that the hours have run out",
        HOURS,
    ),
)
