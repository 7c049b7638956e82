"""A thread that writes lines to a file descriptor, so that no caller waits for it."""

import errno
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic

from licorne_server.telemetry.logs.limits import Dropped, Drops, Reason

MAX_LINES = 10_000
MAX_BYTES = 4 << 20
"""Bytes of waiting lines. Lines above it are dropped."""

TELL_SECONDS = 5.0
"""Seconds between two log lines about dropped lines."""

ALL = "all"
"""The kind of lines that are dropped whatever they say."""

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
        """Write to `fd`; None drops everything. `of_drops` makes the lines about drops."""
        self._fd = fd
        self._drops = drops
        self._of_drops = of_drops
        self._max_lines = max_lines
        self._max_bytes = max_bytes
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._closing = False
        # Whether a line was cut off in its middle.
        self._torn = False
        # Its lock can be taken again: the collector of garbage may log in the middle of `write`.
        self._changed = threading.Condition(threading.RLock())
        self._thread = threading.Thread(target=self._run, name="log writer", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def write(self, line: str) -> None:
        """Queue a line, or count it as dropped. This neither waits nor fails."""
        self._put_in(line, 1)

    def write_audit(self, line: str) -> None:
        """The same for a line that has room where there is none for others: twice as much waits."""
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
        """Take no more lines, and wait at most `seconds` for the queued ones."""
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
                self._tell()
                told = monotonic()
        self._tell()

    def _next(self) -> bytes | None:
        """The next line; empty if none has come for a while, None in the end."""
        with self._changed:
            if not self._lines and not self._closing:
                self._changed.wait(TELL_SECONDS)
            if self._lines:
                line = self._lines.popleft()
                self._bytes -= len(line)
                return line
            return None if self._closing else b""

    def _tell(self) -> None:
        """Log the number of dropped lines; if that fails too, retry later."""
        for dropped in self._drops.take_untold():
            if self._put(self._of_drops(dropped).encode() + b"\n"):
                self._drops.tell_later(dropped)

    def _put(self, line: bytes) -> Reason | None:
        """Write one line; why it could not be written, None if it was."""
        if self._fd is None:
            return Reason.CLOSED
        # What is left of the line before ends here, so that this one is whole.
        rest = memoryview(b"\n" + line if self._torn else line)
        try:
            while rest:
                rest = self._write_some(self._fd, rest)
                self._torn = 0 < len(rest) < len(line)
        except OSError as error:
            return _REASONS.get(error.errno or 0, Reason.WRITE_FAILED)
        return None

    def _write_some(self, fd: int, data: memoryview) -> memoryview:
        """Write as much as the system takes now; returns the rest."""
        while True:
            try:
                return data[os.write(fd, data) :]
            except BlockingIOError:  # another owner of the descriptor has made it so
                ready = select.poll()
                ready.register(fd, select.POLLOUT)
                ready.poll()
