"""Reservations: room on a node that is reserved for an ask (spec §§ 8.5-8.7).

In: asks that fit no open node. Out: reservations, which the ledger books (`ledger/reserving.py`), and the
asks that are placed before all others. `remedy.py` finds the node, `stage.py` places the ask, and `review.py`
finds unused reservations.
"""

from typing import Final

NAME: Final = "reservations"
