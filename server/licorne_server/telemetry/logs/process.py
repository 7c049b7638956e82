"""Logs of a whole process: from log calls to lines, and all of stderr through one writer.

The lines are JSON for programs, and text for a terminal.
"""

import faulthandler
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import structlog
from structlog.typing import EventDict

from licorne_server.process.lost_lines import DROPS, Drops
from licorne_server.telemetry.logs.levels import AUDIT, Logger, levels, number_of
from licorne_server.telemetry.logs.lines import Lines, fitted
from licorne_server.telemetry.logs.stderr import STDERR, Redirect, Strays, Writer

HEAD = ("timestamp", "level", "event")
TRACE = "exception"
EVENT_WIDTH = 28
LEVEL_WIDTH = 8
# Only the time of day is shown, because a reader at a terminal knows the date.
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
    """Renders an entry: time of day, level, event, and its fields as ``name=value``.

    A traceback follows on separate lines. No control character of a value reaches the terminal.
    """

    def __init__(self, *, colours: bool) -> None:
        """`colours` is True if the terminal supports colours and they are not disabled."""
        self._colours = colours

    def __call__(self, entry: EventDict) -> str:
        """The text, in lines of ASCII."""
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
    """A word is unchanged; any other value is written as JSON, which escapes control characters."""
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


_ANY = "core"
"""Logger of lines without a name."""


def set_up(
    level: str,
    lines: Lines | None = None,
    write: Callable[[str], None] | None = None,
    write_audit: Callable[[str], None] | None = None,
) -> None:
    """Send the server's own lines of this level and above to `write`, by default to stderr.

    `write_audit` receives the lines of operators' requests; by default it is `write`.
    """
    usual = write or _to_stderr
    audit = write_audit or usual

    def logger(name: str = _ANY) -> Logger:
        return levels().logger(name, audit if name == AUDIT else usual)

    levels().begin(level)
    structlog.configure(
        processors=[
            _wanted,
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            lines or Lines(Drops()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=logger,
        cache_logger_on_first_use=True,
    )


def _wanted(logger: Logger, method: str, entry: EventDict) -> EventDict:
    """Drop lines below the level of their logger, and name the logger."""
    if number_of(method) < logger.threshold:
        raise structlog.DropEvent
    entry["logger"] = logger.name
    return entry


def _to_stderr(line: str) -> None:
    if sys.stderr is not None:
        with suppress(OSError, ValueError):  # stderr has no reader, or is closed
            print(line, file=sys.stderr)


FORMATS = ("auto", "console", "json")
"""Formats of lines: `auto` is `console` if stderr is a terminal, or else `json`."""

FLUSH_SECONDS = 2.0
"""Seconds that the process waits for unwritten lines at its end."""

# There is one stderr in the process, so there is one count.


def dropped() -> Mapping[str, int]:
    """Dropped log lines of this process, by reason; 0 before `process_logs`."""
    return DROPS.totals()


@contextmanager
def process_logs(
    level: str, form: str = "json", always: Mapping[str, int] | None = None
) -> Iterator[Callable[[], None]]:
    """Redirect the logs of the server, of its libraries and of the interpreter inside the block.

    This is for a process that is only a server: descriptor 2, the hooks of the interpreter and `logging`
    belong to the whole process. `form` is one of `FORMATS`. Each line has the fields `always`. The block gets
    a function that waits for unwritten lines, for a bounded time; after that call nothing is logged.
    """
    is_open = sys.stderr is not None
    lines = Lines(DROPS, _console(form), always)
    _fill_standard_descriptors()
    saved = os.dup(STDERR)
    writer = Writer(saved if is_open else None, DROPS, lines.of_drops)
    writer.start()
    set_up(level, lines, writer.write, writer.write_audit)
    strays = Strays(lines, writer.write)
    # Debug messages of libraries are useful only to their authors.
    strays.begin(logging.INFO if level == "debug" else logging.WARNING)
    redirect = Redirect(lines, writer.write)
    redirect.begin(saved)
    # If the process crashes, no thread is left to make lines.
    faulthandler.enable(file=saved)
    flush = partial(writer.close, FLUSH_SECONDS)
    try:
        yield flush
    finally:
        faulthandler.disable()
        redirect.end()
        strays.end()
        flush()


def _console(form: str) -> Console | None:
    """The renderer of text; None for JSON."""
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    if form == "json" or (form == "auto" and not is_terminal):
        return None
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return Console(colours=is_terminal and not plain)


def _fill_standard_descriptors() -> None:
    """Open descriptors 0, 1 and 2 if they are closed, so that no connection gets their numbers."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        pass
    os.close(fd)
