"""Seeded defects in reports of asks that wait for a larger cluster: which asks are reported, and how many."""

from mutants.defect import Defect
from mutants.operators import swap, without

AUTOSCALER = (
    Defect(
        "silence-wants-nodes",
        "_groups",
        without("is_silent_about"),
        "an autoscaler adds nodes for an ask on which the RM has not answered",
        (
            "extensions/autoscaler/test_outstanding",
            "scenarios/test_scenarios::test_scenario",
        ),
    ),
    Defect(
        "reported-without-an-end",
        "Inspection._report",
        swap("1", "0"),
        "all asks of one size are reported in one turn, whatever their number",
        ("extensions/autoscaler/test_outstanding",),
        nth=2,
    ),
)
