"""Budgets over RMs: bounds on the usage of applications in many partitions, as operators write them.

A budget is a further quota of its applications (`accounts`). What is of no RM, the budgets and their
commands, is in `shared`; `extension` finds the budgets of the applications of one partition. `counting`
counts members after a change, `reports` makes reports, and `recount` adds all up anew. `messages` has the
budgets themselves, which `tree` reads, with their commands and reports.
"""

from typing import Final

NAME: Final = "budgets"
QUOTA: Final = "budget"
"""Kind of its quotas."""
