"""Counts log lines that were lost, by reason. The counts are logged as soon as a line can be written."""

import threading
from collections import Counter
from enum import StrEnum
from typing import Final, NamedTuple


class Reason(StrEnum):
    """Reason for dropping a line."""

    RATE = "rate"
    """The rate limit of the line's kind was exceeded."""
    QUEUE_FULL = "queue_full"
    """The queue is full: stderr accepts lines too slowly."""
    NO_SPACE = "no_space"
    """Stderr is a file on a full disk."""
    CLOSED = "closed"
    """Stderr, or its reader, is closed."""
    WRITE_FAILED = "write_failed"
    """The system refused the write for another reason."""
    UNPRINTABLE = "unprintable"
    """A value of the line could not be converted to text."""


class Dropped(NamedTuple):
    """Lines of one kind that were dropped for one reason."""

    kind: str
    reason: Reason
    number: int


class Drops:
    """Counts dropped lines. Any thread may call any method."""

    def __init__(self) -> None:
        """Start without drops."""
        # Reentrant, because the garbage collector may log in the middle of a method.
        self._lock = threading.RLock()
        self._totals = dict.fromkeys(Reason, 0)
        self._untold: Counter[tuple[str, Reason]] = Counter()

    def add(self, kind: str, reason: Reason, count: int = 1) -> None:
        """Count lines that were dropped."""
        with self._lock:
            self._totals[reason] += count
            self._untold[kind, reason] += count

    def totals(self) -> dict[str, int]:
        """Lines dropped since the start, by reason."""
        with self._lock:
            return {reason.value: count for reason, count in self._totals.items()}

    def take_unlogged(self) -> list[Dropped]:
        """Return the drops that were not logged yet; they count as logged from now on."""
        with self._lock:
            untold = [Dropped(*key, count) for key, count in self._untold.items()]
            self._untold.clear()
        return untold

    def put_back(self, dropped: Dropped) -> None:
        """Return drops to the list of unlogged drops, because logging them has failed."""
        with self._lock:
            self._untold[dropped.kind, dropped.reason] += dropped.number


DROPS: Final = Drops()
"""The dropped lines of this process."""


def note_lost(kind: str) -> None:
    """Count a line that failed before it was written; the count is logged later."""
    DROPS.add(kind, Reason.WRITE_FAILED)
