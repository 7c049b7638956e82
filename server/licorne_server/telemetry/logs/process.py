"""The logs of a whole process: all output for stderr goes through one writer."""

import faulthandler
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from licorne_server.telemetry.logs.console import Console
from licorne_server.telemetry.logs.drops import Drops, Reason
from licorne_server.telemetry.logs.lines import Lines
from licorne_server.telemetry.logs.redirect import STDERR, Redirect
from licorne_server.telemetry.logs.setting import set_up
from licorne_server.telemetry.logs.strays import Strays
from licorne_server.telemetry.logs.writer import Writer

FORMATS = ("auto", "console", "json")
"""Formats of lines: `auto` is `console` where stderr is a terminal, and `json` elsewhere."""

FLUSH_SECONDS = 2.0
"""Seconds that the process waits in the end for unwritten lines."""

# A process has one stderr, and so one count.
_drops = Drops()


def dropped() -> Mapping[str, int]:
    """Dropped log lines of this process, by reason; 0 before its logs are taken over."""
    return _drops.totals()


def note_lost(kind: str) -> None:
    """Count a line that failed before it could be written: it is logged later."""
    _drops.add(kind, Reason.WRITE_FAILED)


class ProcessLogs:
    """The owner of the process's logs."""

    def __init__(self, level: str, form: str = "json") -> None:
        """Redirect nothing before `begin`. `form` is one of `FORMATS`."""
        self._level = level
        self._is_open = sys.stderr is not None
        self._lines = Lines(_drops, _console(form))
        self._saved = -1
        self._writer: Writer
        self._redirect: Redirect
        self._strays: Strays

    def begin(self) -> None:
        """Redirect the logs of the server, of its libraries and of the interpreter."""
        _fill_standard_descriptors()
        saved = os.dup(STDERR)
        self._writer = Writer(saved if self._is_open else None, _drops, self._lines.of_drops)
        self._writer.start()
        set_up(self._level, self._lines, self._writer.write, self._writer.write_audit)
        self._strays = Strays(self._lines, self._writer.write)
        # Messages of libraries at `debug` are for their authors.
        self._strays.begin(logging.INFO if self._level == "debug" else logging.WARNING)
        self._redirect = Redirect(self._lines, self._writer.write)
        self._redirect.begin(saved)
        # In a crash of the process no thread is left to make lines.
        faulthandler.enable(file=saved)

    def end(self) -> None:
        """Undo the redirections, and wait a bounded time for unwritten lines."""
        faulthandler.disable()
        self._redirect.end()
        self._strays.end()
        self.flush()

    def flush(self) -> None:
        """Wait a bounded time for unwritten lines. Nothing is logged any more after it."""
        self._writer.close(FLUSH_SECONDS)


@contextmanager
def process_logs(level: str, form: str = "json") -> Iterator[ProcessLogs]:
    """The process's logs are taken over inside the block; `form` is one of `FORMATS`.

    This is for a process that is nothing but a server: descriptor 2, the hooks of the interpreter
    and Python's logging belong to the whole process.
    """
    logs = ProcessLogs(level, form)
    logs.begin()
    try:
        yield logs
    finally:
        logs.end()


def _console(form: str) -> Console | None:
    """The renderer of lines for a person, None where they are for programs."""
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    if form == "json" or (form == "auto" and not is_terminal):
        return None
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return Console(colours=is_terminal and not plain)


def _fill_standard_descriptors() -> None:
    """Open those of 0, 1 and 2 that are closed, or a connection may get their numbers."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        pass
    os.close(fd)
