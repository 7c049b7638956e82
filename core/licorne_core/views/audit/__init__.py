"""Audit of the books: all sums, recounted.

In: the schedulers' objects. Out: findings, each with the broken rule. `recount.py` recounts in steps, for a
running server; `invariants.py` takes all steps together, and checks further rules, with one module for each
subject.

Callers: `views/partitions.py`, the server's audits, and tests after every command.
"""
