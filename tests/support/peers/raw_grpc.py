"""gRPC by hand: a server on the loop with a test's own handlers, and calls frame by frame."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import grpc

from licorne_server.process.fair import TimeSlices
from licorne_server.process.settings import Address, Tls
from support.patience import PATIENCE
from support.peers.networks import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    PREFACE,
    SETTINGS,
    frame,
    header_block,
)

if TYPE_CHECKING:
    from licorne_server.transport.loop.server import LoopTransport

OPTIONS = {
    "grpc.max_concurrent_streams": 16,
    "grpc.max_receive_message_length": 4 * 1024 * 1024,
    "grpc.max_allowed_incoming_connections": 20,
    "grpc.server_handshake_timeout_ms": 3_600_000,
    "grpc.max_connection_idle_ms": 3_600_000,
    "grpc.keepalive_time_ms": 3_600_000,
    "grpc.keepalive_timeout_ms": 3_600_000,
}
"""Options that disable everything automatic."""

GREETING = PREFACE + frame(SETTINGS) + frame(SETTINGS, flags=ACK)
"""The first bytes of an HTTP/2 client."""

LOCAL = Address(host="127.0.0.1", port=0)
HUFFMAN = ["00000", "00001", "00010", "011001", "011010", "011011", "011100", "011101", "011110", "011111"]
"""The digits in HPACK's Huffman code."""


@asynccontextmanager
async def serving(
    handlers: dict[str, Any],
    *,
    address: Address = LOCAL,
    path: str = "",
    tls: Tls | None = None,
    **options: int,
) -> AsyncIterator[tuple["LoopTransport", str]]:
    """A server of `/test/NAME` on the loop and its ``HOST:PORT``; it also listens at a `path`, if given.

    The `options` are those of gRPC, without their prefix.
    """
    from licorne_server.transport.loop.server import LoopTransport

    given = OPTIONS | {f"grpc.{name}": value for name, value in options.items()}
    transport = LoopTransport([], list(given.items()), TimeSlices(lambda: False))
    transport.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("test", handlers)])
    port = transport.listen(address, tls)
    if path:
        transport.listen_at(path)
    await transport.start()
    try:
        yield transport, str(address.with_port(port))
    finally:
        await transport.stop(None)


@asynccontextmanager
async def calling(address: str, **options: int) -> AsyncIterator[Any]:
    """A connection of its own, made by the library."""
    given = {"use_local_subchannel_pool": 1, "max_receive_message_length": -1} | options
    # A path in place of a host is not a valid authority in HTTP/2.
    every = [
        ("grpc.default_authority", "localhost"),
        *((f"grpc.{key}", value) for key, value in given.items()),
    ]
    async with grpc.aio.insecure_channel(address, every) as channel:
        yield channel


class Frame(NamedTuple):
    """A frame from the server."""

    kind: int
    flags: int
    stream: int
    payload: bytes

    @property
    def ends(self) -> bool:
        """True if it is the last frame of its stream."""
        return self.kind in (DATA, HEADERS) and bool(self.flags & END_STREAM)

    def has_status(self, code: grpc.StatusCode) -> bool:
        """True if these headers have the code, which must be the first such value on the connection."""
        number: int = code.value[0]
        bits = "".join(HUFFMAN[int(digit)] for digit in str(number))
        size = -(-len(bits) // 8)
        return bytes([0x80 | size]) + int(bits.ljust(8 * size, "1"), 2).to_bytes(size) in self.payload


class Frames:
    """One connection, which reads only when a test calls it, and answers nothing."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Use an open connection."""
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(
        cls, address: str, settings: bytes = b"", secure: ssl.SSLContext | None = None, room: int = 0
    ) -> Self:
        """Connect, and send the preface of HTTP/2 with these settings.

        Unless `room` is 0, the system receives about that number of bytes before they are read.
        """
        host, _, port = address.rpartition(":")
        one = socket.socket()
        if room:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        try:
            one.connect((host, int(port)))
        except OSError:
            one.close()
            raise
        server_hostname = host if secure is not None else None
        frames = cls(*await asyncio.open_connection(sock=one, ssl=secure, server_hostname=server_hostname))
        frames.send(PREFACE + frame(SETTINGS, settings) + frame(SETTINGS, flags=ACK))
        return frames

    def send(self, *data: bytes) -> None:
        """Write without waiting."""
        self._writer.write(b"".join(data))

    async def until(self, wanted: Callable[[Frame], bool]) -> list[Frame]:
        """The frames up to the first wanted one."""
        found: list[Frame] = []
        async with asyncio.timeout(PATIENCE):
            while not (found and wanted(found[-1])):
                found.append(await self._frame())
        return found

    async def dealt_with(self) -> list[Frame]:
        """The frames until the server has read everything sent."""
        self.send(frame(PING, b"question"))
        return await self.until(lambda got: got.kind == PING and got.payload == b"question")

    async def to_the_end(self) -> list[Frame]:
        """The frames until the server has closed the connection."""
        found: list[Frame] = []
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    found.append(await self._frame())
        except (asyncio.IncompleteReadError, ConnectionError):
            return found

    def close(self) -> None:
        """Close it at once."""
        self._writer.transport.abort()

    async def _frame(self) -> Frame:
        head = await self._reader.readexactly(9)
        payload = await self._reader.readexactly(int.from_bytes(head[:3]))
        kind, flags, stream = struct.unpack(">BBI", head[3:])
        return Frame(kind, flags, stream, payload)


@asynccontextmanager
async def frames_to(
    address: str, settings: bytes = b"", secure: ssl.SSLContext | None = None, room: int = 0
) -> AsyncIterator[Frames]:
    """A connection to the server that has sent the preface."""
    frames = await Frames.open(address, settings, secure, room)
    try:
        yield frames
    finally:
        frames.close()


def opening(stream: int, method: str, *, more: bytes = b"", ends: bool = False) -> bytes:
    """The headers that begin a call of `/test/METHOD`; `more` are literal headers."""
    flags = END_HEADERS | (END_STREAM if ends else 0)
    return frame(HEADERS, header_block(f"/test/{method}") + more, stream=stream, flags=flags)


def literal(name: str, value: bytes) -> bytes:
    """A header that needs no table; its value has fewer than 127 bytes."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value


def packed(message: bytes, flag: int = 0) -> bytes:
    """A message with its gRPC prefix."""
    return struct.pack(">BI", flag, len(message)) + message


def data(stream: int, payload: bytes, *, ends: bool = False) -> bytes:
    """Bytes of messages, in frames as large as HTTP/2 allows."""
    size = 16 * 1024
    parts = [payload[at : at + size] for at in range(0, len(payload), size)] or [b""]
    frames = [frame(DATA, part, stream=stream) for part in parts[:-1]]
    return b"".join([*frames, frame(DATA, parts[-1], stream=stream, flags=END_STREAM if ends else 0)])
