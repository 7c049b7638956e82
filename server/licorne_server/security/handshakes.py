"""TLS handshakes on connections in the event loop.

A handshake takes time of the loop, and any client may begin one. So handshakes take turns with all reads
(`process/fair.py`), by host. A connection may be closed during its handshake to make room. A handshake that
waits for its turn uses no memory for TLS yet.
"""

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Protocol

import structlog

from licorne_server.process.bounds import peer_of
from licorne_server.process.fair import TimeSlices

log = structlog.get_logger("core.http.handshake")

HANDSHAKE_SECONDS = 0.001
"""Estimated seconds of the loop for a handshake: a signature, and the verification of a certificate."""

SHUTDOWN_SECONDS = 3.0
"""Seconds that a peer may take to confirm the end of a connection."""


MOST, SHARE = 512, 256
"""Maximum handshakes of an address that have had their turn and wait for the peer, in total and of one host.
Each takes 300 KB; with an honest peer it lasts for a few round trips and the peer's computation."""

GRACE_SECONDS = 3.0
"""Seconds after which a handshake loses its place if another handshake of its host waits for a place."""

LOOK_SECONDS = 0.25
"""Seconds between two checks for handshakes that have taken too long."""


class Handler(Protocol):
    """A protocol to which a connection is handed over."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve the connection."""
        ...

    def data_received(self, data: bytes) -> None:
        """Process bytes that were read."""
        ...

    def connection_lost(self, exc: Exception | None) -> None:
        """Record the end of the connection."""
        ...


class _Waiting(asyncio.Protocol):
    """Buffers bytes between the end of the handshake and the handler's start."""

    def __init__(self) -> None:
        self.data = b""
        self.over = False
        self.handler: Handler | None = None

    def data_received(self, data: bytes) -> None:
        self.data += data

    def eof_received(self) -> None:
        self.over = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.over = True
        # asyncio selects the protocol to notify early: this one if the connection ends during the handover.
        if self.handler is not None:
            self.handler.connection_lost(exc)


class Handshake(asyncio.Protocol):
    """A connection under handshake."""

    transport: asyncio.Transport | None
    """The unencrypted connection."""

    def __init__(self, of: "Handshakes", make_handler: Callable[[], Handler]) -> None:
        """Begin once the connection is made; `make_handler` creates the protocol that takes over."""
        self.transport = None
        self._of = of
        self._make_handler = make_handler
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake when its turn has come."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._task = asyncio.get_running_loop().create_task(self._open(transport), name="handshake")
        self._task.add_done_callback(self._ended)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Abort the handshake, because the connection was closed before its end."""
        self.stop()

    def stop(self) -> None:
        """Abort the handshake."""
        if self._task is not None:
            self._task.cancel()

    def _ended(self, _: asyncio.Task[None]) -> None:
        # A task refers to its canceller, which refers to this object: a cycle that keeps the connection
        # alive.
        self._task = None
        self._of.ended(self)

    async def _open(self, transport: asyncio.Transport) -> None:
        """Do the handshake, and hand the connection over."""
        # `connection_made` would be too early: the loop of Python 3.11.2 then starts to read even if paused.
        transport.pause_reading()
        waiting = _Waiting()
        try:
            secure = await self._of.secured(self, transport, waiting)
        except OSError as error:  # includes errors of TLS, and a timeout
            log.debug("handshake failed", reason=str(error))
            # asyncio keeps the error, whose frames refer to the TLS state: 300 KB until the next garbage
            # collection.
            error.__traceback__ = None
            return
        except asyncio.CancelledError:
            transport.abort()
            raise
        if secure is None or waiting.over:
            transport.abort()
            return
        handler = self._make_handler()
        secure.set_protocol(handler)  # type: ignore[arg-type]
        waiting.handler = handler
        handler.connection_made(secure)
        if waiting.data:
            handler.data_received(waiting.data)


@dataclass(frozen=True, slots=True)
class _Begun:
    """A handshake whose turn has begun."""

    host: str
    at: float
    """Start of the turn, in seconds of the process's clock."""


class Handshakes:
    """The handshakes of one address."""

    under_way: dict[Handshake, None]
    """Unfinished handshakes, the oldest first."""

    def __init__(
        self, context: Callable[[], ssl.SSLContext], time_slices: TimeSlices, seconds: float
    ) -> None:
        """Create no handshake yet; each uses the current `context`, and may take `seconds`."""
        self.under_way = {}
        self._begun: dict[Handshake, _Begun] = {}
        # Handshakes that wait for a place, by host.
        self._waiting: dict[str, dict[Handshake, asyncio.Future[None]]] = {}
        self._is_looking = False
        self._context = context
        self._time_slices = time_slices
        self._seconds = seconds

    def begin(self, make_handler: Callable[[], Handler]) -> Handshake:
        """The protocol of a new connection; the handler takes over after the handshake."""
        handshake = Handshake(self, make_handler)
        self.under_way[handshake] = None
        return handshake

    def ended(self, handshake: Handshake) -> None:
        """Record that a handshake has ended, or never began: its host's next handshake gets its place."""
        self.under_way.pop(handshake, None)
        if (begun := self._begun.pop(handshake, None)) is not None:
            self._let_in(begun.host)

    def stop(self) -> None:
        """Abort all handshakes."""
        for handshake in list(self.under_way):
            handshake.stop()

    async def _place(self, handshake: Handshake, host: str) -> None:
        """Wait for a place of this host; if all places are taken, the host with the most places loses one."""
        line = self._waiting.setdefault(host, {})
        turn = line[handshake] = asyncio.get_running_loop().create_future()
        self._let_in(host)
        if not (turn.done() or self._is_looking):
            self._look()
        try:
            await turn
        finally:
            line.pop(handshake, None)
            if not line and self._waiting.get(host) is line:
                del self._waiting[host]

    def _let_in(self, host: str) -> None:
        """Assign free places to waiting handshakes of a host, and places of handshakes that take too long."""
        line = self._waiting.get(host, {})
        while line:
            count = Counter(begun.host for begun in self._begun.values())
            is_full = count[host] >= SHARE
            if is_full or len(self._begun) >= MOST:
                crowd = host if is_full else count.most_common(1)[0][0]
                oldest = next(each for each, begun in self._begun.items() if begun.host == crowd)
                if is_full and monotonic() - self._begun[oldest].at < GRACE_SECONDS:
                    return
                del self._begun[oldest]
                oldest.stop()
            handshake = next(iter(line))
            self._begun[handshake] = _Begun(host, monotonic())
            turn = line.pop(handshake)
            if not turn.done():
                turn.set_result(None)

    def _look(self) -> None:
        """Check all hosts with waiting handshakes, and repeat as long as there are any."""
        for host in tuple(self._waiting):
            self._let_in(host)
        self._is_looking = bool(self._waiting)
        if self._is_looking:
            asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    async def secured(
        self, handshake: Handshake, transport: asyncio.Transport, protocol: asyncio.Protocol
    ) -> asyncio.Transport | None:
        """Encrypt a connection; returns None if it was closed meanwhile.

        Raises:
            OSError: the handshake has failed, or has timed out.
        """
        peer = transport.get_extra_info("peername")
        host = peer_of(peer[0]) if peer else ""
        async with self._time_slices.slice(host, HANDSHAKE_SECONDS):
            context = self._context()
        await self._place(handshake, host)
        return await asyncio.get_running_loop().start_tls(
            transport,
            protocol,
            context,
            server_side=True,
            ssl_handshake_timeout=self._seconds,
            ssl_shutdown_timeout=SHUTDOWN_SECONDS,
        )
