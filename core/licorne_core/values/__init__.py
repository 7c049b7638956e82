"""Values that all layers use: amounts, names, identities, timers, and ordered collections.

In: texts and numbers of configurations and requests. Out: checked, immutable values, and small general data
structures (`ranking.py`, `timers.py`). Callers: every module. It imports no other package of the core.

Begin with `resources.py` (amounts, saturating at int64), `ids.py`, `asks.py` and `ranking.py`.
"""
