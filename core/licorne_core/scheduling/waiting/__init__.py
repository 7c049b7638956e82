"""The waiting relation: asks, their blockers, and the changes that wake them.

In: a blocker that an ask has met, and changes of amounts, nodes and states. Out: the asks that may
pass now. `blockers.py` has the kinds, `waiting.py` parks and wakes, `supply.py` and `shortages.py`
are the blockers for nodes and quotas, `changes.py` and `wakeups.py` tell of changes.

Caller: the pass parks; `ledger/` and `handlers/` tell of changes.
"""
