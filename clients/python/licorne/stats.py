"""Counters for those who watch a client."""

from dataclasses import dataclass


@dataclass(slots=True)
class Stats:
    """What a client has counted since it was made."""

    streams: int = 0
    """Streams that were opened, also those without a welcome."""
    resumed: int = 0
    """Sessions that were resumed."""
    replayed: int = 0
    """Replays that were complete, the first one included."""
    unanswered: int = 0
    """Checks of nodes and of victims that were not answered in time, or whose function failed."""
