"""Counters of a client, for its monitoring."""

from dataclasses import dataclass


@dataclass(slots=True)
class Stats:
    """Counts since the client was made."""

    streams: int = 0
    """Streams that were opened, also those without a welcome."""
    resumed: int = 0
    """Sessions that were resumed."""
    replayed: int = 0
    """Replays that were complete, the first one included."""
    unanswered: int = 0
    """Checks of nodes and of victims without an answer in time, or with a failed function."""
