"""Seeded defects in state-aware leaves: the order in which applications may start."""

from mutants.defect import Defect
from mutants.operators import drop

STATE_AWARE = (
    Defect(
        "next-is-not-tried",
        "StateAware.departed",
        drop("mark_app"),
        "after the removal of an application, the next one of its leaf is not tried",
        ("extensions/state_aware/test_state_aware",),
    ),
)
