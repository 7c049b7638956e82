"""Budgets over RMs: their definition, and the part of each that a member may allocate.

`definitions` stores the budgets of the server and reads their file. `members` enforces them: exactly in a
single server, and among members by slices of an `escrow`, whose documents are in `slices`.
"""
