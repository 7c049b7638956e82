"""Coordination of members, the servers that share the RMs of one deployment.

RMs replay their state, so only ownership, configurations and budgets are stored. `store` is the interface to
the backends, and `ownership` the interface to the server. `docs/high-availability.md` has the bounds and
their proofs.
"""
