"""A proxy that changes one byte of a message: what a network does that no checksum guards."""

import asyncio
from enum import Enum

from support.peers.proxy import Relay

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What an HTTP/2 client says first."""
HEAD = 9
"""Bytes before the payload of a frame: its length in three, its type, and others."""
DATA = 0
PREFIX = 5
"""Bytes of gRPC before a message: whether it is compressed, and its length in four."""
NO_TAG = 7
"""A first byte that no protobuf message has: field 0 of a kind that there is not."""


class Side(Enum):
    """Who gets the garbled message."""

    SERVER = "server"
    CLIENT = "client"


class Garbler(Relay):
    """Passes everything on, but for the messages that it is told to garble."""

    def __init__(self, upstream: str) -> None:
        """Garble nothing before `garble`."""
        super().__init__(upstream)
        self._next: set[Side] = set()
        self.garbled = 0
        """How many messages were garbled."""

    def garble(self, side: Side) -> None:
        """Make the next message to that side one that cannot be parsed."""
        self._next.add(side)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, towards: str) -> None:
        side = Side.CLIENT
        try:
            head = await reader.readexactly(HEAD)
            if towards == "server":
                side = Side.SERVER
                writer.write(head + await reader.readexactly(len(PREFACE) - HEAD))
                head = await reader.readexactly(HEAD)
            while True:
                payload = await reader.readexactly(int.from_bytes(head[:3]))
                if head[3] == DATA and side in self._next and _is_message(payload):
                    self._next.remove(side)
                    self.garbled += 1
                    payload = payload[:PREFIX] + bytes([NO_TAG]) + payload[PREFIX + 1 :]
                writer.write(head + payload)
                await writer.drain()
                head = await reader.readexactly(HEAD)
        except asyncio.IncompleteReadError:
            raise ConnectionResetError("one side has closed") from None


def _is_message(payload: bytes) -> bool:
    """Whether the payload of a frame is one message and nothing else."""
    size = int.from_bytes(payload[1:PREFIX])
    return size > 0 and len(payload) == PREFIX + size
