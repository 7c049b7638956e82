"""Messages between the processes of a benchmark: each behind its length."""

import struct
from collections.abc import Iterator
from typing import BinaryIO

LENGTH = struct.Struct("!I")


def frame(message: bytes) -> bytes:
    """One message, ready to be written."""
    return LENGTH.pack(len(message)) + message


def read_frames(stream: BinaryIO) -> Iterator[bytes]:
    """The messages up to the end of the stream, each read when it is wanted."""
    while header := stream.read(LENGTH.size):
        (length,) = LENGTH.unpack(header)
        yield stream.read(length)
