"""Reservations: room on a node that is kept for an ask (spec §§ 8.5-8.7).

In: asks that no open node takes. Out: reserved nodes, and their end. `reserving.py` makes and ends
them in all books, `reserved.py` has the asks of the priority pass, `limits.py` bounds their number,
`review.py` ends useless ones, and `promises.py` keeps freed resources for their beneficiary.

Caller: `handlers/turn.py`, `ledger/` and preemption.
"""
