"""Descriptors that a log can be written to, in good and in bad states."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path


@contextmanager
def pipe() -> Iterator[tuple[FileIO, FileIO]]:
    """A pipe that is full after one page, its reading end first; a test may close the ends.

    They are closed once, however often that is said: by then another file may have the number.
    """
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    with FileIO(read, "r") as reading, FileIO(write, "w") as writing:
        yield reading, writing


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """A file to write to."""
    with path.open("wb") as file:
        yield file.fileno()


def full_disk() -> contextlib.AbstractContextManager[int]:
    """A file on a disk without space."""
    return opened(Path("/dev/full"))


@contextmanager
def sealed() -> Iterator[int]:
    """A file in memory that the system lets nobody write to."""
    fd = os.memfd_create("sealed", os.MFD_ALLOW_SEALING)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    try:
        yield fd
    finally:
        os.close(fd)
