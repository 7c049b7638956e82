"""Predicates: the RM judges the nodes of its asks (spec § 8.4).

The kernel knows that a request may be assumed on a node, and whom it asks if it has to be
(`scheduling/predicates.py`). `checks` asks the RM, and knows who waits for its answers; `owed` bounds their
number. `results` keeps what the RM has said. `handlers` takes the answers, and ends the time for them.
"""

from typing import Final

NAME: Final = "predicates"
