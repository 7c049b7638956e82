"""The search for a node: the best open node for an ask, without a look at all of them.

In: an ask class and the node order. Out: a node, or the supply that is short. `candidates.py` is
the index; `heaps.py` and `node_heap.py` keep nodes by score, and the largest free amounts.

Caller: the pass (`cycle.py`), `replacing.py`, and the review of reservations.
"""
