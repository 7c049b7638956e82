"""Log entries into lines: limited in number, bounded in length, escaped."""

import json
from collections.abc import Callable, Mapping
from itertools import takewhile
from time import monotonic
from typing import Any, NoReturn

import structlog
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import EventDict

from licorne_server.process.peer_bounds import host_of, peer_of
from licorne_server.telemetry.logs.levels import AUDIT
from licorne_server.telemetry.logs.limits import FOREIGN, OF_ALL, OF_ONE, OWN, Dropped, Drops, Limits, Reason

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
