"""TLS handshakes on connections of the loop.

A handshake takes time of the loop, and any client may begin one. So handshakes take turns with all
reads (`process/fair.py`), by host. A connection may be closed during its handshake to make room, and one
that waits for its turn has no memory of TLS yet.
"""

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable
from typing import Protocol

import structlog

from licorne_server.process.bounds import peer_of
from licorne_server.process.fair import TimeSlices

log = structlog.get_logger("core.http.handshake")

HANDSHAKE_SECONDS = 0.001
"""Estimated seconds of the loop for a handshake: a signature, and the check of a certificate."""

SHUTDOWN_SECONDS = 3.0
"""Seconds that a peer may take to confirm the end of a connection."""


MOST, SHARE = 512, 256
"""Handshakes of an address that have had their turn and wait for the peer, in all and of one host. Each
takes 300 KB; one of an honest peer takes as long as a few packets on their way."""


class Handler(Protocol):
    """A protocol that a connection is handed over to."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        ...

    def data_received(self, data: bytes) -> None:
        """Something was read."""
        ...


class _Waiting(asyncio.Protocol):
    """Buffers bytes between the end of the handshake and the handler's start."""

    def __init__(self) -> None:
        self.data = b""
        self.over = False

    def data_received(self, data: bytes) -> None:
        self.data += data

    def eof_received(self) -> None:
        self.over = True

    def connection_lost(self, exc: BaseException | None) -> None:
        self.over = True


class Handshake(asyncio.Protocol):
    """A connection under handshake."""

    transport: asyncio.Transport | None
    """The connection without TLS."""

    def __init__(self, of: "Handshakes", make_handler: Callable[[], Handler]) -> None:
        """Begin with the connection."""
        self.transport = None
        self._of = of
        self._make_handler = make_handler
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake in its turn."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._task = asyncio.get_running_loop().create_task(self._open(transport), name="handshake")
        self._task.add_done_callback(self._ended)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Abort: the connection was closed before the handshake was over."""
        self.stop()

    def stop(self) -> None:
        """Abort the handshake."""
        if self._task is not None:
            self._task.cancel()

    def _ended(self, _: asyncio.Task[None]) -> None:
        # A task knows what has cancelled it, and so this: they would keep each other and the connection.
        self._task = None
        self._of.under_way.pop(self, None)
        self._of.begun.pop(self, None)

    async def _open(self, transport: asyncio.Transport) -> None:
        """Do the handshake, and hand the connection over."""
        # `connection_made` is too early: the loop of Python 3.11.2 starts to read after it, paused or not.
        transport.pause_reading()
        waiting = _Waiting()
        try:
            secure = await self._of.secured(self, transport, waiting)
        except OSError as error:  # what TLS raises, and a timeout, are among them
            log.debug("handshake failed", reason=str(error))
            # asyncio keeps the error, whose frames keep all of TLS: 300 KB until a pass of the collector.
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
        handler.connection_made(secure)
        if waiting.data:
            handler.data_received(waiting.data)


class Handshakes:
    """The handshakes of one address."""

    under_way: dict[Handshake, None]
    """Unfinished handshakes, the oldest first."""
    begun: dict[Handshake, str]
    """Those of them that have had their turn, each with its host."""

    def __init__(
        self, context: Callable[[], ssl.SSLContext], time_slices: TimeSlices, seconds: float
    ) -> None:
        """Each uses the current `context`, and may take `seconds`."""
        self.under_way = {}
        self.begun = {}
        self._context = context
        self._time_slices = time_slices
        self._seconds = seconds

    def begin(self, make_handler: Callable[[], Handler]) -> Handshake:
        """The protocol of a new connection; the handler takes over after the handshake."""
        handshake = Handshake(self, make_handler)
        self.under_way[handshake] = None
        return handshake

    def stop(self) -> None:
        """Abort all handshakes."""
        for handshake in list(self.under_way):
            handshake.stop()

    def _make_room(self, host: str) -> None:
        """End the oldest handshake of the host, or of the host with most, if there are too many."""
        count = Counter(self.begun.values())
        crowd = host
        if count[host] < SHARE:
            if len(self.begun) < MOST:
                return
            crowd, _ = count.most_common(1)[0]
        oldest = next(each for each, its in self.begun.items() if its == crowd)
        del self.begun[oldest]
        oldest.stop()

    async def secured(
        self, handshake: Handshake, transport: asyncio.Transport, protocol: asyncio.Protocol
    ) -> asyncio.Transport | None:
        """The encrypted connection; None if it was closed meanwhile.

        Raises:
            OSError: the handshake has failed, or has timed out.
        """
        peer = transport.get_extra_info("peername")
        host = peer_of(peer[0]) if peer else ""
        async with self._time_slices.slice(host, HANDSHAKE_SECONDS):
            context = self._context()
        self._make_room(host)
        self.begun[handshake] = host
        return await asyncio.get_running_loop().start_tls(
            transport,
            protocol,
            context,
            server_side=True,
            ssl_handshake_timeout=self._seconds,
            ssl_shutdown_timeout=SHUTDOWN_SECONDS,
        )
