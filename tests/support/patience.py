"""How long tests wait for what is to come."""

PATIENCE = 240.0
"""Seconds after which a test fails if what it waits for has not come.

No test is about this time: even a busy machine is far quicker. The limit of a whole test is longer, as it
fails without saying what was waited for (`timeout` in pyproject.toml).
"""
