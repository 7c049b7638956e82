"""Fairness with memory: queues and users are ordered by their past usage (spec §§ 4.9, 5.2).

The property `fairshare.half-life` of a queue orders its children, or the users of a fair leaf, by past usage,
halved after each half-life. `fairshare.weight` is the weight of a queue among its siblings (`keys`).

`decayed` has the arithmetic of one account, and `extension` all accounts of a partition: they follow the
books, and their values as of the current second precede shares in the order. `messages` has the retained
usage, `recount` compares accounts with the books, and `reports` has the fields of reports.
"""

from typing import Final

NAME: Final = "fair_memory"
"""Name of the extension, and of its setting: the half-life in seconds."""
WEIGHT: Final = "fair_memory_weight"
"""Setting of a queue: the divisor of its decayed usage, from 0 to 1."""
STANDARD_WEIGHT: Final = 1.0
