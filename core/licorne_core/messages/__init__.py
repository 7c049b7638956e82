"""Messages of the core: commands in, effects and reports out.

`commands.py` has the callers' commands and the options of a scheduler, `effects.py` the answers to RMs,
`reasons.py` the reasons that block an ask, with their operands, `preemption.py` the records of victims,
`reports.py` the results of views, and `events/` the facts that become events. All are immutable.

Callers: handlers make effects, views make reports, and the server makes commands and encodes the others.
"""
