"""The features that every partition has, each in a folder of its own (see `licorne_core/features.py`).

They use the same hook points as extensions, and the kernel does not name them either. But they cannot be left
out: the states of requests depend on them (`model/apps/requests.py`), and the interface si.v1 guarantees
them. They may import all of the kernel, and extensions may import them.

The table of standard features is closed. At every point except `leaf_for` they are called in its order,
before all extensions.
"""

NAMES: tuple[str, ...] = ("placeholders", "reservations", "predicates", "preemption", "placement")
