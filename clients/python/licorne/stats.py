"""Counters for whoever watches a client."""

from dataclasses import dataclass


@dataclass(slots=True)
class Stats:
    """Streams opened, how the lost ones were made good, and questions without an answer in time."""

    streams: int = 0
    resumed: int = 0
    replayed: int = 0
    unanswered: int = 0
