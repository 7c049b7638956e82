"""Seeded defects in the enforcement of lowered maxima: the victims, and the repetition of an enforcement."""

from mutants.defect import Defect
from mutants.operators import drop, never, swap, without

_NOTICE = "core/handlers/test_stale_stops::test_a_notice_for_a_maximum_ends_with_the_maximum"

QUOTA_CHANGE = (
    Defect(
        "below-its-maximum",
        "amount_of",
        swap("bound", "bound + 1"),
        "victims of a queue exceed its amounts above the maximum",
        ("scenarios/test_scenarios::test_scenario[quota_change]",),
        nth=2,
    ),
    Defect(
        "enforced-for-ever",
        "QuotaClock.take",
        drop("starts"),
        "a maximum is enforced again every second",
        (
            "scenarios/test_scenarios::test_scenario[quota_change]",
            "scenarios/test_scenarios::test_scenario[quota_change_times]",
        ),
        nth=2,
    ),
    Defect(
        "chosen-and-stopped",
        "Enforcement._has_room",
        without("_exceeds_max"),
        "victims are stopped for a maximum that was raised meanwhile",
        ("extensions/quota_change/test_enforcing::test_a_raised_maximum_shortens_the_enforcement",),
    ),
    Defect(
        "enforced-once-begun",
        "still_enforced",
        without("enforces"),
        "a victim is stopped for a maximum that is not enforced any more",
        (_NOTICE,),
    ),
    Defect(
        "below-a-later-guarantee",
        "still_exceeds",
        never("_keeps_guarantee"),
        "a victim is stopped for a maximum although a guarantee protects it by now",
        (_NOTICE,),
    ),
)
