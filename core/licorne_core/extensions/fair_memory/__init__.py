"""Fairness with memory: queues and users are ordered by what they have used (spec §§ 4.9, 5.2).

A queue says by `fairshare.half-life` that its children are, or the users of a fair leaf; usage counts half
after each half-life. By `fairshare.weight` it counts more or less among its siblings (`keys`).

`decayed` has the arithmetic of one account, and `extension` all accounts of a partition: they follow the
books, and what they come to, as of the present second, comes before shares in the order. `messages` has
what is kept, `recount` compares accounts with the books, and `reports` has what reports add.
"""

from typing import Final

NAME: Final = "fair_memory"
"""Of the extension, and of its setting: the half-life in seconds."""
WEIGHT: Final = "fair_memory_weight"
"""Setting of a queue: what its decayed usage is divided by, from 0 to 1."""
STANDARD_WEIGHT: Final = 1.0
