"""Budgets over RMs: bounds on the usage of applications in many partitions, as operators define them.

A budget is an additional quota of its applications (`accounts`). The budgets and their commands belong to no
RM, and are in `shared`; `extension` finds the budgets of the applications of one partition. `counting` counts
members after a change, `reports` creates reports, and `recount` recomputes all sums. `messages` has the
budgets themselves, which `tree` reads, with their commands and reports.
"""

from typing import Final

NAME: Final = "budgets"
QUOTA: Final = "budget"
"""The kind of a budget's quotas, in reports and checks."""
