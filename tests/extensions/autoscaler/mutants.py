"""Asks that wait for a larger cluster: each of them is reported once, and no other ask."""

from mutants.defect import Defect
from mutants.operators import swap, without

AUTOSCALER = (
    Defect(
        "silence-wants-nodes",
        "_groups",
        without("is_silent_about"),
        "an autoscaler adds nodes because the RM did not answer",
        (
            "extensions/autoscaler/test_outstanding",
            "scenarios/test_scenarios::test_scenario",
        ),
    ),
    Defect(
        "reported-without-an-end",
        "Inspection._report",
        swap("1", "0"),
        "all asks of a size are reported in one turn, however many there are",
        ("extensions/autoscaler/test_outstanding",),
        nth=2,
    ),
)
