"""The addresses of the HTTP server: connections, their bound, and TLS handshakes.

The door may close a connection during its handshake (`security/handshakes.py`) to make room.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler
from aiohttp.web_protocol import RequestHandler

from licorne_server.process.bounds import peer_of
from licorne_server.security.handshakes import Handshake, Handshakes

log = structlog.get_logger("core.http.door")

BACKLOG = 64
"""Connections that the loop accepts at once."""

TELL_SECONDS = 10.0
"""Seconds between two log lines about too many connections."""

PART = 8
"""Divisor of all places: the part that is freed when all are taken."""


class Door:
    """Accepts every new connection, and closes connections of the host with the most.

    So a probe never finds all places taken.
    """

    def __init__(self, most: int, handshakes: Handshakes | None = None) -> None:
        """Allow `most` connections, and for a moment a backlog more.

        With `handshakes` each connection begins with one.
        """
        self._most = most
        self._handshakes = handshakes
        # Those on which a request is being answered.
        self._busy: set[object] = set()
        # How many of those that were closed still have a new one to make room for.
        self._freed = 0
        # When the log was last told, in the loop's time.
        self._told = -TELL_SECONDS

    def before(self, server: web.Server) -> Callable[[], asyncio.Protocol]:
        """Factory of the protocols of new connections."""

        def enter() -> asyncio.Protocol:
            if len(self._connections(server)) < self._most:
                self._freed = 0
            elif self._freed:
                # The loop has not taken notice yet of those that were closed.
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
        """Connections that may be closed for a new one: handshakes first, then the oldest first."""
        under_way = () if self._handshakes is None else self._handshakes.under_way
        return [*under_way, *server.connections]


def _peer(connection: RequestHandler | Handshake) -> str:
    transport = connection.transport
    peer = None if transport is None else transport.get_extra_info("peername")
    return peer_of(peer[0]) if peer else ""


STOP_SECONDS = 3.0
"""Seconds that pending answers may take after the stop of the server."""


class Listener:
    """An application on an address."""

    def __init__(self, app: web.Application, door: Door, idle: float) -> None:
        """Admit connections by the door; a request's head may take `idle` seconds."""
        self._door = door
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=STOP_SECONDS,
            # It counts for the head of the first request as well.
            keepalive_timeout=idle,
        )
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int, *, shares: bool = False) -> tuple[str, int]:
        """Listen; returns host and port. For port 0 it is any free one.

        One that `shares` the port does so with other processes.

        Raises:
            OSError: listening on the address is refused.
        """
        loop = asyncio.get_running_loop()
        server = await self._listen(
            lambda enter: loop.create_server(enter, host, port, backlog=BACKLOG, reuse_port=shares)
        )
        address = server.sockets[0].getsockname()
        return address[0], address[1]

    async def start_at(self, path: str) -> None:
        """Listen on a Unix socket.

        Raises:
            OSError: listening there is refused.
        """
        loop = asyncio.get_running_loop()
        await self._listen(lambda enter: loop.create_unix_server(enter, path, backlog=BACKLOG))

    async def _listen(
        self, listen: Callable[[Callable[[], asyncio.Protocol]], Awaitable[asyncio.Server]]
    ) -> asyncio.Server:
        await self._runner.setup()
        server = self._runner.server
        assert server is not None, "the runner was set up"
        try:
            self._server = await listen(self._door.before(server))
        except OSError:
            await self._runner.cleanup()
            raise
        return self._server

    async def stop(self) -> None:
        """Stop accepting requests, wait a moment for pending ones, and close."""
        if self._server is not None:
            self._server.close()
        self._door.close()
        await self._runner.cleanup()
