"""Redirects the stderr of C libraries into log lines.

The core of gRPC writes its messages to file descriptor 2. Texts of peers are in them, with line
breaks. So descriptor 2 becomes a pipe of this process, and a thread makes one line of each message.
"""

import fcntl
import os
import re
import threading
from collections.abc import Callable
from contextlib import suppress

from licorne_server.telemetry.logs.lines import Lines

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
