"""Counts of dropped log lines, by reason."""

import threading
from collections import Counter
from enum import StrEnum
from typing import NamedTuple


class Reason(StrEnum):
    """Reason for dropping a line."""

    RATE = "rate"
    """The rate limit of its kind was exceeded."""
    QUEUE_FULL = "queue_full"
    """Too much waits already: stderr takes lines more slowly than they come."""
    NO_SPACE = "no_space"
    """Stderr is a file on a full disk."""
    CLOSED = "closed"
    """stderr is missing, or its reader has gone."""
    WRITE_FAILED = "write_failed"
    """The system refused for another reason."""
    UNPRINTABLE = "unprintable"
    """A value in the line failed when it was made into text."""


class Dropped(NamedTuple):
    """Lines of one kind that were dropped for one reason."""

    kind: str
    reason: Reason
    number: int


class Drops:
    """Counts dropped lines. Any thread may call any method."""

    def __init__(self) -> None:
        """Start without drops."""
        # The collector of garbage may log in the middle of a method: the lock can be taken again.
        self._lock = threading.RLock()
        self._totals = dict.fromkeys(Reason, 0)
        self._untold: Counter[tuple[str, Reason]] = Counter()

    def add(self, kind: str, reason: Reason, count: int = 1) -> None:
        """Count lines that were dropped."""
        with self._lock:
            self._totals[reason] += count
            self._untold[kind, reason] += count

    def totals(self) -> dict[str, int]:
        """Lines dropped since the start, for every reason."""
        with self._lock:
            return {reason.value: count for reason, count in self._totals.items()}

    def take_untold(self) -> list[Dropped]:
        """Take the drops that are not logged yet; they count as logged from now on."""
        with self._lock:
            untold = [Dropped(*key, count) for key, count in self._untold.items()]
            self._untold.clear()
        return untold

    def tell_later(self, dropped: Dropped) -> None:
        """Put drops back that could not be logged."""
        with self._lock:
            self._untold[dropped.kind, dropped.reason] += dropped.number
