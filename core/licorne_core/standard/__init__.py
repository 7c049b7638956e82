"""The features that every partition has, each in a folder of its own (see `licorne_core/features.py`).

They take part at the same points as extensions, and like these the kernel names none of them. But they cannot
be taken out: states of requests are theirs (`model/apps/requests.py`), and the interface si.v1 promises them.
They may import all of the kernel, and extensions may import them.

This table is closed: its order is that at every point but `leaf_for`, before all extensions.
"""

NAMES: tuple[str, ...] = ("placeholders", "reservations", "predicates", "preemption", "placement")
