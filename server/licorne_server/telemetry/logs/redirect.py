"""Redirects the stderr of C libraries into log lines.

The core of gRPC writes its messages to file descriptor 2. Texts of peers are in them, with line
breaks. So descriptor 2 becomes a pipe of this process, and a thread makes one line of each message.

Messages of the interpreter and of libraries: tracebacks, warnings, and Python's own logging.

They would write to stderr in forms of their own, with texts of peers in them.
"""

import fcntl
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

from licorne_server.telemetry.logs.lines import Lines

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

STDERR = 2
KIND = "grpc core"
PIPE_BYTES = 1 << 20
READ_BYTES = 1 << 16
PAUSE_SECONDS = 0.01
"""Seconds that the thread pauses after each message beyond its allowance."""

END_SECONDS = 1.0
"""Seconds that the thread may take to read the rest in the end."""

_LEVELS = {"I": "info", "W": "warning", "E": "error", "F": "critical"}
_HEAD = re.compile(r"([IWEF])\d{4} ")


class Redirect:
    """Descriptor 2 leads into this process from `begin` to `end`."""

    def __init__(self, lines: Lines, write: Callable[[str], None]) -> None:
        """Make `lines` of all that is written there, and hand them to `write`."""
        self._lines = lines
        self._write = write
        self._saved = -1
        self._read = -1
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._drain, name="stderr reader", daemon=True)

    def begin(self, saved: int) -> None:
        """Redirect stderr. `saved` is a descriptor of its final target."""
        self._saved = saved
        self._read, write = _pipe()
        os.dup2(write, STDERR)
        os.close(write)
        self._thread.start()

    def end(self) -> None:
        """Undo the redirection, and read the rest."""
        os.dup2(self._saved, STDERR)
        self._ending.set()
        self._thread.join(END_SECONDS)

    def _drain(self) -> None:
        while packet := os.read(self._read, READ_BYTES):
            text = packet.decode("utf-8", "backslashreplace").strip()
            if text and not self._say(text):
                # So a flood costs little: what the pipe does not take is lost before it is read.
                self._ending.wait(PAUSE_SECONDS)
        os.close(self._read)

    def _say(self, text: str) -> bool:
        """Make a line of one message; returns True if there was an allowance for it."""
        head = _HEAD.match(text)
        level = _LEVELS[head[1]] if head else "warning"
        line = self._lines.foreign(KIND, level, KIND, text=text)
        if line:
            self._write(line)
        return bool(line)


def _pipe() -> tuple[int, int]:
    """A pipe, its reading end first, in which every write of up to a page is one read."""
    try:
        read, write = os.pipe2(os.O_CLOEXEC | os.O_DIRECT)
    except OSError:  # not every system has pipes of packets
        read, write = os.pipe2(os.O_CLOEXEC)
    with suppress(OSError):  # the size is a wish
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    # Who writes must never wait: it may hold the interpreter's lock, which the reader needs.
    os.set_blocking(write, False)
    return read, write


LIBRARY = "said by a library"
UNCAUGHT = "uncaught exception"
IGNORED = "exception ignored"


class Strays(logging.Handler):
    """Makes lines of all that from `begin` to `end`. Any thread may call any method."""

    def __init__(self, lines: Lines, write: Callable[[str], None]) -> None:
        """Hand the lines to `write`."""
        super().__init__()
        self._lines = lines
        self._write = write
        self._root = logging.getLogger()
        # What Python's logging and its hooks were before `begin`.
        self._handlers = list(self._root.handlers)
        self._level = self._root.level
        self._hooks = (sys.excepthook, threading.excepthook, sys.unraisablehook)

    def begin(self, level: int) -> None:
        """Redirect everything; loggers of Python log at this level or above."""
        self._root.handlers[:] = [self]
        self._root.setLevel(level)
        logging.captureWarnings(True)
        sys.excepthook = self._uncaught
        threading.excepthook = self._uncaught_in_thread
        sys.unraisablehook = self._ignored

    def end(self) -> None:
        """Give everything back to whom it was taken from."""
        self._root.handlers[:] = self._handlers
        self._root.setLevel(self._level)
        logging.captureWarnings(False)
        sys.excepthook, threading.excepthook, sys.unraisablehook = self._hooks

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record of a Python logger."""
        text: object
        try:
            text = record.getMessage()
        except Exception:  # the arguments do not fit the text
            text = record.msg
        level = record.levelname.lower()
        about = {"logger": record.name, "text": text}
        self._say(f"{LIBRARY}: {record.name}", level, LIBRARY, about, record.exc_info)

    def _uncaught(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        self._say(UNCAUGHT, "critical", UNCAUGHT, {}, (kind, error, trace))

    def _uncaught_in_thread(self, args: threading.ExceptHookArgs) -> None:
        if args.exc_type is SystemExit:  # an ordinary end, for Python too
            return
        about = {"thread": args.thread.name if args.thread else ""}
        self._say(UNCAUGHT, "error", UNCAUGHT, about, _exc_info(args))

    def _ignored(self, args: "UnraisableHookArgs") -> None:
        # The object itself may be half gone: only its type is named.
        about = {"reason": args.err_msg or "", "type": type(args.object).__qualname__}
        self._say(IGNORED, "error", IGNORED, about, _exc_info(args))

    def _say(self, kind: str, level: str, event: str, about: Mapping[str, object], exc_info: object) -> None:
        line = self._lines.foreign(kind, level, event, **about, exc_info=exc_info)
        if line:
            self._write(line)


def _exc_info(args: "threading.ExceptHookArgs | UnraisableHookArgs") -> object:
    """Exception info for a traceback; None if Python has dropped the exception."""
    value = args.exc_value
    return None if value is None else (args.exc_type, value, args.exc_traceback)
