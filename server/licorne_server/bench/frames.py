"""Messages between the processes of a benchmark: each behind its length."""

import struct
from typing import BinaryIO

LENGTH = struct.Struct("!I")


def frame(message: bytes) -> bytes:
    """One message, ready to be written."""
    return LENGTH.pack(len(message)) + message


def read_frames(stream: BinaryIO) -> list[bytes]:
    """All messages up to the end of the stream."""
    messages = []
    while header := stream.read(LENGTH.size):
        (length,) = LENGTH.unpack(header)
        messages.append(stream.read(length))
    return messages
