"""A gRPC server on connections of the event loop."""

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any

import grpc

from licorne_server.process.fair import TimeSlices
from licorne_server.process.loop import stop_task
from licorne_server.process.settings import Address, Tls
from licorne_server.security.handshakes import Handshakes
from licorne_server.security.tls import Certificates
from licorne_server.transport.interface import Status
from licorne_server.transport.loop.call import Call
from licorne_server.transport.loop.connection import READ_BYTES, Connection
from licorne_server.transport.loop.rounds import Rounds
from licorne_server.transport.loop.unfinished import Unfinished

LONGEST_LOOK, LOOKS = 1.0, 4
"""Maximum seconds between two checks of all connections, and number of checks within the shortest limit."""

CLOSE_SECONDS = 1.0
"""Seconds in which connections may send queued bytes, and handlers may end, when the server stops."""

DRAIN_SECONDS = 0.02
"""Seconds between two checks whether all responses were sent, when the server stops."""

STOPPED = Status(grpc.StatusCode.UNAVAILABLE, "the server has stopped")


class LoopTransport:
    """Has the methods of `grpc.aio.Server` that services need; see `Transport`."""

    max_streams: int
    max_message: int
    rounds: Rounds
    unfinished: Unfinished

    def __init__(
        self,
        interceptors: Sequence[grpc.aio.ServerInterceptor],
        options: Sequence[tuple[str, int]],
        time_slices: TimeSlices,
        is_short: Callable[[], object] = bool,
    ) -> None:
        """Calls pass the interceptors in order; all `options`, which are gRPC's, are observed.

        Handshakes of TLS take turns with reads in `time_slices`. `is_short` is true while memory is short.
        """
        self.rounds = Rounds()
        self.unfinished = Unfinished(is_short)
        self._time_slices = time_slices
        given = dict(options)
        self.max_streams = given["grpc.max_concurrent_streams"]
        self.max_message = given["grpc.max_receive_message_length"]
        self._limits = ConnectionLimits(given)
        self._shares = bool(given.get("grpc.so_reuseport"))
        self._handlers: list[grpc.GenericRpcHandler] = []
        self._find: Callable[[Any], Awaitable[Any]] = self._handler
        for interceptor in reversed(interceptors):
            self._find = partial(interceptor.intercept_service, self._find)
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._connections: set[Connection] = set()
        # Set while there are no connections.
        self._has_gone = asyncio.Event()
        self._has_gone.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._sockets: list[tuple[socket.socket, Handshakes | None]] = []
        self._listeners: list[asyncio.Server] = []
        self._handshakes: list[Handshakes] = []
        self._looking: asyncio.Task[None] | None = None
        self._is_stopping = False

    # The interface of grpc.aio.Server.

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """Serve these handlers too."""
        self._handlers.extend(handlers)

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Do nothing: the same handlers are added as generic ones as well."""

    async def start(self) -> None:
        """Accept connections from now on."""
        loop = asyncio.get_running_loop()
        for listening, handshakes in self._sockets:
            make = self._protocol if handshakes is None else partial(self._handshake, handshakes)
            self._listeners.append(await loop.create_server(make, sock=listening))
        self._looking = loop.create_task(self._look(), name="connections of the transport")

    async def stop(self, grace: float | None) -> None:
        """Accept no more calls, and end all calls after `grace` seconds, or immediately if it is None."""
        self._is_stopping = True
        for listener in self._listeners:
            listener.close()
        for listening, _ in self._sockets[len(self._listeners) :]:
            listening.close()
        for handshakes in self._handshakes:
            handshakes.stop()
        for connection in tuple(self._connections):
            connection.shut_down()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace or 0):
                while self._is_busy():  # noqa: ASYNC110
                    await asyncio.sleep(DRAIN_SECONDS)
        for connection in tuple(self._connections):
            connection.streams.end_all(STOPPED)
        if self._tasks:
            # A handler that does not end must not block the stop of the server.
            await asyncio.wait(tuple(self._tasks), timeout=CLOSE_SECONDS)
        await self._close()
        await stop_task(self._looking)

    # Further methods for assembly/grpc_server.py.

    def listen(self, address: Address, tls: Tls | None) -> int:
        """Listen at an address, with TLS if `tls` is given; returns the port.

        Raises:
            OSError: the address cannot be used.
            SettingsError: a certificate cannot be read, or is not usable.
        """
        handshakes = None
        if tls is not None:
            certificates = Certificates(tls, "h2", ssl.CERT_REQUIRED)
            handshakes = Handshakes(certificates.context, self._time_slices, self._limits.handshake)
        bound: list[socket.socket] = []
        port, refusal = address.port, OSError("there is no such host")
        for family, kind, protocol, where in _places(address):
            one = socket.socket(family, kind, protocol)
            try:
                self._bind(one, (where[0], port, *where[2:]))
            except OSError as error:
                one.close()
                refusal = error
                continue
            port = one.getsockname()[1]
            bound.append(one)
        if not bound:
            raise refusal
        self._sockets += [(one, handshakes) for one in bound]
        if handshakes is not None:
            self._handshakes.append(handshakes)
        return port

    def listen_at(self, path: str) -> None:
        """Listen on a Unix socket.

        Raises:
            OSError: the path cannot be used.
        """
        one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with suppress(FileNotFoundError):
            os.unlink(path)
        one.bind(path)
        self._sockets.append((one, None))

    def _bind(self, one: socket.socket, where: Any) -> None:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self._shares:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if one.family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(where[0] != "::"))
        one.bind(where)

    # Notifications of connections.

    def opened(self, connection: Connection) -> bool:
        """Register a new connection; return False if there are too many."""
        if self._is_stopping or len(self._connections) >= self._limits.connections:
            return False
        self._connections.add(connection)
        self._has_gone.clear()
        return True

    def begin(self, call: Call, seconds: float | None) -> None:
        """Run a call, which may take `seconds`, or any time if that is None."""
        if self._is_stopping:
            call.end(STOPPED)
            return
        task = call.begin(self._find, seconds)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def closed(self, connection: Connection) -> None:
        """Remove a closed connection."""
        self._connections.discard(connection)
        if not self._connections:
            self._has_gone.set()

    def _protocol(self) -> Connection:
        return Connection(self, self._buffer)

    def _handshake(self, handshakes: Handshakes) -> asyncio.Protocol:
        """The protocol of a new connection with TLS, which counts from the beginning of its handshake."""
        under_way = sum(len(each.under_way) for each in self._handshakes)
        if len(self._connections) + under_way >= self._limits.connections:
            return RefusedConnection()
        return handshakes.begin(self._protocol)

    async def _handler(self, details: Any) -> Any:
        """The handler of a call; None if there is none."""
        found = (handler for each in self._handlers if (handler := each.service(details)) is not None)
        return next(found, None)

    async def _look(self) -> None:
        """Close connections that are over a limit, and ping silent ones. Never returns."""
        while True:
            await asyncio.sleep(self._limits.look)
            self._look_at_all()
            self.unfinished.drop()

    def _look_at_all(self) -> None:
        # A separate function, as a sleeping coroutine would keep a reference to the last connection.
        now = monotonic()
        for connection in tuple(self._connections):
            self._limits.hold(connection, now)

    def _is_busy(self) -> bool:
        """True while a call is running, or a response is not sent completely."""
        return bool(self._tasks) or any(not each.streams.is_idle for each in self._connections)

    async def _close(self) -> None:
        """End all connections; abort connections that their peers have not closed after `CLOSE_SECONDS`."""
        for connection in tuple(self._connections):
            connection.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._has_gone.wait()
        for connection in tuple(self._connections):
            connection.abort()


class RefusedConnection(asyncio.Protocol):
    """Protocol of a connection that is closed immediately, because there are too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Close the connection."""
        assert isinstance(transport, asyncio.Transport)
        transport.abort()


class ConnectionLimits:
    """Limits of connections, in seconds."""

    connections: int
    handshake: float
    """Seconds until a connection must be able to carry calls."""
    look: float
    """Seconds between two checks of all connections."""

    def __init__(self, options: Mapping[str, int]) -> None:
        """Read the limits from gRPC's options."""
        self.connections = options["grpc.max_allowed_incoming_connections"]
        self.handshake = options["grpc.server_handshake_timeout_ms"] / 1000
        self._idle = options["grpc.max_connection_idle_ms"] / 1000
        self._silent = options["grpc.keepalive_time_ms"] / 1000
        self._timeout = options["grpc.keepalive_timeout_ms"] / 1000
        self.look = min(LONGEST_LOOK, min(self.handshake, self._idle, self._silent) / LOOKS)

    def hold(self, connection: Connection, now: float) -> None:
        """Close a connection that exceeds a limit, or ping a silent peer."""
        silent = now - connection.heard_at
        idle = now - connection.streams.idle_since if connection.streams.is_idle else 0.0
        if connection.ended_at is not None:
            # The peer should have closed the connection by now.
            if now - connection.ended_at > self._timeout:
                connection.abort()
        elif not connection.streams.is_greeted:
            if now - connection.made_at > self.handshake:
                connection.abort()
        elif silent > self._silent + self._timeout or idle > self._idle + self._timeout:
            connection.abort()
        elif idle > self._idle:
            # The peer should close the connection when it receives this.
            connection.shut_down()
        elif silent > self._silent:
            connection.ping()


def _places(address: Address) -> list[tuple[int, int, int, Any]]:
    """Sockets to listen on; for all interfaces, one socket for both address families, as in gRPC."""
    host = address.host
    if address.is_wildcard and socket.has_dualstack_ipv6():
        host = "::"
    found = socket.getaddrinfo(host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return [(family, kind, protocol, where) for family, kind, protocol, _, where in found]
