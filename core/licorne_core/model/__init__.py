"""The objects of one partition, each with its own rules: queues, applications, nodes, limits.

In: settings of a configuration, and requests as values. Out: amounts, states and orders. An object
changes only itself: `ledger/` and `handlers/` change several together. `books.py` is the arithmetic
of one booking on a node, on quotas and on an application.

Callers: `scheduling/` reads the objects, `ledger/` and `handlers/` change them, `views/` reports them. Begin
with `queues/queue.py`, `apps/application.py`, `apps/requests.py` and `nodes/node.py`.
"""
