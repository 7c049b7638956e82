"""Converts log entries to lines: limits their rate and length, escapes them, and counts dropped lines.

Each kind of line has an allowance, so that no kind fills a disk. Lines caused by an RM or a caller
are also limited per RM or caller, so that one flood does not crowd out the lines of others.
"""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from time import monotonic
from typing import Any, NamedTuple, NoReturn, TypeVar

import structlog
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import EventDict

from licorne_server.process.bounds import host_of, peer_of
from licorne_server.process.lost_lines import Dropped, Drops, Reason
from licorne_server.telemetry.logs.levels import AUDIT

MAX_KINDS = 256
"""Maximum number of distinct kinds of lines; all further kinds share an allowance."""

MAX_CAUSES = 4096
"""Maximum number of distinct causes of all kinds; all further causes of a kind share an allowance."""

OTHER = "other"

K = TypeVar("K")


class Allowance(NamedTuple):
    """A token bucket of lines: its size (`burst`), and its refill per second."""

    burst: int
    per_second: float


OWN = Allowance(burst=1000, per_second=20.0)
"""Allowance of the server's own lines, for each event."""

OF_ONE = Allowance(burst=200, per_second=5.0)
"""Allowance for each event and cause."""

OF_ALL = Allowance(burst=4000, per_second=100.0)
"""Allowance for each event, for all its causes together."""

FOREIGN = Allowance(burst=20, per_second=1.0)
"""Allowance of lines of libraries, for each kind: peers may control their number and text."""


@dataclass(slots=True)
class _Bucket:
    allowance: Allowance
    left: float
    seen: float

    def fill(self, now: float) -> float:
        """Refill for the elapsed time; returns the number of remaining lines."""
        burst, per_second = self.allowance
        self.left = min(burst, self.left + (now - self.seen) * per_second)
        self.seen = now
        return self.left


class Limits:
    """The allowances of all kinds of lines. Any thread may call any method."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` returns monotonic seconds."""
        self._now = now
        self._lock = threading.RLock()
        self._kinds: dict[str, _Bucket] = {}
        self._causes: dict[tuple[str, str], _Bucket] = {}
        # The time at which causes were last dropped.
        self._swept = now()

    def admits(self, kind: str, allowance: Allowance) -> bool:
        """True if one more line of the kind may be written; then the line is counted."""
        with self._lock:
            return _take(self._of_kind(kind, allowance))

    def admits_from(self, cause: str, kind: str, one: Allowance, every: Allowance | None) -> bool:
        """True if one more line of the cause and kind may be written; then the line is counted.

        `one` is the allowance of the cause, and `every` that of all causes together; None for no limit.
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
        """Drop causes whose allowance is full, at most once a second."""
        now = self._now()
        if now - self._swept < 1.0:
            return
        self._swept = now
        # A copy, as the garbage collector may log in the meantime.
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


MAX_LINE = 16_384
"""Maximum number of characters of a line; all are ASCII."""

MAX_KIND = 100
MAX_TEXT = 4096
"""Maximum number of characters of a text."""

ROOMS = (MAX_LINE, MAX_LINE // 4, MAX_LINE // 16)
"""Limits on the characters of all values, tried in turn: escaping makes texts up to six times as long."""

VALUE_COST = 8
"""Number of characters counted for a value in addition to its text: quotes, commas, brackets."""

MAX_NUMBER = 10**18
MAX_DEPTH = 8
FIRST = ("event", "level", "timestamp")
"""Leading fields of a line, which are never left out."""

MAX_FRAMES = 20

CAUSES = ("by", "rm_id")
"""Fields that name the cause of a line; the first non-empty one is used. Without any of them the cause is the
host of the line's `peer`."""

_stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
# Values of variables are left out of tracebacks: they may contain texts of RMs, and may be large.
_render_exceptions = structlog.processors.ExceptionRenderer(
    ExceptionDictTransformer(show_locals=False, max_frames=MAX_FRAMES)
)


class Lines:
    """The last processor of structlog, which makes lines. Any thread may call any method."""

    def __init__(
        self,
        drops: Drops,
        render: Callable[[EventDict], str] | None = None,
        always: Mapping[str, int] | None = None,
    ) -> None:
        """Count dropped lines in `drops`; `render` is JSON by default; each line has the fields `always`."""
        self._drops = drops
        self._render = render or rendered
        self._always = dict(always or {})
        self._limits = Limits(monotonic)

    def __call__(self, logger: Any, method: str, entry: EventDict) -> str:
        """The line for an event of the server, whose cause may be an RM or a caller.

        Raises:
            structlog.DropEvent: the line is dropped.
        """
        kind = str(entry.get("event"))[:MAX_KIND]
        cause = _cause_of(entry)
        if getattr(logger, "name", "") == AUDIT:
            # The number of audit lines is limited only for each caller.
            is_admitted = self._limits.admits_from(cause, kind, OWN, None)
        elif cause:
            # An operator has requested these details: `debug` has a larger allowance.
            one = OWN if method == "debug" else OF_ONE
            is_admitted = self._limits.admits_from(cause, kind, one, OF_ALL)
        else:
            is_admitted = self._limits.admits(kind, OWN)
        if not is_admitted:
            self._drop(kind, Reason.RATE)
        return self._make(kind, entry)

    def foreign(self, kind: str, level: str, event: str, **fields: Any) -> str:
        """The line for a message of a library or the interpreter; empty if it is dropped.

        `kind` is the key of the rate limit, and must not be chosen by a peer.
        """
        try:
            if not self._limits.admits(kind, FOREIGN):
                self._drop(kind, Reason.RATE)
            return self._make(kind, {**fields, "event": event, "level": level})
        except structlog.DropEvent:
            return ""

    def of_drops(self, dropped: Dropped) -> str:
        """The line with the number of dropped lines."""
        entry = {**dropped._asdict(), "event": "log lines dropped", "level": "warning", **self._always}
        return self._render(_stamp(None, "warning", entry))

    def _make(self, kind: str, entry: EventDict) -> str:
        try:
            entry.update(self._always)
            return self._render(_render_exceptions(None, "", _stamp(None, "", entry)))
        except Exception:
            # A value that cannot be converted to a text must not fail the caller.
            self._drop(kind, Reason.UNPRINTABLE)

    def _drop(self, kind: str, reason: Reason) -> NoReturn:
        self._drops.add(kind, reason)
        raise structlog.DropEvent


def _cause_of(entry: EventDict) -> str:
    """The cause of a line: an RM, a caller, or a caller's host; empty for the server itself."""
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

    The work is bounded as well, because values beyond the limit are not read.
    """
    ordered = {key: entry[key] for key in FIRST if key in entry} | dict(entry)
    fit: dict[str, Any] = {}
    for room in ROOMS:
        fit = _Fitting(room).fit(ordered)
        if len(json.dumps(fit)) <= MAX_LINE:
            break
    return fit


class _Fitting:
    """Cuts values to the remaining room."""

    def __init__(self, room: int) -> None:
        self._left = room

    def fit(self, value: Any, depth: int = 0) -> Any:
        """The value, with texts cut and entries left out once the room is used up."""
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
