"""Audit of the books: all sums, recounted.

In: the schedulers' objects. Out: findings, each with the rule that is broken. `recount.py` recounts
in steps, for a running server; `invariants.py` takes all steps at once, and checks more rules, with one
module for each subject.

Caller: `views/partitions.py`, the server's audits, and tests after every command.
"""
