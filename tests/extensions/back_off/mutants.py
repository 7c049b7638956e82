"""Back-offs of applications: their counts, and their end."""

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
        "the end of a back-off is awaited though the application is gone",
        ("extensions/back_off/test_back_off",),
    ),
    Defect(
        "asks-behind-a-quota-count",
        "backs_off",
        without("stopped"),
        "asks that exceed a quota by now count as if no node took them",
        ("extensions/back_off/test_counting",),
    ),
)
