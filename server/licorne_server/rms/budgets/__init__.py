"""Budgets over RMs: what is defined, and what of it each member may give.

`definitions` keeps the budgets of the server and their files. `members` has them in force: in one server by
themselves, and in several by parts of an `escrow`, whose documents `slices` reads and writes.
"""
