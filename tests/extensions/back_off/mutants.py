"""Seeded defects in back-offs of applications: the asks that count, and the end of a back-off."""

from mutants.defect import Defect
from mutants.operators import drop, without

BACK_OFF = (
    Defect(
        "a-back-off-never-ends",
        "BackOffs.pass_time",
        drop("interests"),
        "the application is not tried again after its back-off",
        ("extensions/back_off/test_back_off",),
    ),
    Defect(
        "back-off-outlives-its-application",
        "BackOffs.app_gone",
        drop("cancel"),
        "the timer of a back-off fires after the end of its application",
        ("extensions/back_off/test_back_off",),
    ),
    Defect(
        "asks-behind-a-quota-count",
        "backs_off",
        without("stopped"),
        "asks that now exceed a quota count as asks that fit no node",
        ("extensions/back_off/test_counting",),
    ),
)
