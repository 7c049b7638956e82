"""Reservations: room on a node that is kept for an ask (spec §§ 8.5-8.7).

In: asks that no open node takes. Out: reservations. `reserving.py` makes and ends them in all books,
`review.py` finds useless ones, and `promises.py` bounds their number and keeps freed resources for
their beneficiary.

Caller: `handlers/turn.py`, `ledger/` and preemption.
"""
