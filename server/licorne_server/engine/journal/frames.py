"""Files of a journal: frames of compressed blocks, each with its checksum.

A file begins with `MAGIC`, and goes on with frames: four numbers of four bytes (bytes stored, bytes of the
block, a checksum of both and of what is stored, little-endian) and what is stored: the block, compressed
by zlib. The first block is the header, and the others are arrays of entries.
"""

import struct
import zlib
from typing import BinaryIO

from licorne_server.engine.journal.records import Unreadable

MAGIC = b"LICORNEJ"
MOST_BLOCK = 32 * 1024 * 1024
"""Bytes of a block, at most: more than any message of an RM makes, and little enough for a reader."""

LEVEL = 1
"""Of zlib: the quickest."""

_SIZES = struct.Struct("<II")
_SUM = struct.Struct("<I")
_BEFORE = _SIZES.size + _SUM.size


def frame(block: bytes) -> bytes:
    """The frame of a block."""
    stored = zlib.compress(block, LEVEL)
    sizes = _SIZES.pack(len(stored), len(block))
    return b"".join((sizes, _SUM.pack(zlib.crc32(stored, zlib.crc32(sizes))), stored))


def read_frame(file: BinaryIO) -> bytes | None:
    """The next block of a file; None at the end of the file.

    Raises:
        Unreadable: the rest of the file is no frame.
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
        # One byte more than it may have, to find one that has more.
        block = inflating.decompress(stored, size + 1)
    except zlib.error as error:
        raise Unreadable(f"a record cannot be decompressed: {error}") from None
    if len(block) != size or not inflating.eof or inflating.unused_data:
        raise Unreadable("a record has another size than was written")
    return block
