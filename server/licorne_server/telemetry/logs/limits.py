"""Rate limits of log lines by kind, so that no kind fills a disk.

Lines caused by an RM or a caller are also limited for each of them. So a flood of one does not
crowd out the lines of the others.

Also here:

* Counts of dropped log lines, by reason.
"""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeVar

MAX_KINDS = 256
"""Distinct kinds; all further ones share an allowance."""

MAX_CAUSES = 4096
"""Distinct causes, over all kinds; all further ones of a kind share an allowance."""

OTHER = "other"

K = TypeVar("K")


class Allowance(NamedTuple):
    """A token bucket of lines: its burst, and its refill per second."""

    burst: int
    per_second: float


OWN = Allowance(burst=1000, per_second=20.0)
"""Allowance of lines of the server itself, for each event."""

OF_ONE = Allowance(burst=200, per_second=5.0)
"""Allowance of lines for each event and each cause of it."""

OF_ALL = Allowance(burst=4000, per_second=100.0)
"""Allowance of the same lines for all causes together."""

FOREIGN = Allowance(burst=20, per_second=1.0)
"""Allowance of lines of libraries, for each kind: peers may control their number and text."""


@dataclass(slots=True)
class _Bucket:
    allowance: Allowance
    left: float
    seen: float

    def fill(self, now: float) -> float:
        """Refill with time; returns the lines left."""
        burst, per_second = self.allowance
        self.left = min(burst, self.left + (now - self.seen) * per_second)
        self.seen = now
        return self.left


class Limits:
    """The allowances of all kinds of lines. Any thread may call any method."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` gives seconds that never go back."""
        self._now = now
        self._lock = threading.RLock()
        self._kinds: dict[str, _Bucket] = {}
        self._causes: dict[tuple[str, str], _Bucket] = {}
        # When causes were last forgotten.
        self._swept = now()

    def admits(self, kind: str, allowance: Allowance) -> bool:
        """True if one more line of the kind may be written; it counts then."""
        with self._lock:
            return _take(self._of_kind(kind, allowance))

    def admits_from(self, cause: str, kind: str, one: Allowance, every: Allowance | None) -> bool:
        """The same for a line with a cause, whose allowance is `one`.

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
        """Forget the causes with a full allowance, at most once in a second."""
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
    """Take one line from each bucket, or from none if one of them is empty."""
    if any(bucket.left < 1 for bucket in buckets):
        return False
    for bucket in buckets:
        bucket.left -= 1
    return True


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
