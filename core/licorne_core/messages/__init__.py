"""Everything that passes the door of the core: commands in, effects and reports out.

`commands.py` is what a caller may say, `effects.py` what the core answers to RMs, `reasons.py` why
an ask is stopped, with the operands, and `reports.py` what views return. All are immutable.
`options.py` is what a scheduler is made with.

Caller: handlers make effects, views make reports, the server makes commands and encodes the rest.
"""
