"""Seeded defects in the stop of an application: in the removal of its asks, and in its states."""

from mutants.defect import Defect
from mutants.operators import drop, never

STOPS = (
    Defect(
        "a-stop-keeps-asks",
        "_ApplicationStop._end",
        drop("drop_ask"),
        "asks of a stopped application stay pending",
        ("extensions/stops/test_stops",),
    ),
    Defect(
        "completing-cannot-fail",
        "_ApplicationStop._fail",
        never("_RUNS_FIRST"),
        "a completing application cannot be stopped",
        ("extensions/stops/test_stops",),
    ),
    Defect(
        "stopped-without-an-end",
        "_ApplicationStop.steps",
        never("left"),
        "a stopped application without allocations fails, and never ends",
        ("extensions/stops/test_stops",),
    ),
)
