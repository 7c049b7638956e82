"""Handshakes of TLS, on both ports: their number, and what they leave behind."""

import asyncio
import gc
import socket
import ssl
import struct
from asyncio.sslproto import SSLProtocol, _SSLProtocolTransport
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, suppress
from importlib.util import find_spec

import pytest
from aiohttp.web_protocol import RequestHandler

from licorne_server.assembly.server import Server
from licorne_server.process.bounds import PeerBounds
from licorne_server.security import handshakes
from licorne_server.security.handshakes import Handshake
from support.patience import PATIENCE
from support.peers.networks import PREFACE, SETTINGS, frame
from support.peers.shim import LOOPBACK, eventually, serving
from support.peers.tls import https, tls

REQUESTS = {"h2": PREFACE + frame(SETTINGS), "http/1.1": b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"}
PROTOCOLS = [*(["h2"] if find_spec("licorne_transport") else []), "http/1.1"]
"""The protocols of the ports whose connections belong to the loop."""

TIMES = 4


def hello() -> bytes:
    """A client's first message."""
    sent = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        https().wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost").do_handshake()
    return sent.read()


def drained(connection: socket.socket) -> None:
    """Read until the server closes it."""
    with suppress(OSError):
        while connection.recv(65536):
            pass


def secured(connection: socket.socket, name: str, protocol: str) -> ssl.SSLSocket:
    """A completed handshake, with the certificate of that name."""
    context = https(name)
    context.check_hostname = False
    context.set_alpn_protocols([protocol])
    return context.wrap_socket(connection)


def closed(connection: socket.socket, protocol: str) -> None:
    """Make half a handshake, and close."""
    connection.sendall(hello())
    connection.recv(1)


def silent(connection: socket.socket, protocol: str) -> None:
    """End the connection without data."""


def cut_short(connection: socket.socket, protocol: str) -> None:
    """Send a part of the first record, and close."""
    connection.sendall(hello()[:50])


def half_closed(connection: socket.socket, protocol: str) -> None:
    """Make half a handshake, and end one direction; wait for the server's reaction."""
    connection.sendall(hello())
    connection.shutdown(socket.SHUT_WR)
    drained(connection)


def reset(connection: socket.socket, protocol: str) -> None:
    """Make half a handshake, and reset."""
    closed(connection, protocol)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def garbage(connection: socket.socket, protocol: str) -> None:
    """Send data that is no handshake."""
    connection.sendall(bytes(500))
    drained(connection)


def timed_out(connection: socket.socket, protocol: str) -> None:
    """Make half a handshake, and wait until the server ends it."""
    connection.sendall(hello())
    drained(connection)


def refused(connection: socket.socket, protocol: str) -> None:
    """Use a certificate of another authority."""
    with suppress(OSError), secured(connection, "stranger", protocol) as secure:
        drained(secure)


def whole(connection: socket.socket, protocol: str) -> None:
    """Complete a handshake, and close without a message."""
    with secured(connection, "operator", protocol):
        pass


def asked(connection: socket.socket, protocol: str) -> None:
    """Complete a handshake, send a request with an answer, and close as TLS requires."""
    with secured(connection, "operator", protocol) as secure:
        secure.sendall(REQUESTS[protocol])
        secure.recv(1)
        with suppress(OSError):
            secure.unwrap()


def asked_and_reset(connection: socket.socket, protocol: str) -> None:
    """Complete a handshake, send a request, and reset."""
    with secured(connection, "operator", protocol) as secure:
        secure.sendall(REQUESTS[protocol])
        secure.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


WAYS = [
    closed,
    silent,
    cut_short,
    half_closed,
    reset,
    garbage,
    timed_out,
    refused,
    whole,
    asked,
    asked_and_reset,
]


def kinds() -> tuple[type, ...]:
    """The classes of a connection's objects."""
    found: list[type] = [Handshake, SSLProtocol, _SSLProtocolTransport, ssl.SSLObject, RequestHandler]
    if find_spec("licorne_transport"):
        from licorne_server.transport.loop.connection import Connection
        from licorne_server.transport.loop.streams import Streams

        found += [Connection, Streams]
    return tuple(found)


def left() -> Counter[str]:
    """The number of objects of connections, by class, referenced or not."""
    of = kinds()
    return Counter(type(each).__name__ for each in gc.get_objects() if type(each) in of)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server that requires certificates on its gRPC port, with short timeouts of handshakes."""
    async with listening(PeerBounds(handshake=0.2, http_idle=0.2)) as server:
        yield server


def listening(bounds: PeerBounds) -> AbstractAsyncContextManager[Server]:
    """A server with these bounds."""
    return serving(http=LOOPBACK, tls=tls(), operators=frozenset({"operator"}), peers=bounds)


def place_of(server: Server, protocol: str) -> tuple[str, int]:
    """The server's address for a protocol."""
    host, _, port = (server.grpc_address if protocol == "h2" else server.http_address).rpartition(":")
    return host, int(port)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_an_ended_connection_leaves_nothing(
    server: Server, protocol: str, way: Callable[[socket.socket, str], None], collector_off: None
) -> None:
    """All objects of a connection are freed by its end, without the garbage collector."""

    def connect() -> None:
        with socket.create_connection(place_of(server, protocol), PATIENCE) as connection:
            way(connection, protocol)

    await asyncio.to_thread(connect)
    before = left()
    for _ in range(TIMES):
        await asyncio.to_thread(connect)
    await eventually(lambda: not left() - before)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_handshakes_of_a_host_are_bounded(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host with too many unfinished handshakes loses the oldest for each new one; other hosts lose none."""
    monkeypatch.setattr(handshakes, "SHARE", 3)
    monkeypatch.setattr(handshakes, "MOST", 5)
    monkeypatch.setattr(handshakes, "GRACE_SECONDS", 0.0)
    writers = []

    async def begin(server: Server, source: str) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection(*place_of(server, protocol), local_addr=(source, 0))
        writers.append(writer)
        writer.write(hello())
        await reader.read(1)
        return reader

    async with listening(PeerBounds(handshake=PATIENCE, http_idle=PATIENCE)) as server:
        others = [await begin(server, "127.0.0.2") for _ in range(2)]
        mine = [await begin(server, "127.0.0.1") for _ in range(5)]
        async with asyncio.timeout(PATIENCE):
            for reader in mine[:2]:
                with suppress(ConnectionError):
                    while await reader.read(65536):
                        pass
        assert not any(reader.at_eof() for reader in (*others, *mine[2:]))
        for writer in writers:
            writer.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_handshakes_of_a_crowd_wait(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a host with more handshakes than places none is lost: each waits for those before it."""
    monkeypatch.setattr(handshakes, "SHARE", 3)
    monkeypatch.setattr(handshakes, "GRACE_SECONDS", 10 * PATIENCE)

    def connect(server: Server) -> None:
        """Begin all connections at once, and complete them one after the other, like a slow client."""
        begun = []
        for _ in range(10):
            connection = socket.create_connection(place_of(server, protocol), PATIENCE)
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            context = https("operator")
            context.set_alpn_protocols([protocol])
            secure = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
            with suppress(ssl.SSLWantReadError):
                secure.do_handshake()
            connection.sendall(outgoing.read())
            begun.append((connection, secure, incoming, outgoing))
        for connection, secure, incoming, outgoing in begun:
            is_done = False
            while not is_done:
                data = connection.recv(65536)
                assert data, "the server has closed a handshake"
                incoming.write(data)
                with suppress(ssl.SSLWantReadError):
                    secure.do_handshake()
                    is_done = True
            connection.sendall(outgoing.read())
        for connection, *_ in begun:
            connection.close()

    async with listening(PeerBounds(handshake=PATIENCE, http_idle=PATIENCE)) as server:
        await asyncio.to_thread(connect, server)
