"""Seeded defects in drains of nodes."""

from mutants.defect import Defect
from mutants.operators import swap

DRAINS = (
    Defect(
        "drain-without-deadline-stops",
        "Drains._drain",
        swap("None", "0.0"),
        "a drain without a deadline stops all allocations at once",
        ("services/test_recorded",),
    ),
)
