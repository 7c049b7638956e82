"""Log entries into lines: limited in number, bounded in length, escaped; and the count of dropped ones.

Each kind of line has an allowance, so that none fills a disk. Lines caused by an RM or a caller are
also limited for each of them, so that a flood of one does not crowd out the lines of the others.
"""

import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from time import monotonic
from typing import Any, NamedTuple, NoReturn, TypeVar

import structlog
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import EventDict

from licorne_server.process.bounds import host_of, peer_of
from licorne_server.telemetry.logs.levels import AUDIT

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


MAX_LINE = 16_384
"""The longest line, in characters. All of them are ASCII."""

MAX_KIND = 100
MAX_TEXT = 4096
"""Characters of a text, at most."""

ROOMS = (MAX_LINE, MAX_LINE // 4, MAX_LINE // 16)
"""Characters that all values together may have, tried in turn: escaped they take up to six times as
much."""

VALUE_COST = 8
"""Characters of a value in addition to its own: quotes, commas, brackets."""

MAX_NUMBER = 10**18
MAX_DEPTH = 8
FIRST = ("event", "level", "timestamp")
"""Leading fields of a line, which are never left out of it."""

MAX_FRAMES = 20

CAUSES = ("by", "rm_id")
"""The fields of a line that name who causes it; the first that is not empty counts. Without one it
is the host of its `peer`."""

_stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
# The values of variables are left out: what RMs sent is in them, and they may be large.
_render_exceptions = structlog.processors.ExceptionRenderer(
    ExceptionDictTransformer(show_locals=False, max_frames=MAX_FRAMES)
)


class Lines:
    """Makes lines, and is the last processor of structlog. Any thread may call any method."""

    def __init__(self, drops: Drops, render: Callable[[EventDict], str] | None = None) -> None:
        """Count in `drops` the lines that are not made; `render` makes JSON if it is not given."""
        self._drops = drops
        self._render = render or rendered
        self._limits = Limits(monotonic)

    def __call__(self, logger: Any, method: str, entry: EventDict) -> str:
        """The line for an event of the server, which an RM or a caller may have caused.

        Raises:
            structlog.DropEvent: the line is not to be written.
        """
        kind = str(entry.get("event"))[:MAX_KIND]
        cause = _cause_of(entry)
        if getattr(logger, "name", "") == AUDIT:
            # Only the allowance of each caller counts.
            is_admitted = self._limits.admits_from(cause, kind, OWN, None)
        elif cause:
            # Details are written on request: `debug` has a larger allowance.
            one = OWN if method == "debug" else OF_ONE
            is_admitted = self._limits.admits_from(cause, kind, one, OF_ALL)
        else:
            is_admitted = self._limits.admits(kind, OWN)
        if not is_admitted:
            self._drop(kind, Reason.RATE)
        return self._make(kind, entry)

    def foreign(self, kind: str, level: str, event: str, **fields: Any) -> str:
        """The line for a message of a library or the interpreter; empty if it is not to be written.

        `kind` is the key of the rate limit, and must not be up to any peer.
        """
        try:
            if not self._limits.admits(kind, FOREIGN):
                self._drop(kind, Reason.RATE)
            return self._make(kind, {**fields, "event": event, "level": level})
        except structlog.DropEvent:
            return ""

    def of_drops(self, dropped: Dropped) -> str:
        """The line that says how many lines were dropped."""
        entry = {**dropped._asdict(), "event": "log lines dropped", "level": "warning"}
        return self._render(_stamp(None, "warning", entry))

    def _make(self, kind: str, entry: EventDict) -> str:
        try:
            return self._render(_render_exceptions(None, "", _stamp(None, "", entry)))
        except Exception:
            # The caller must not fail because a value has no text.
            self._drop(kind, Reason.UNPRINTABLE)

    def _drop(self, kind: str, reason: Reason) -> NoReturn:
        self._drops.add(kind, reason)
        raise structlog.DropEvent


def _cause_of(entry: EventDict) -> str:
    """The cause of a line: an RM, a caller, or the host of one; empty for the server itself."""
    for field in CAUSES:
        if cause := entry.get(field):
            return str(cause)[:MAX_KIND]
    peer = entry.get("peer")
    return peer_of(host_of(str(peer)[:MAX_KIND])) if peer else ""


def rendered(entry: EventDict) -> str:
    """The entry as a JSON object in ASCII without control characters, no longer than `MAX_LINE`."""
    return json.dumps(fitted(entry))


def fitted(entry: EventDict) -> dict[str, Any]:
    """The entry, cut to fit a line of JSON of `MAX_LINE` characters.

    The work is bounded too: what finds no room is not looked at.
    """
    ordered = {key: entry[key] for key in FIRST if key in entry} | dict(entry)
    fit: dict[str, Any] = {}
    for room in ROOMS:
        fit = _Fitting(room).fit(ordered)
        if len(json.dumps(fit)) <= MAX_LINE:
            break
    return fit


class _Fitting:
    """Takes of a value what there is room for."""

    def __init__(self, room: int) -> None:
        self._left = room

    def fit(self, value: Any, depth: int = 0) -> Any:
        """The value, texts cut and entries left out where there is no room for them."""
        self._left -= VALUE_COST
        if isinstance(value, str):
            return self._text(value)
        if value is None or isinstance(value, bool | float):
            return value
        if isinstance(value, int) and abs(value) < MAX_NUMBER:
            return int(value)
        if isinstance(value, Mapping | list | tuple) and depth == MAX_DEPTH:
            return "…"
        if isinstance(value, Mapping):
            return {
                self._text(str(key)): self.fit(item, depth + 1)
                for key, item in takewhile(self._has_room, value.items())
            }
        if isinstance(value, list | tuple):
            return [self.fit(item, depth + 1) for item in takewhile(self._has_room, value)]
        return self._text(repr(value))

    def _has_room(self, _: object) -> bool:
        return self._left > 0

    def _text(self, text: str) -> str:
        kept = max(0, min(len(text), MAX_TEXT, self._left))
        self._left -= kept
        more = len(text) - kept
        return f"{text[:kept]} … and {more} characters more" if more else text
