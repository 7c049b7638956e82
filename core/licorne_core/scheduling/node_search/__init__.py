"""The search for a node: the best open node for an ask, without examining all of them.

In: an ask class and the node order. Out: a node, or the supply that is short. `index.py` has
the index and its heaps; `node_heap.py` keeps nodes by score, and the largest free amounts.

Callers: the pass (`cycle.py`, `gang_placement.py`), reservations, and predicate checks.
"""
