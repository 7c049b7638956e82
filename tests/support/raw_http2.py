"""HTTP/2 written by hand, to say what no well-behaved client says."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

PATIENCE = 60.0
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS, SETTINGS, PING, GOAWAY = 1, 4, 6, 7
ACK = 1
END_OF_ALL = 5
"""The flags of headers that are whole and have no body after them."""


def frame(kind: int, payload: bytes, *, flags: int = 0, stream: int = 0) -> bytes:
    """One frame."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def goaway(text: str) -> bytes:
    """The peer goes away for an internal error, with a text for whoever debugs."""
    return frame(GOAWAY, struct.pack(">II", 0, 2) + text.encode())


def headers(block: bytes) -> bytes:
    """A call whose headers are these bytes, well-formed or not."""
    return frame(HEADERS, block, flags=END_OF_ALL, stream=1)


class RawConnection:
    """A connection to a gRPC server that sends the frames it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Nothing is sent yet."""
        self._reader = reader
        self._writer = writer

    async def send(self, *frames: bytes) -> None:
        """Send frames, or any bytes."""
        self._writer.write(b"".join(frames))
        await self._writer.drain()

    async def has_dealt_with_it(self) -> None:
        """Wait until the server has read all that was sent: it answers, or hangs up."""
        await self.send(frame(PING, b"question"))
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    head = await self._reader.readexactly(9)
                    await self._reader.readexactly(int.from_bytes(head[:3], "big"))
                except (asyncio.IncompleteReadError, ConnectionError):
                    return
                if (head[3], head[4]) == (PING, ACK):
                    return


@asynccontextmanager
async def raw_connection(target: str) -> AsyncIterator[RawConnection]:
    """A connection that has greeted the server, to ``HOST:PORT``."""
    host, port = target.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    connection = RawConnection(reader, writer)
    try:
        await connection.send(PREFACE, frame(SETTINGS, b""))
        yield connection
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
