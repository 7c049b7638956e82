"""How many lines of a kind are written, so that nobody fills a disk with lines of one kind.

Lines that somebody causes, an RM or a caller, are limited for each of them as well. So a flood of
one leaves the lines of the others where they are.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

MAX_KINDS = 256
"""Kinds that are told apart; all further ones share an allowance."""

MAX_CAUSES = 4096
"""Causes that are told apart, over all kinds; all further ones of a kind share an allowance."""

OTHER = "other"

K = TypeVar("K")


class Allowance(NamedTuple):
    """So many lines at once, and so many a second when they are used up."""

    burst: int
    per_second: float


OWN = Allowance(burst=1000, per_second=20.0)
"""For lines of the server itself, for each event."""

OF_ONE = Allowance(burst=200, per_second=5.0)
"""For lines that somebody causes, for each event and each who causes it."""

OF_ALL = Allowance(burst=4000, per_second=100.0)
"""For the same lines of all who cause them together."""

FOREIGN = Allowance(burst=20, per_second=1.0)
"""For what libraries say, for each kind: peers may choose how often, and what."""


@dataclass(slots=True)
class _Bucket:
    allowance: Allowance
    left: float
    seen: float

    def fill(self, now: float) -> float:
        """What comes back with time; how much there is then."""
        burst, per_second = self.allowance
        self.left = min(burst, self.left + (now - self.seen) * per_second)
        self.seen = now
        return self.left


class Limits:
    """Keeps every kind of line to its allowance. Any thread may call any method."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` gives seconds that never go back."""
        self._now = now
        self._lock = threading.RLock()
        self._kinds: dict[str, _Bucket] = {}
        self._causes: dict[tuple[str, str], _Bucket] = {}
        # When causes were last forgotten.
        self._swept = now()

    def admits(self, kind: str, allowance: Allowance) -> bool:
        """Whether one more line of the kind may be written; if so it counts."""
        with self._lock:
            return _take(self._of_kind(kind, allowance))

    def admits_from(self, cause: str, kind: str, one: Allowance, every: Allowance | None) -> bool:
        """The same of a line that somebody causes, whose allowance is `one`.

        `every` is the allowance of all causes together; None for none.
        """
        with self._lock:
            bucket = self._of_cause(cause, kind, one)
            return _take(bucket) if every is None else _take(bucket, self._of_kind(kind, every))

    def _of_kind(self, kind: str, allowance: Allowance) -> _Bucket:
        if kind not in self._kinds and len(self._kinds) >= MAX_KINDS:
            kind = OTHER
        return self._filled(self._kinds, kind, allowance)

    def _of_cause(self, cause: str, kind: str, allowance: Allowance) -> _Bucket:
        if (kind, cause) not in self._causes and len(self._causes) >= MAX_CAUSES:
            self._forget_quiet()
            if len(self._causes) >= MAX_CAUSES:
                return self._filled(self._kinds, f"{kind} of {OTHER}", allowance)
        return self._filled(self._causes, (kind, cause), allowance)

    def _forget_quiet(self) -> None:
        """Forget the causes whose whole allowance is there, at the most once in a second."""
        now = self._now()
        if now - self._swept < 1.0:
            return
        self._swept = now
        # The collector of garbage may log meanwhile.
        self._causes = {
            key: bucket
            for key, bucket in list(self._causes.items())
            if bucket.fill(now) < bucket.allowance.burst
        }

    def _filled(self, buckets: dict[K, _Bucket], key: K, allowance: Allowance) -> _Bucket:
        now = self._now()
        bucket = buckets.get(key)
        if bucket is None:
            bucket = buckets[key] = _Bucket(allowance, allowance.burst, now)
        bucket.fill(now)
        return bucket


def _take(*buckets: _Bucket) -> bool:
    """Take one from each, or from none if one of them is empty."""
    if any(bucket.left < 1 for bucket in buckets):
        return False
    for bucket in buckets:
        bucket.left -= 1
    return True
