"""The moves of requests and nodes, in all books at once.

In: a decision (place this ask there), or an event (the RM released it, the node has gone). Out: the
request in its new state, with node, queues, limits, application and waiting lines in agreement.
`moves.py` posts what `ACCOUNTS` says of the states before and after, and has the difference settled
for others (`scheduling/waiting/settling.py`). `pending.py` has the asks that wait, `allocating.py`
allocations, `pairs.py` a placeholder and the real ask that replaces it, `placeholders.py` task
groups, and `cluster.py` nodes.

Caller: `handlers/` only. Nothing else changes usage.
"""
