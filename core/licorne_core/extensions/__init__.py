"""The features that a partition can do without, each in a folder of its own (see `licorne_core/features.py`).

This table is closed. At every point they are called in its order, after the standard features.
"""

NAMES = (
    "ageing",
    "autoscaler",
    "backfill",
    "budgets",
    "notice",
    "quota_change",
    "stops",
    "hours",
    "topology",
    "fair_memory",
    "drains",
    "holds",
    "queue_stops",
    "back_off",
    "state_aware",
    "elastic",
    "opening_hours",
)
