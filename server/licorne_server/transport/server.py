"""A gRPC server whose connections are the loop's own."""

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
from licorne_server.transport.call import Call, Status
from licorne_server.transport.connection import READ_BYTES, Connection
from licorne_server.transport.rounds import Rounds
from licorne_server.transport.unfinished import Unfinished

LONGEST_LOOK, LOOKS = 1.0, 4
"""Seconds between two looks at all connections, at most; and looks within the shortest of their limits."""

CLOSE_SECONDS = 1.0
"""Seconds that connections may take to send what waits, when the server stops; and handlers to end."""

DRAIN_SECONDS = 0.02
"""Seconds between two looks whether responses have left, when the server stops."""

STOPPED = Status(grpc.StatusCode.UNAVAILABLE, "the server has stopped")


class LoopTransport:
    """Has the methods of `grpc.aio.Server` that services need; see `aio.Transport`."""

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
        """Calls pass the interceptors in order; `options` are gRPC's, and all of them count.

        Handshakes of TLS take turns with reads in `time_slices`. `is_short` is true while memory is.
        """
        self.rounds = Rounds()
        self.unfinished = Unfinished(is_short)
        self._time_slices = time_slices
        given = dict(options)
        self.max_streams = given["grpc.max_concurrent_streams"]
        self.max_message = given["grpc.max_receive_message_length"]
        self._limits = Limits(given)
        self._shares = bool(given.get("grpc.so_reuseport"))
        self._handlers: list[grpc.GenericRpcHandler] = []
        self._find: Callable[[Any], Awaitable[Any]] = self._handler
        for interceptor in reversed(interceptors):
            self._find = partial(interceptor.intercept_service, self._find)
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._connections: set[Connection] = set()
        # Set while there are none.
        self._has_gone = asyncio.Event()
        self._has_gone.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._sockets: list[tuple[socket.socket, Handshakes | None]] = []
        self._listeners: list[asyncio.Server] = []
        self._handshakes: list[Handshakes] = []
        self._looking: asyncio.Task[None] | None = None
        self._is_stopping = False

    # What grpc.aio.Server has.

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """Serve these handlers too."""
        self._handlers.extend(handlers)

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Take no notice: those that are registered so are given as generic handlers as well."""

    async def start(self) -> None:
        """Accept connections from now on."""
        loop = asyncio.get_running_loop()
        for listening, handshakes in self._sockets:
            make = self._protocol if handshakes is None else partial(self._handshake, handshakes)
            self._listeners.append(await loop.create_server(make, sock=listening))
        self._looking = loop.create_task(self._look(), name="connections of the transport")

    async def stop(self, grace: float | None) -> None:
        """Accept nothing more; end all calls, those under way after `grace` seconds, at once with None."""
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
            # One that does not end does not keep the server from ending.
            await asyncio.wait(tuple(self._tasks), timeout=CLOSE_SECONDS)
        await self._close()
        await stop_task(self._looking)

    # What assembly/grpc_server.py wants beside that.

    def listen(self, address: Address, tls: Tls | None) -> int:
        """Listen at an address, with these certificates if there are any; returns the port.

        Raises:
            OSError: it cannot.
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
        """Listen at a path of the file system.

        Raises:
            OSError: it cannot.
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

    # What connections tell.

    def opened(self, connection: Connection) -> bool:
        """A connection was made; false if there are too many."""
        if self._is_stopping or len(self._connections) >= self._limits.connections:
            return False
        self._connections.add(connection)
        self._has_gone.clear()
        return True

    def begin(self, call: Call, seconds: float | None) -> None:
        """Carry out a call."""
        if self._is_stopping:
            call.end(STOPPED)
            return
        task = call.begin(self._find, seconds)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def closed(self, connection: Connection) -> None:
        """A connection has gone."""
        self._connections.discard(connection)
        if not self._connections:
            self._has_gone.set()

    def _protocol(self) -> Connection:
        return Connection(self, self._buffer)

    def _handshake(self, handshakes: Handshakes) -> asyncio.Protocol:
        """The protocol of a new connection with TLS: a handshake takes a place as a connection does."""
        under_way = sum(len(each.under_way) for each in self._handshakes)
        if len(self._connections) + under_way >= self._limits.connections:
            return Refused()
        return handshakes.begin(self._protocol)

    async def _handler(self, details: Any) -> Any:
        """The handler of a call; None if there is none."""
        found = (handler for each in self._handlers if (handler := each.service(details)) is not None)
        return next(found, None)

    async def _look(self) -> None:
        """Close connections that are over a limit, and ask silent ones for a sign of life. Never returns."""
        while True:
            await asyncio.sleep(self._limits.look)
            self._look_at_all()
            self.unfinished.drop()

    def _look_at_all(self) -> None:
        # Its own function, as a coroutine that sleeps would keep the last connection.
        now = monotonic()
        for connection in tuple(self._connections):
            self._limits.hold(connection, now)

    def _is_busy(self) -> bool:
        """True while a call is under way, or a response has not left whole."""
        return bool(self._tasks) or any(not each.streams.is_idle for each in self._connections)

    async def _close(self) -> None:
        """Close all connections, behind what they have to send if that takes no longer than a moment."""
        for connection in tuple(self._connections):
            connection.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._has_gone.wait()
        for connection in tuple(self._connections):
            connection.abort()


class Refused(asyncio.Protocol):
    """A connection that is closed at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Close it."""
        assert isinstance(transport, asyncio.Transport)
        transport.abort()


class Limits:
    """What connections are held to, in seconds."""

    connections: int
    handshake: float
    """Until a connection must be able to carry calls."""
    look: float
    """Between two looks at all connections."""

    def __init__(self, options: Mapping[str, int]) -> None:
        """As gRPC's options say."""
        self.connections = options["grpc.max_allowed_incoming_connections"]
        self.handshake = options["grpc.server_handshake_timeout_ms"] / 1000
        self._idle = options["grpc.max_connection_idle_ms"] / 1000
        self._silent = options["grpc.keepalive_time_ms"] / 1000
        self._timeout = options["grpc.keepalive_timeout_ms"] / 1000
        self.look = min(LONGEST_LOOK, min(self.handshake, self._idle, self._silent) / LOOKS)

    def hold(self, connection: Connection, now: float) -> None:
        """Close a connection that is over a limit, or ask whether its peer is still there."""
        silent = now - connection.heard_at
        idle = now - connection.streams.idle_since if connection.streams.is_idle else 0.0
        if not connection.streams.is_greeted:
            if now - connection.made_at > self.handshake:
                connection.abort()
        elif silent > self._silent + self._timeout or idle > self._idle + self._timeout:
            connection.abort()
        elif idle > self._idle:
            # Its peer closes it when it hears of that, or should.
            connection.shut_down()
        elif silent > self._silent:
            connection.ping()


def _places(address: Address) -> list[tuple[int, int, int, Any]]:
    """Where to listen: on all interfaces by one socket for both families, as gRPC does."""
    host = address.host
    if address.is_wildcard and socket.has_dualstack_ipv6():
        host = "::"
    found = socket.getaddrinfo(host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return [(family, kind, protocol, where) for family, kind, protocol, _, where in found]
