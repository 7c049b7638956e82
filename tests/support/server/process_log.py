"""Logs of processes: working and failing descriptors to write to, and the lines on stderr."""

import contextlib
import fcntl
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

from support.patience import PATIENCE


class Log:
    """The output of a process on a pipe, read as it arrives."""

    def __init__(self, read: int) -> None:
        """Read from this end until all writing ends are closed."""
        self._read = read
        self._raw = b""
        self._thread = threading.Thread(target=self._take)
        self._thread.start()

    def _take(self) -> None:
        with os.fdopen(os.dup(self._read), "rb") as stream:
            self._raw = stream.read()

    def entries(self) -> list[dict[str, Any]]:
        """All lines, once all writers have closed; each is an object in printable ASCII."""
        return [entry_of(line) for line in self.lines()]

    def lines(self) -> list[str]:
        """All lines, once all writers have closed."""
        self._thread.join(PATIENCE)
        text = self._raw.decode("ascii")
        assert text.endswith("\n")
        return text.removesuffix("\n").split("\n")


def entry_of(line: str) -> dict[str, Any]:
    """The object of a line in printable ASCII."""
    assert line.isascii()
    assert line.isprintable()
    entry = json.loads(line)
    assert isinstance(entry, dict)
    return entry


@contextmanager
def pipe() -> Iterator[tuple[FileIO, FileIO]]:
    """A pipe that is full after one page, its reading end first; a test may close the ends.

    Closing an end twice is harmless, although another file may have the same number by then.
    """
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    with FileIO(read, "r") as reading, FileIO(write, "w") as writing:
        yield reading, writing


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """The descriptor of a file that is written."""
    with path.open("wb") as file:
        yield file.fileno()


def full_disk() -> contextlib.AbstractContextManager[int]:
    """A file on a disk without space."""
    return opened(Path("/dev/full"))


@contextmanager
def sealed() -> Iterator[int]:
    """A file in memory that the kernel protects against writes."""
    fd = os.memfd_create("sealed", os.MFD_ALLOW_SEALING)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    try:
        yield fd
    finally:
        os.close(fd)
