"""How many lines of a kind are written, so that nobody fills a disk with lines of one kind."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

MAX_KINDS = 256
"""Kinds that are told apart; all further ones share an allowance."""

OTHER = "other"


class Allowance(NamedTuple):
    """So many lines at once, and so many a second when they are used up."""

    burst: int
    per_second: float


OWN = Allowance(burst=1000, per_second=20.0)
"""For lines of the server itself, for each event."""

FOREIGN = Allowance(burst=20, per_second=1.0)
"""For what libraries say, for each kind: peers may choose how often, and what."""


@dataclass(slots=True)
class _Bucket:
    left: float
    seen: float


class Limits:
    """Keeps every kind of line to its allowance. Any thread may call any method."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` gives seconds that never go back."""
        self._now = now
        self._lock = threading.RLock()
        self._buckets: dict[str, _Bucket] = {}

    def admits(self, kind: str, allowance: Allowance) -> bool:
        """Whether one more line of the kind may be written; if so it counts."""
        with self._lock:
            now = self._now()
            if kind not in self._buckets and len(self._buckets) >= MAX_KINDS:
                kind = OTHER
            bucket = self._buckets.setdefault(kind, _Bucket(allowance.burst, now))
            refill = (now - bucket.seen) * allowance.per_second
            bucket.left = min(allowance.burst, bucket.left + refill)
            bucket.seen = now
            if bucket.left < 1:
                return False
            bucket.left -= 1
            return True
