"""The waiting relation: asks, their blockers, and the changes that wake them.

In: a blocker that stops an ask, and marks of changed objects. Out: the asks that may be served now.

`dirty.py` has the marks, and derives which blockers may open. `blockers.py` has the kinds, `supply.py` and
`shortages.py` those for nodes and quotas, `gangs.py` and `reserved_nodes.py` those for whole gangs and for
the bound on reserved nodes, `waiting.py` parks and wakes, and `wakeups.py` holds all waiting items.

Caller: the pass parks and settles; `ledger/` and `handlers/` mark what they change.
"""
