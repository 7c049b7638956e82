"""The listening addresses of the HTTP server: connections, their bound, and TLS handshakes.

A connection may be closed during its handshake (`security/handshakes.py`) to make room for another.

A request that another member has passed on arrives over gRPC, so it has a connection of its own inside this
process. Its answer is written as HTTP/1.0, whose body ends with the connection.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler
from aiohttp.web_protocol import RequestHandler

from licorne_server.process.bounds import peer_of
from licorne_server.security.access import Caller
from licorne_server.security.handshakes import Handshake, Handshakes
from licorne_server.store.coordination.pb import members_pb2 as pb
from licorne_server.wire.errors import Malformed, unavailable

log = structlog.get_logger("core.http.door")

BACKLOG = 64
"""Connections that the loop accepts at once."""

TELL_SECONDS = 10.0
"""Seconds between two log lines about too many connections."""

PART = 8
"""When all places are taken, one in `PART` of them is freed."""


class Door:
    """Accepts every new connection, and to make room closes connections of the host that has the most.

    So probes can always connect.
    """

    def __init__(self, most: int, handshakes: Handshakes | None = None) -> None:
        """Allow `most` connections, and for a moment the backlog as well.

        With `handshakes` each connection begins with a TLS handshake.
        """
        self._most = most
        self._handshakes = handshakes
        # Connections on which a request is being answered.
        self._busy: set[object] = set()
        # Number of closed connections that no new connection has replaced yet.
        self._freed = 0
        # Time of the last log line, in the loop's time.
        self._told = -TELL_SECONDS

    def before(self, server: web.Server) -> Callable[[], asyncio.Protocol]:
        """Factory of the protocols of new connections."""

        def enter() -> asyncio.Protocol:
            if len(self._connections(server)) < self._most:
                self._freed = 0
            elif self._freed:
                # The loop still counts the connections that were just closed.
                self._freed -= 1
            else:
                self._freed = self._make_room(server) - 1
            return server() if self._handshakes is None else self._handshakes.begin(server)

        return enter

    def close(self) -> None:
        """Close all connections under handshake."""
        if self._handshakes is not None:
            self._handshakes.stop()

    @web.middleware
    async def noted(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Count a connection as busy during a request."""
        self._busy.add(request.protocol)
        try:
            return await handler(request)
        finally:
            self._busy.discard(request.protocol)

    def _make_room(self, server: web.Server) -> int:
        """Close connections of the host with the most; returns their number.

        Idle connections are closed before busy ones, the oldest first.
        """
        connections = self._connections(server)
        hosts = Counter(map(_peer, connections))
        crowd, count = hosts.most_common(1)[0]
        now = asyncio.get_running_loop().time()
        if now >= self._told + TELL_SECONDS:
            self._told = now
            log.warning("too many connections", host=crowd, connections=count)
        crowded = [item for item in connections if _peer(item) == crowd]
        crowded.sort(key=lambda item: item in self._busy)
        chosen = crowded[: max(1, self._most // PART)]
        for item in chosen:
            if item.transport is not None:
                item.transport.abort()
        return len(chosen)

    def _connections(self, server: web.Server) -> list[RequestHandler | Handshake]:
        """Connections that may be closed for a new one: handshakes first; among equals the oldest first."""
        under_way = () if self._handshakes is None else self._handshakes.under_way
        return [*under_way, *server.connections]


def _peer(connection: RequestHandler | Handshake) -> str:
    transport = connection.transport
    peer = None if transport is None else transport.get_extra_info("peername")
    return peer_of(peer[0]) if peer else ""


STOP_SECONDS = 3.0
"""Seconds that pending answers may take after the stop of the server."""


class Listener:
    """An application on an address, or on none."""

    def __init__(self, app: web.Application, door: Door, idle: float) -> None:
        """Admit connections by `door`; a request's head may take `idle` seconds."""
        self._door = door
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=STOP_SECONDS,
            # This timeout also applies to the head of the first request.
            keepalive_timeout=idle,
        )
        self._server: asyncio.Server | None = None

    async def prepared(self) -> web.Server:
        """The handler factory of the listener, which creates a protocol for each connection."""
        await self._runner.setup()
        assert self._runner.server is not None, "the runner was set up"
        return self._runner.server

    async def start(self, host: str, port: int, *, shares: bool = False) -> tuple[str, int]:
        """Listen; returns host and port. Port 0 means any free one.

        With `shares` the port is shared with other processes.

        Raises:
            OSError: the address cannot be used.
        """
        server = await self.prepared()
        try:
            self._server = await asyncio.get_running_loop().create_server(
                self._door.before(server), host, port, backlog=BACKLOG, reuse_port=shares
            )
        except OSError:
            await self._runner.cleanup()
            raise
        address = self._server.sockets[0].getsockname()
        return address[0], address[1]

    async def stop(self) -> None:
        """Stop accepting requests, wait a moment for pending ones, and close."""
        if self._server is not None:
            self._server.close()
        self._door.close()
        await self._runner.cleanup()


PASSED = "passed"
"""Name of the caller in the extra information of a connection."""

MOST_UNREAD = 64 * 1024
"""Half the number of unread bytes at which the application has to wait. The head of an answer is shorter."""

_END = "\r\n\r\n"
_CUT_OFF = "the answer was cut off"


async def passed_answer(
    server: web.Server, asked: pb.ReadRequest, caller: Caller
) -> AsyncGenerator[bytes, None]:
    """The messages of an answer: its head, and the pieces of its body.

    Raises:
        CallError: the answer breaks off.
        Malformed: the request is not an HTTP request.
    """
    lines = [f"{asked.method} {asked.path} HTTP/1.0", "Host: localhost"]
    lines += (f"{name}: {value}" for name, value in asked.headers.items())
    if not all(line.isascii() and line.isprintable() for line in lines):
        raise Malformed("ReadRequest: method, path and headers have to be printable ASCII")
    with closing(_Connection(server(), caller)) as connection:
        connection.begin("\r\n".join(lines) + _END)
        written = connection.written
        try:
            head = await written.readuntil(_END.encode())
        except asyncio.IncompleteReadError:
            raise unavailable(_CUT_OFF) from None
        first, *fields = head.decode(errors="replace").removesuffix(_END).split("\r\n")
        headers = dict(field.split(": ", 1) for field in fields)
        yield pb.ReadHead(status=int(first.split(" ")[1]), headers=headers).SerializeToString()
        while body := await written.read(MOST_UNREAD):
            yield body


class _Connection(asyncio.Transport):
    """The connection of one request."""

    def __init__(self, protocol: RequestHandler, caller: Caller) -> None:
        super().__init__({PASSED: caller})
        self._protocol = protocol
        self._closed = False
        # What the application has written.
        self.written = asyncio.StreamReader(MOST_UNREAD)
        flow: Any = SimpleNamespace(
            pause_reading=protocol.pause_writing, resume_reading=protocol.resume_writing
        )
        self.written.set_transport(flow)

    def begin(self, request: str) -> None:
        """Pass the request to the application."""
        self._protocol.connection_made(self)
        self._protocol.data_received(request.encode())

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Buffer data for the reader."""
        self.written.feed_data(bytes(data))

    def is_closing(self) -> bool:
        """True once one side has closed the connection."""
        return self._closed

    def close(self) -> None:
        """End the connection after the buffered data was written."""
        if not self._closed:
            self._closed = True
            self.written.feed_eof()
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    def abort(self) -> None:
        """Cut off the answer."""
        self.written.set_exception(unavailable(_CUT_OFF))
        self.close()
