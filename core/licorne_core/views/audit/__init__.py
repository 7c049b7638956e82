"""Audit of the books: all sums, recounted.

In: the schedulers' objects. Out: findings, each with the rule that is broken. `recount.py` recounts
in steps, for a server that runs; `invariants.py` takes all steps at once, and checks more rules, one
module for each subject.

Caller: `views/partitions.py`, the server's audits, and tests after every command.
"""
