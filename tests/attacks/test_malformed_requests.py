"""Malformed bytes on each transport: the port accepts other clients, or the watchdog reports it."""

import asyncio
import errno
import socket
from contextlib import closing
from importlib.util import find_spec

import pytest

from licorne_server.process.doors import REFUSED_SECONDS, REST_SECONDS, Door, doors_of
from licorne_server.process.settings import GRPC, LOOP, Settings
from support.patience import PATIENCE
from support.peers.networks import (
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    MORE,
    PING,
    PREFACE,
    PRIORITY,
    RESET,
    SETTINGS,
    WINDOW,
    RawHttp2,
    frame,
    goaway,
)
from support.server.server_process import ForkedServer, ServerProcess

WHOLE = END_HEADERS | END_STREAM
PUSH = 5
FIELDS = {
    b":method": b"POST",
    b":scheme": b"http",
    b":path": b"/licorne.v1.State/GetServer",
    b":authority": b"licorne",
    b"te": b"trailers",
    b"content-type": b"application/grpc",
}
MESSAGE = bytes(5)
"""An empty message with its prefix."""


def literal(name: bytes, value: bytes) -> bytes:
    """A header without compression, with at most 126 bytes in name and value."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def call(*more: bytes, stream: int = 1, flags: int = END_HEADERS, **fields: bytes | None) -> bytes:
    """A call with `more` headers, with other pseudo headers or none (`None`), and one empty message."""
    given = {b":" + name.encode(): value for name, value in fields.items()}
    block = b"".join(literal(name, value) for name, value in (FIELDS | given).items() if value is not None)
    said = frame(HEADERS, block + b"".join(more), stream=stream, flags=flags)
    return said + frame(DATA, MESSAGE, stream=stream, flags=END_STREAM)


GREETING = PREFACE + frame(SETTINGS)
REQUESTS = {
    "path that is no text": call(path=b"/licorne.v1.State/\xff\xfe"),
    "path of another encoding": call(path="/licorne.v1.State/ä".encode("latin-1")),
    "path with surrogates": call(path=b"/\xed\xa0\x80/x"),
    "path with NUL": call(path=b"/licorne.v1.State/\0"),
    "path without a slash": call(path=b"licorne"),
    "path of one name": call(path=b"/licorne"),
    "empty path": call(path=b""),
    "no path": call(path=None),
    "two paths": call(literal(b":path", b"/a/b")),
    "host that is no text": call(authority=b"\xff\xfe"),
    "no host": call(authority=None),
    "another method": call(method=b"GET"),
    "method that is no text": call(method=b"\xff"),
    "no method": call(method=None),
    "another scheme": call(scheme=b"\xff://"),
    "no scheme": call(scheme=None),
    "unknown pseudo header": call(literal(b":licorne", b"x")),
    "status of an answer": call(literal(b":status", b"200")),
    "name in capitals": call(literal(b"Licorne", b"x")),
    "name that is no text": call(literal(b"\xff\xfe", b"x")),
    "empty name": call(literal(b"", b"x")),
    "value that is no text": call(literal(b"licorne", b"\xff\xfe")),
    "value with a line break": call(literal(b"licorne", b"a\r\nb")),
    "value that is no base64": call(literal(b"licorne-bin", b"!!!")),
    "binary value that is no text": call(literal(b"licorne-bin", b"\xff\xfe")),
    "token that is no text": call(literal(b"authorization", b"Bearer \xff\xfe")),
    "timeout that is none": call(literal(b"grpc-timeout", b"\xff")),
    "timeout for ever": call(literal(b"grpc-timeout", b"99999999H")),
    "encoding that is none": call(literal(b"grpc-encoding", b"\xff")),
    "content type of another": call(literal(b"content-type", b"\xff")),
    "length that is wrong": call(literal(b"content-length", b"7")),
    "connection header": call(literal(b"connection", b"close")),
}
FRAMES = {
    "headers that are none": frame(HEADERS, b"\xff" * 40, stream=1, flags=WHOLE),
    "index of nothing": frame(HEADERS, b"\x80", stream=1, flags=WHOLE),
    "no headers": frame(HEADERS, stream=1, flags=WHOLE),
    "headers on no stream": frame(HEADERS, b"\x82", flags=WHOLE),
    "stream of a server": call(stream=2),
    "stream that goes back": call(stream=5) + call(stream=3),
    "continuation of nothing": frame(MORE, b"\x82", stream=1, flags=END_HEADERS),
    "headers in headers": frame(HEADERS, b"\x82", stream=1) + call(stream=3),
    "trailers twice": call() + call(),
    "data of no stream": frame(DATA, MESSAGE, stream=1),
    "data on no stream": frame(DATA, MESSAGE),
    "padding of more than there is": frame(DATA, b"\xff", stream=1, flags=8),
    "message of a kind that there is not": call(flags=END_HEADERS) + frame(DATA, b"\xff" * 9, stream=3),
    "message that is too large": frame(HEADERS, b"", stream=1) + frame(DATA, b"\0\xff\xff\xff\xff", stream=1),
    "frame that is too large": b"\xff\xff\xff\0\0\0\0\0\1" + bytes(100),
    "settings of a stream": frame(SETTINGS, stream=1),
    "settings of half a length": frame(SETTINGS, b"\0\4\0"),
    "settings out of bounds": frame(SETTINGS, b"\0\4\xff\xff\xff\xff"),
    "ping of half a length": frame(PING, b"1234"),
    "reset of no stream": frame(RESET, bytes(4), stream=1),
    "reset of half a length": frame(RESET, b"12", stream=1),
    "push of a client": frame(PUSH, bytes(4), stream=1, flags=END_HEADERS),
    "priority of itself": frame(PRIORITY, b"\0\0\0\1\0", stream=1),
    "window of nothing": frame(WINDOW, bytes(4)),
    "window that is too large": frame(WINDOW, b"\x7f\xff\xff\xff") * 2,
    "goodbye": goaway("\xff"),
    "goodbye of half a length": frame(GOAWAY, b"12"),
}
GREETINGS = {
    "garbage": bytes(range(256)),
    "half a preface, then garbage": PREFACE[:12] + bytes(100),
    "HTTP/1": b"GET / HTTP/1.1\r\nHost: licorne\r\n\r\n",
    "upgrade": b"GET / HTTP/1.1\r\nHost: l\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + bytes(500),
    "no settings": PREFACE + call(),
    "preface twice": PREFACE + PREFACE,
}
KINDS = {
    "requests": {name: GREETING + said for name, said in REQUESTS.items()},
    "frames": {name: GREETING + said for name, said in FRAMES.items()},
    "greetings": GREETINGS,
}
LOOK_SECONDS = 0.005
"""Seconds between two checks whether a server in another process has answered."""


def door_of(server: ServerProcess) -> Door:
    """The address of its gRPC port."""
    [door] = doors_of(Settings(), server.target, "", "")
    return door


async def is_open(server: ServerProcess, door: Door) -> bool:
    """True once the port has answered a new connection; false once it refuses them."""
    host, _, port = server.target.rpartition(":")
    async with asyncio.timeout(PATIENCE):
        while not door.has_answered:
            door.look(0.0)
            await asyncio.sleep(LOOK_SECONDS)
            with socket.socket() as other:
                if other.connect_ex((host, int(port))) == errno.ECONNREFUSED:
                    return False
    return True


async def is_served_after(said: bytes, server: ServerProcess) -> bool:
    """True if the port accepts clients after these bytes; otherwise the watchdog must report it as shut."""
    with closing(door_of(server)) as watched, closing(door_of(server)) as door:
        if not await is_open(server, watched):  # the bytes sent before have shut it in the meantime
            await server.restart()
            assert await is_open(server, watched)
        stranger = await RawHttp2.open(server.target)
        await stranger.send(said)
        await stranger.dealt_with()
        await stranger.close()
        if await is_open(server, door):
            return True
        looks = [watched.look(1.0) for _ in range(int(REST_SECONDS + REFUSED_SECONDS) + 2)]
        assert "refused connections" in looks[-1]
        return False


# In a separate process: after its port was shut, grpc.aio corrupts memory of the process.
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("transport", [GRPC, *([LOOP] if find_spec("licorne_transport") else [])])
async def test_the_port_accepts_others_or_is_reported_as_shut(transport: str, kind: str) -> None:
    """After any bytes the loop accepts clients; with grpc the watchdog may report the port as shut."""
    shut = []
    async with ForkedServer("--transport", transport) as server:
        for name, said in KINDS[kind].items():
            if not await is_served_after(said, server):
                shut.append(name)
                await server.restart()
    assert not shut or transport == GRPC, shut
