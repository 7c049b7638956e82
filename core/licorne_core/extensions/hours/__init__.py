"""Budgets of hours: how much a queue may use of a resource in each hour, day, week or month (spec § 4.7).

Properties of a queue such as `budget.gpu-hours` set it (`keys`). After it is used up, asks for the resource
below the queue wait for the next window; allocations continue.

`budget` has the arithmetic of one budget, `book` all budgets of a partition with the first time at which one
changes, and `rules` the rule for asks. `extension` follows queues and their usage. `messages` has limits and
retained usage, `recount` compares the budgets with the books, and `reports` has the fields of reports.
"""

from typing import Final

NAME: Final = "hours"
"""Name of the extension, and of its setting: the limits of a queue."""
