"""Log line about malformed trace contexts."""

from collections.abc import Callable

import structlog

from licorne_server.telemetry.tracing.counts import TraceCounts

log = structlog.get_logger("core.tracing.malformed")

TELL_SECONDS = 60.0
"""Least seconds between two lines."""


class MalformedLog:
    """Logs the number of malformed trace contexts."""

    def __init__(self, counts: TraceCounts, now: Callable[[], float]) -> None:
        """None is logged yet; `now` is in unix seconds."""
        self._counts = counts
        self._now = now
        self._from = 0.0
        self._told = 0

    def tell(self) -> None:
        """Log new ones, at intervals."""
        malformed = self._counts.malformed
        if malformed > self._told and self._now() >= self._from:
            self._from = self._now() + TELL_SECONDS
            log.warning("trace contexts that cannot be read", number=malformed - self._told)
            self._told = malformed
