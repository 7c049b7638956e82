"""The moves of requests and nodes, in all books at once.

In: a decision (place this ask there), or an event (the RM released it, the node has gone). Out: the
request in its new state, with node, queues, limits, application and waiting lines in agreement.
`moves.py` posts what `ACCOUNTS` says of the states before and after, marks what has changed
(`scheduling/waiting/dirty.py`), and changes nodes. `pending.py` has the asks that wait and the
numbers of task groups, `allocating.py` allocations, and placeholders with the real asks that
replace them, `reserving.py` nodes that are reserved, `promises.py` what stopped victims free
for them, and `stops.py` the records of stops.

Callers: `handlers/`, and those of features. Nothing else changes usage.
"""
