"""The directory of a journal: its lock, its files, and the bound on their size.

::

    lock                held by the server that writes there
    000007-0001.ljr     the first file of run 7

The files of a run are removed together, because none is of use without the earlier ones.

A file begins with `MAGIC`, and continues with frames of compressed blocks: three numbers of four bytes (bytes
stored, bytes of the block, and a checksum of both and of the stored bytes, little-endian), and the stored
bytes: the block, compressed by zlib. The first block is the header, and the others are arrays of entries.
"""

import errno
import os
import re
import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from licorne_server.engine.journal.records import Unreadable
from licorne_server.process.folder_lock import FolderLock

OURS_ONLY = 0o700
_NAME = re.compile(r"([0-9]{6,})-([0-9]{4,})\.ljr")


class Segment(NamedTuple):
    """A file of a run."""

    run: int
    number: int
    path: Path


def segments(folder: Path) -> list[Segment]:
    """The files of a journal, in order. Raises OSError if the directory cannot be read."""
    names = ((_NAME.fullmatch(path.name), path) for path in folder.iterdir())
    return sorted(Segment(int(match[1]), int(match[2]), path) for match, path in names if match)


def create(path: Path) -> int:
    """Make a file that only this user may read; returns its descriptor."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


class Folder:
    """The files of a journal that is being written. Methods block on the disk."""

    run: int
    """Number of the run that is written; 0 before `open`."""
    size: int
    """Total bytes of all files."""

    def __init__(self, path: Path, most: int, create: Callable[[Path], int] = create) -> None:
        """Write into a directory, at most `most` bytes in total. `create` opens a new file."""
        self.path = path
        self.run = self.size = 0
        self._most = most
        self._create = create
        self._lock = FolderLock(path)
        self._sizes: dict[int, int] = {}
        self._number = 0
        self._file = -1
        self._written = 0

    def open(self) -> bool:
        """Create the directory if missing, and lock it; return False if another server has locked it.

        Raises:
            OSError: the directory cannot be used.
        """
        self.path.mkdir(OURS_ONLY, parents=True, exist_ok=True)
        if not self._lock.take():
            return False
        for run, _, path in segments(self.path):
            self._sizes[run] = self._sizes.get(run, 0) + path.stat().st_size
        self.run = max(self._sizes, default=0) + 1
        self._sizes[self.run] = 0
        self.size = sum(self._sizes.values())
        return True

    def begin(self, start: bytes) -> None:
        """Begin the next file of the run with these bytes. Raises as `write` does."""
        self.end_file()
        self._number += 1
        self._file = self._create(self.path / f"{self.run:06}-{self._number:04}.ljr")
        self._written = 0
        self.write(start)

    def write(self, data: bytes) -> None:
        """Append to the file of `begin`, and remove the oldest runs if there is no room.

        Raises:
            OSError: the run alone fills the bound, or the disk is full, or fails. The file then ends with the
                last complete piece.
        """
        self._lock.check()
        self._make_room(len(data))
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, self._written)
            raise
        self._written += len(data)
        self.size += len(data)
        self._sizes[self.run] += len(data)

    @property
    def written(self) -> int:
        """Number of bytes in the current file, which `begin` has created."""
        return self._written

    def close(self) -> None:
        """Close the current file without a sync, and unlock the directory."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)
        self._lock.release()

    def end_file(self) -> None:
        """End the current file, and sync it to the disk. Raises OSError."""
        if self._file >= 0:
            os.fdatasync(self._file)
            file, self._file = self._file, -1
            os.close(file)

    def _make_room(self, more: int) -> None:
        while self.size + more > self._most:
            oldest = min(self._sizes)
            if oldest == self.run:
                raise OSError(errno.ENOSPC, f"a run has reached the size of the journal, {self._most} bytes")
            for run, _, path in segments(self.path):
                if run == oldest:
                    path.unlink()
            self.size -= self._sizes.pop(oldest)


MAGIC = b"LICORNEJ"
MOST_BLOCK = 32 * 1024 * 1024
"""Maximum number of bytes of a block: more than any message of an RM, and few enough to be read at once."""

LEVEL = 1
"""Compression level of zlib: the fastest."""

_SIZES = struct.Struct("<II")
_SUM = struct.Struct("<I")
_BEFORE = _SIZES.size + _SUM.size


def frame(block: bytes) -> bytes:
    """Compress a block into a frame."""
    stored = zlib.compress(block, LEVEL)
    sizes = _SIZES.pack(len(stored), len(block))
    return b"".join((sizes, _SUM.pack(zlib.crc32(stored, zlib.crc32(sizes))), stored))


def read_frame(file: BinaryIO) -> bytes | None:
    """The next block of a file; None at the end of the file.

    Raises:
        Unreadable: the file does not continue with a whole frame.
    """
    head = file.read(_BEFORE)
    if not head:
        return None
    if len(head) < _BEFORE:
        raise Unreadable("the file ends within a record")
    sizes = head[: _SIZES.size]
    (length, size), (checksum,) = _SIZES.unpack(sizes), _SUM.unpack(head[_SIZES.size :])
    if not 0 < size <= MOST_BLOCK or not 0 < length <= MOST_BLOCK:
        raise Unreadable(f"a record of {size} bytes, stored in {length}, cannot be")
    stored = file.read(length)
    if len(stored) < length:
        raise Unreadable("the file ends within a record")
    if zlib.crc32(stored, zlib.crc32(sizes)) != checksum:
        raise Unreadable("a record has another checksum than was written")
    inflating = zlib.decompressobj()
    try:
        # Ask for one byte more than expected, to detect a block that is larger.
        block = inflating.decompress(stored, size + 1)
    except zlib.error as error:
        raise Unreadable(f"a record cannot be decompressed: {error}") from None
    if len(block) != size or not inflating.eof or inflating.unused_data:
        raise Unreadable("a record has another size than was written")
    return block
