"""Handlers: one module for each family of commands, and one for a turn of decisions.

In: an RM, a command and the time. Out: effects, and facts in the RM's journal. Bad input raises an
error of `values/errors.py`, or becomes a rejection of the item, before anything has changed.

Callers: `scheduler.py`, and the `handlers.py` of features. Handlers call `ledger/` and `scheduling/`, and
rarely each other.
Begin with `allocations.py` (asks and releases), `turn.py` (decisions) and `apps.py`.
"""
