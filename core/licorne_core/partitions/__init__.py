"""Partitions, the RMs that own them, and the order of turns.

`partition.py` puts one partition together, `registry.py` has the RMs and their partitions,
`agenda.py` the pending turns and deadlines. `jobs.py` does large work in steps, and
`disposal.py` takes removed partitions apart; `ended.py` keeps applications that are over.

Caller: `scheduler.py` and `handlers/`. State is never shared between RMs.
"""
