"""Slow steps, which blocked the loop: counted and logged."""

import structlog

log = structlog.get_logger("core.slow_steps")

SLOW_SECONDS = 0.05
"""A longer step counts as slow."""

STEPS = ("turn", "command", "slice", "collection")
"""The kinds of steps that are measured."""


class SlowSteps:
    """Number and duration of the slow steps of one server."""

    def __init__(self) -> None:
        """Start without a slow step."""
        self.count = dict.fromkeys(STEPS, 0)
        """By kind."""
        self.seconds = dict.fromkeys(STEPS, 0.0)
        """The time that those took, by kind."""

    def note(self, step: str, seconds: float, **about: object) -> None:
        """A step that took more than `SLOW_SECONDS`; the log gets `about` with it."""
        self.count[step] += 1
        self.seconds[step] += seconds
        log.warning(f"slow {step}", seconds=round(seconds, 3), **about)
