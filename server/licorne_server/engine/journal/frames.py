"""Files of a journal: frames of compressed blocks, each with its checksum.

A file begins with `MAGIC`, and continues with frames: three numbers of four bytes (bytes stored, bytes of the
block, and a checksum of both and of the stored bytes, little-endian), and the stored bytes: the block,
compressed by zlib. The first block is the header, and the others are arrays of entries.
"""

import struct
import zlib
from typing import BinaryIO

from licorne_server.engine.journal.records import Unreadable

MAGIC = b"LICORNEJ"
MOST_BLOCK = 32 * 1024 * 1024
"""Bytes of a block, at most: larger than any message of an RM, and small enough for a reader's memory."""

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
