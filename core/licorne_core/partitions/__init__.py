"""Partitions, the RMs that own them, and the order of turns.

`partition.py` puts one partition together and keeps its applications that are over, `registry.py`
has the RMs and takes their removed partitions apart, `agenda.py` has the pending turns and
deadlines. `jobs.py` does large work in steps.

Callers: `scheduler.py`, `handlers/` and features. State is never shared between RMs.
"""
