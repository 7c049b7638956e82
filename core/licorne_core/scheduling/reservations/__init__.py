"""Reservations: room on a node that is kept for an ask (spec §§ 8.5-8.7).

In: asks that no open node takes. Out: reserved nodes, and their end. `reserving.py` makes and ends
them in all books, `reserved.py` has the asks whose turn comes first, `limits.py` bounds their number,
`review.py` ends those that are of no use, and `promises.py` has what victims were stopped for.

Caller: `handlers/turn.py`, `ledger/` and preemption.
"""
