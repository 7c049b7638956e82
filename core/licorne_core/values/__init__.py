"""Values that all floors use: amounts, names, identities, timers, and ordered collections.

In: texts and numbers of configurations and requests. Out: checked, immutable values, and small data
structures without knowledge of a cluster (`ranking.py`, `timers.py`). Caller: every module. It
imports no other package of the core.

Begin with `resources.py` (amounts, saturating at int64), `ids.py`, `asks.py` and `ranking.py`.
"""
