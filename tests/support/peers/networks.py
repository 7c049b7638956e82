"""Faulty networks: a proxy that changes a byte, and HTTP/2 by hand."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import Enum
from typing import Self

from licorne_server.testing.proxy import Relay
from support.patience import PATIENCE

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""The first bytes of an HTTP/2 client."""
HEAD = 9
"""Bytes before the payload of a frame: its length in three, its type, and others."""
PREFIX = 5
"""Bytes of gRPC before a message: whether it is compressed, and its length in four."""
NO_TAG = 7
"""A first byte that no protobuf message has: field 0 with an unknown wire type."""


class Side(Enum):
    """The receiver of the garbled message."""

    SERVER = "server"
    CLIENT = "client"


class Garbler(Relay):
    """Passes everything on, and garbles messages on request."""

    def __init__(self, upstream: str) -> None:
        """Garble nothing at first."""
        super().__init__(upstream)
        self._next: set[Side] = set()
        self.garbled = 0
        """The number of garbled messages."""

    def garble(self, side: Side) -> None:
        """Make the next message to that side unparsable."""
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
    """True if the payload of a frame is one message and nothing else."""
    size = int.from_bytes(payload[1:PREFIX])
    return size > 0 and len(payload) == PREFIX + size


DATA, HEADERS, PRIORITY, RESET, SETTINGS, _, PING, GOAWAY, WINDOW, MORE = range(10)
UNKNOWN = 0xFA
ACK, END_STREAM, END_HEADERS = 1, 1, 4


def frame(kind: int, payload: bytes = b"", *, stream: int = 0, flags: int = 0) -> bytes:
    """One frame."""
    return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload


def goaway(text: str) -> bytes:
    """A GOAWAY for an internal error, with a text for debugging."""
    return frame(GOAWAY, struct.pack(">II", 0, 2) + text.encode())


def headers(block: bytes) -> bytes:
    """A call whose headers are these bytes, well-formed or not, and which has no body."""
    return frame(HEADERS, block, flags=END_STREAM | END_HEADERS, stream=1)


def header_block(path: str) -> bytes:
    """The headers of a call without authentication: literals, which need no table."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": "licorne",
        "te": "trailers",
        "content-type": "application/grpc",
    }
    return b"".join(
        b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
        for name, value in fields.items()
    )


class RawHttp2:
    """One connection. It reads the server's data all the time, and answers its pings."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Use an open connection."""
        self._reader = reader
        self._writer = writer
        self.kinds: list[int] = []
        self.closed = asyncio.Event()
        self._answers = asyncio.Event()
        self._task = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, target: str, source: str = "127.0.0.2") -> Self:
        """Connect from the address `source` of this machine, which other clients need not have."""
        host, _, port = target.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port), local_addr=(source, 0)))

    async def begin(self) -> None:
        """Send the preface of HTTP/2."""
        await self.send(PREFACE + frame(SETTINGS) + frame(SETTINGS, flags=ACK))

    async def send(self, data: bytes) -> None:
        """Write data; a connection that the server has closed drops it."""
        with suppress(ConnectionError):
            self._writer.write(data)
            await self._writer.drain()
        # A write to a closed connection does not wait, and the reader needs a turn.
        await asyncio.sleep(0)

    async def call(self, number: int) -> None:
        """Open a stream of `si.v1` under an odd number, without a message."""
        block = header_block("/si.v1.Scheduler/UpdateNode")
        await self.send(frame(HEADERS, block, stream=number, flags=END_HEADERS))

    async def dealt_with(self) -> None:
        """Wait until the server has read everything sent: it answers a ping, or has closed."""
        self._answers.clear()
        await self.send(frame(PING, b"question"))
        await asyncio.wait_for(self._answers.wait(), PATIENCE)

    async def ended(self) -> None:
        """Wait until the server has closed the connection."""
        await asyncio.wait_for(self.closed.wait(), PATIENCE)

    async def close(self) -> None:
        """Close it from this side."""
        self._task.cancel()
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    async def _read(self) -> None:
        try:
            while True:
                head = await self._reader.readexactly(9)
                payload = await self._reader.readexactly(int.from_bytes(head[:3], "big"))
                kind, flags = head[3], head[4]
                if len(self.kinds) < 10_000:
                    self.kinds.append(kind)
                if kind == PING and flags & ACK:
                    self._answers.set()
                elif kind == PING:
                    await self.send(frame(PING, payload, flags=ACK))
        except (asyncio.IncompleteReadError, ConnectionError):
            self.closed.set()
            self._answers.set()
            # The server reads no more of what is still unsent.
            self._writer.transport.abort()


@asynccontextmanager
async def raw_connection(target: str) -> AsyncIterator[RawHttp2]:
    """A connection to ``HOST:PORT`` that has sent the preface."""
    connection = await RawHttp2.open(target)
    try:
        await connection.begin()
        yield connection
    finally:
        await connection.close()
