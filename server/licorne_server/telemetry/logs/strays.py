"""Messages of the interpreter and of libraries: tracebacks, warnings, and Python's own logging.

They would write to stderr in forms of their own, with texts of peers in them.
"""

import logging
import sys
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from licorne_server.telemetry.logs.lines import Lines

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

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

    def _uncaught(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
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

    def _say(
        self, kind: str, level: str, event: str, about: Mapping[str, object], exc_info: object
    ) -> None:
        line = self._lines.foreign(kind, level, event, **about, exc_info=exc_info)
        if line:
            self._write(line)


def _exc_info(args: "threading.ExceptHookArgs | UnraisableHookArgs") -> object:
    """Exception info for a traceback; None if Python has dropped the exception."""
    value = args.exc_value
    return None if value is None else (args.exc_type, value, args.exc_traceback)
