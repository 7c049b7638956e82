"""Seeded defects in budgets of hours: the limit, the window, and usage retained for removed queues."""

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
        "a new window begins with the usage of the previous one",
        BUDGET,
    ),
    Defect(
        "nobody-wakes-at-the-reset",
        "Hours.follow_time",
        drop("mark"),
        "asks that wait for hours are not woken in the next window",
        HOURS,
    ),
    Defect(
        "used-hours-go-with-the-partition",
        "remove_partition",
        drop("keep"),
        "a partition that is removed and added again has all its hours",
        HOURS,
    ),
    Defect(
        "used-hours-go-with-the-budget",
        "HoursBook._leave",
        drop("keep"),
        "a budget that is removed and added again has all its hours",
        HOURS,
    ),
    Defect(
        "hours-told-with-every-look",
        "HoursBook._plan",
        swap("budget . spent != budget . published", "budget.spent"),
        "the event about used-up hours is repeated",
        HOURS,
    ),
)
