"""Changes of state of requests and nodes, posted in all books together.

In: a decision (place this ask there), or an event (the RM released it, the node was removed). Out: the
request in its new state, with node, queues, limits, application and wait lists in agreement. `moves.py` posts
the difference that `ACCOUNTS` gives for the states before and after, marks changed things
(`scheduling/waiting/dirty.py`), and changes nodes. `pending.py` has pending asks and the counts of task
groups, `allocating.py` allocations, and pairs of a placeholder and the real ask that replaces it,
`reserving.py` reserved nodes, `promises.py` the freed resources of victims that are promised to an ask, and
`stops.py` the records of stopped allocations.

Callers: `handlers/`, and handlers of features. Nothing else changes usage.
"""
