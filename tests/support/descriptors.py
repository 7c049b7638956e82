"""Descriptors that a log can be written to, in good and in bad states."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe that is full after one page, its reading end first; a test may close the ends."""
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    try:
        yield read, write
    finally:
        for end in (read, write):
            with contextlib.suppress(OSError):
                os.close(end)


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
