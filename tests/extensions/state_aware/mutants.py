"""Defects in the admission of state-aware leaves."""

from mutants.defect import Defect
from mutants.operators import drop

STATE_AWARE = (
    Defect(
        "next-is-not-tried",
        "StateAware.departed",
        drop("mark_app"),
        "who starts next is not looked at when an application is removed",
        ("extensions/state_aware/test_state_aware",),
    ),
)
