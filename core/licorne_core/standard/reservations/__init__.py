"""Reservations: room on a node that is kept for an ask (spec §§ 8.5-8.7).

In: asks that no open node takes. Out: reservations, which the ledger books (`ledger/reserving.py`), and the
asks that are placed before all others. `remedy.py` finds the node, `stage.py` places the ask, and `review.py`
finds reservations that are of no use.
"""

from typing import Final

NAME: Final = "reservations"
