"""Predicates: the RM decides on which nodes its asks may be placed (spec § 8.4).

The kernel supports requests that are assumed on a node, and defines an interface for asking the RM
(`scheduling/predicates.py`). `checks` asks the RM, and records which requests wait for its answers; `owed`
bounds their number. `results` stores the answers. `handlers` processes answers, and their deadlines.
"""

from typing import Final

NAME: Final = "predicates"
