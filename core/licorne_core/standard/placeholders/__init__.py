"""Placeholders: room that is reserved for the members of a gang before their asks arrive (spec §§ 6.4-6.6).

`search.py` finds the real ask that may replace a placeholder; `stage.py` calls it before the pass enters the
queues. `handlers.py` applies decisions, and the timeout of placeholders.
"""
