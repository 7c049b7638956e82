"""Stderr of the process: the thread that writes lines, and the redirection of foreign output.

The C core of gRPC writes messages with texts of peers, including line breaks, to file descriptor 2. So
descriptor 2 becomes a pipe into this process, and a thread turns each message into one line. Tracebacks and
warnings of the interpreter, and records of `logging`, become lines as well.
"""

import errno
import fcntl
import logging
import os
import re
import select
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING

from licorne_server.process.lost_lines import Dropped, Drops, Reason
from licorne_server.telemetry.logs.lines import Lines

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

MAX_LINES = 10_000
MAX_BYTES = 4 << 20
"""Maximum number of bytes of waiting lines; further lines are dropped."""

TELL_SECONDS = 5.0
"""Seconds between two log lines about dropped lines."""

ALL = "all"
"""Kind of drops that affect lines of all kinds."""

_REASONS = {
    errno.ENOSPC: Reason.NO_SPACE,
    errno.EDQUOT: Reason.NO_SPACE,
    errno.EPIPE: Reason.CLOSED,
    errno.EBADF: Reason.CLOSED,
}


class Writer:
    """A bounded queue of lines, and the thread that writes them. Any thread may call `write`."""

    def __init__(
        self,
        fd: int | None,
        drops: Drops,
        of_drops: Callable[[Dropped], str],
        *,
        max_lines: int = MAX_LINES,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """Write to `fd`; if it is None, drop everything. `of_drops` makes the lines about dropped lines."""
        self._fd = fd
        self._drops = drops
        self._of_drops = of_drops
        self._max_lines = max_lines
        self._max_bytes = max_bytes
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._closing = False
        # True while the last written line is incomplete.
        self._torn = False
        # The lock is reentrant, because the garbage collector may log in the middle of `write`.
        self._changed = threading.Condition(threading.RLock())
        self._thread = threading.Thread(target=self._run, name="log writer", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def write(self, line: str) -> None:
        """Queue a line, or count it as dropped; neither waits nor fails."""
        self._put_in(line, 1)

    def write_audit(self, line: str) -> None:
        """Queue a line of the audit log, for which the queue is twice as long, or count it as dropped."""
        self._put_in(line, 2)

    def _put_in(self, line: str, rooms: int) -> None:
        data = line.encode("ascii", "backslashreplace") + b"\n"
        size = len(data)
        max_lines, max_bytes = rooms * self._max_lines, rooms * self._max_bytes
        with self._changed:
            if self._closing:
                reason = Reason.CLOSED
            elif len(self._lines) >= max_lines or self._bytes + size > max_bytes:
                reason = Reason.QUEUE_FULL
            else:
                self._bytes += size
                self._lines.append(data)
                self._changed.notify()
                return
        self._drops.add(ALL, reason)

    def close(self, seconds: float) -> None:
        """Accept no more lines, and wait at most `seconds` for queued lines."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(seconds)

    def _run(self) -> None:
        told = monotonic()
        while (line := self._next()) is not None:
            if line and (reason := self._put(line)):
                self._drops.add(ALL, reason)
            if monotonic() - told >= TELL_SECONDS:
                self._log_drops()
                told = monotonic()
        self._log_drops()

    def _next(self) -> bytes | None:
        """The next line; empty if none arrives for a while, None at the end."""
        with self._changed:
            if not self._lines and not self._closing:
                self._changed.wait(TELL_SECONDS)
            if self._lines:
                line = self._lines.popleft()
                self._bytes -= len(line)
                return line
            return None if self._closing else b""

    def _log_drops(self) -> None:
        """Log the number of dropped lines; if that fails as well, try again later."""
        for dropped in self._drops.take_unlogged():
            if self._put(self._of_drops(dropped).encode() + b"\n"):
                self._drops.put_back(dropped)

    def _put(self, line: bytes) -> Reason | None:
        """Write one line; returns the reason of a failure, or None."""
        if self._fd is None:
            return Reason.CLOSED
        # A line break ends an incomplete line, so that this line begins a new one.
        rest = memoryview(b"\n" + line if self._torn else line)
        try:
            while rest:
                rest = self._write_some(self._fd, rest)
                self._torn = 0 < len(rest) < len(line)
        except OSError as error:
            return _REASONS.get(error.errno or 0, Reason.WRITE_FAILED)
        return None

    def _write_some(self, fd: int, data: memoryview) -> memoryview:
        """Write as much as the system accepts now; return the remaining data."""
        while True:
            try:
                return data[os.write(fd, data) :]
            except BlockingIOError:  # another owner of the descriptor made it non-blocking
                ready = select.poll()
                ready.register(fd, select.POLLOUT)
                ready.poll()


STDERR = 2
KIND = "grpc core"
PIPE_BYTES = 1 << 20
READ_BYTES = 1 << 16
PAUSE_SECONDS = 0.01
"""Pause of the thread after each message beyond its allowance, in seconds."""

END_SECONDS = 1.0
"""Maximum seconds that the thread takes at the end to read the remaining messages."""

_LEVELS = {"I": "info", "W": "warning", "E": "error", "F": "critical"}
_HEAD = re.compile(r"([IWEF])\d{4} ")


class Redirect:
    """Redirects descriptor 2 into this process, from `begin` to `end`."""

    def __init__(self, lines: Lines, write: Callable[[str], None]) -> None:
        """Make `lines` of all messages, and pass them to `write`."""
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
        """Undo the redirection, and read the remaining messages."""
        os.dup2(self._saved, STDERR)
        self._ending.set()
        self._thread.join(END_SECONDS)

    def _drain(self) -> None:
        while packet := os.read(self._read, READ_BYTES):
            text = packet.decode("utf-8", "backslashreplace").strip()
            if text and not self._say(text):
                # This bounds the cost of a flood: messages that do not fit into the pipe are lost.
                self._ending.wait(PAUSE_SECONDS)
        os.close(self._read)

    def _say(self, text: str) -> bool:
        """Write a line for one message; returns True if its allowance admitted it."""
        head = _HEAD.match(text)
        level = _LEVELS[head[1]] if head else "warning"
        line = self._lines.foreign(KIND, level, KIND, text=text)
        if line:
            self._write(line)
        return bool(line)


def _pipe() -> tuple[int, int]:
    """A pipe, with its reading end first, in which every write of up to a page is read at once."""
    try:
        read, write = os.pipe2(os.O_CLOEXEC | os.O_DIRECT)
    except OSError:  # not every system has pipes of packets
        read, write = os.pipe2(os.O_CLOEXEC)
    with suppress(OSError):  # the size is optional
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    # Writers must never wait, because a writer may hold the interpreter's lock, which the reader needs.
    os.set_blocking(write, False)
    return read, write


LIBRARY = "said by a library"
UNCAUGHT = "uncaught exception"
IGNORED = "exception ignored"


class Strays(logging.Handler):
    """Makes lines of logging records, warnings and uncaught exceptions. Any thread may call it."""

    def __init__(self, lines: Lines, write: Callable[[str], None]) -> None:
        """Pass the lines to `write`."""
        super().__init__()
        self._lines = lines
        self._write = write
        self._root = logging.getLogger()
        # Handlers of `logging` and hooks of the interpreter from before `begin`.
        self._handlers = list(self._root.handlers)
        self._level = self._root.level
        self._hooks = (sys.excepthook, threading.excepthook, sys.unraisablehook)

    def begin(self, level: int) -> None:
        """Begin to make lines; `logging` writes records of this level and above."""
        self._root.handlers[:] = [self]
        self._root.setLevel(level)
        logging.captureWarnings(True)
        sys.excepthook = self._uncaught
        threading.excepthook = self._uncaught_in_thread
        sys.unraisablehook = self._ignored

    def end(self) -> None:
        """Restore all handlers and hooks."""
        self._root.handlers[:] = self._handlers
        self._root.setLevel(self._level)
        logging.captureWarnings(False)
        sys.excepthook, threading.excepthook, sys.unraisablehook = self._hooks

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record of `logging`."""
        text: object
        try:
            text = record.getMessage()
        except Exception:  # the arguments do not match the format
            text = record.msg
        level = record.levelname.lower()
        about = {"logger": record.name, "text": text}
        self._say(f"{LIBRARY}: {record.name}", level, LIBRARY, about, record.exc_info)

    def _uncaught(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        self._say(UNCAUGHT, "critical", UNCAUGHT, {}, (kind, error, trace))

    def _uncaught_in_thread(self, args: threading.ExceptHookArgs) -> None:
        if args.exc_type is SystemExit:  # an ordinary end, as in Python's own hook
            return
        about = {"thread": args.thread.name if args.thread else ""}
        self._say(UNCAUGHT, "error", UNCAUGHT, about, _exc_info(args))

    def _ignored(self, args: "UnraisableHookArgs") -> None:
        # Only the type of the object is named, because the object may be partly destroyed.
        about = {"reason": args.err_msg or "", "type": type(args.object).__qualname__}
        self._say(IGNORED, "error", IGNORED, about, _exc_info(args))

    def _say(self, kind: str, level: str, event: str, about: Mapping[str, object], exc_info: object) -> None:
        line = self._lines.foreign(kind, level, event, **about, exc_info=exc_info)
        if line:
            self._write(line)


def _exc_info(args: "threading.ExceptHookArgs | UnraisableHookArgs") -> object:
    """Exception info for a traceback; None if the interpreter no longer has the exception."""
    value = args.exc_value
    return None if value is None else (args.exc_type, value, args.exc_traceback)
