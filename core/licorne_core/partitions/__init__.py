"""Partitions, the RMs that own them, and the order of turns.

`partition.py` assembles one partition and lists its ended applications, `registry.py`
has the RMs and takes their removed partitions apart, `agenda.py` has the pending turns and
deadlines. `jobs.py` does large work in steps.

Callers: `scheduler.py`, `handlers/` and features. State is never shared between RMs.
"""
