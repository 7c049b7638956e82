"""Budgets of hours: what a queue may use of a resource in each hour, day, week or month (spec § 4.7).

A queue says by properties such as `budget.gpu-hours` how much that is (`keys`). Once it is used up, asks
for the resource below the queue wait for the next window, and what runs goes on.

`budget` has the arithmetic of one budget, `book` all budgets of a partition with the first time at which
one changes, and `rules` the rule for asks. `extension` follows queues and their usage. `messages` has what
is told and kept, `recount` compares all of it with the books, and `reports` has what reports add.
"""

from typing import Final

NAME: Final = "hours"
"""Of the extension, and of its setting: the limits of a queue."""
