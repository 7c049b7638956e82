"""The waiting relation: asks, their blockers, and the changes that wake them.

In: a blocker that an ask has met, and changes of amounts, nodes and states. Out: the asks that may
pass now. `blockers.py` has the kinds, `waiting.py` parks and wakes, `supply.py` and `shortages.py`
are the blockers for nodes and quotas. `settling.py` derives from the accounts that a request left
and entered which blockers may open; `changes.py` and `wakeups.py` take up other changes.

Caller: the pass parks; `ledger/` settles moves; `handlers/` tell of other changes.
"""
