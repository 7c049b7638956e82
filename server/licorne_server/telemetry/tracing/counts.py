"""Figures of traces for a scrape."""

from collections import Counter
from dataclasses import dataclass, field

TOO_MANY_ASKS = "too_many_asks"
"""The ask is not followed, as too many are already."""
QUEUE_FULL = "queue_full"
"""A span has ended, and too many wait to be sent."""
EXPORT_FAILED = "export_failed"
"""The collector has not taken it."""
SHUTDOWN = "shutdown"
"""The server has stopped before it was sent."""

REASONS = (TOO_MANY_ASKS, QUEUE_FULL, EXPORT_FAILED, SHUTDOWN)
"""Reasons for dropping a span."""


@dataclass(slots=True)
class TraceCounts:
    """Counted from the start of the server. Each number is changed by one thread only."""

    exported: int = 0
    """Spans that the collector has taken."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Dropped spans, by reason."""
    malformed: int = 0
    """Trace contexts that were sent and could not be read."""
    followed: int = 0
    """Asks with open spans."""
