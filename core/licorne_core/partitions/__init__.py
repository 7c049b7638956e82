"""Partitions, the RMs that own them, and whose turn it is.

`partition.py` puts one partition together, `registry.py` knows which RM owns which, `agenda.py`
which of them wants a turn or has a deadline. `jobs.py` carries large commands out in steps, and
`disposal.py` takes apart what has been removed; `ended.py` keeps applications that are over.

Caller: `scheduler.py` and `handlers/`. State is never shared between RMs.
"""
