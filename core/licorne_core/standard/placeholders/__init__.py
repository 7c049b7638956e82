"""Placeholders: room that is kept for the members of a gang, until these are asked for (spec §§ 6.4-6.6).

`search.py` finds the real ask that may replace a placeholder, `stage.py` looks for it before the pass goes
down the queues. What is decided is carried out in `handlers.py`, and so is the end of their time.
"""
