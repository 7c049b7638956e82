"""Formatting of log lines for a terminal; programs get JSON."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from structlog.typing import EventDict

from licorne_server.telemetry.logs.lines import fitted

HEAD = ("timestamp", "level", "event")
TRACE = "exception"
EVENT_WIDTH = 28
LEVEL_WIDTH = 8
# From the time of day on: a terminal's reader knows the date.
_CLOCK = slice(11, 23)
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/[]@%+#")

_COLOURS = {
    "debug": "\x1b[2m",
    "info": "\x1b[32m",
    "warning": "\x1b[33m",
    "error": "\x1b[31m",
    "critical": "\x1b[1;31m",
}
_DIM, _BOLD, _END = "\x1b[2m", "\x1b[1m", "\x1b[0m"


class Console:
    """Renders an entry: time of day, level, event, and what belongs to it as ``name=value``.

    A traceback follows in lines of its own. No control character of a value reaches the terminal.
    """

    def __init__(self, *, colours: bool) -> None:
        """`colours`: the terminal has colours, and the user wants them."""
        self._colours = colours

    def __call__(self, entry: EventDict) -> str:
        """The text, whose lines are in ASCII."""
        shown = fitted(entry)
        level = str(shown.get("level", ""))
        clock = str(shown.get("timestamp", ""))[_CLOCK]
        event = _escaped(str(shown.get("event", "")))
        about = [
            f"{self._in(_DIM, f'{name}=')}{_value(value)}"
            for name, value in shown.items()
            if name not in (*HEAD, TRACE)
        ]
        first = " ".join(
            [
                self._in(_DIM, clock),
                self._in(_COLOURS.get(level, ""), level.ljust(LEVEL_WIDTH)),
                self._in(_BOLD, event.ljust(EVENT_WIDTH) if about else event),
                *about,
            ]
        )
        return "\n".join([first, *_traceback(shown.get(TRACE))])

    def _in(self, colour: str, text: str) -> str:
        return f"{colour}{text}{_END}" if self._colours and colour else text


def _value(value: Any) -> str:
    """A word as it is, and anything else as JSON, which escapes what a terminal would obey."""
    if isinstance(value, str) and value and _PLAIN.issuperset(value):
        return value
    return json.dumps(value)


def _escaped(text: str) -> str:
    return json.dumps(text)[1:-1]


def _traceback(trace: Any) -> Iterable[str]:
    """The lines of an exception, the innermost call last, as Python prints them."""
    if not isinstance(trace, list):
        return
    for error in trace:
        if not isinstance(error, Mapping):
            continue
        for frame in error.get("frames") or ():
            if isinstance(frame, Mapping):
                place = f"{frame.get('filename')}:{frame.get('lineno')}"
                yield f"    {_escaped(place)} in {_escaped(str(frame.get('name')))}"
        yield f"  {_escaped(str(error.get('exc_type')))}: {_escaped(str(error.get('exc_value')))}"
