"""One connection: HTTP/2 between a socket of the event loop and the calls."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, Protocol
from urllib.parse import quote

import licorne_transport as http2
import structlog

from licorne_server.transport.loop.rounds import CALL_WORK, Rounds
from licorne_server.transport.loop.streams import CallRunner, Streams

log = structlog.get_logger("core.transport")

READ_BYTES = 64 * 1024
"""Maximum number of bytes that are read in one round of the loop: hundreds of small messages."""

WRITE_BYTES = 64 * 1024
"""Maximum number of bytes that are written in one piece."""

DROPPED_BYTES = 4 * 1024 * 1024
"""Maximum number of bytes that are received and dropped before the peer closes an ended connection."""


class Owner(CallRunner, Protocol):
    """The server that owns connections."""

    max_streams: int
    """Maximum number of open calls of one connection."""
    rounds: Rounds
    """Schedules the turns of all connections."""

    def opened(self, connection: "Connection") -> bool:
        """Register a new connection; return False if there are too many."""
        ...

    def closed(self, connection: "Connection") -> None:
        """Remove a closed connection."""
        ...


class Connection(asyncio.BufferedProtocol):
    """A connection: the protocol of a socket, with its streams."""

    streams: Streams
    """The calls of the connection."""
    made_at: float
    """Time at which the connection was made, in seconds of the process's clock."""
    heard_at: float
    """Time at which something was last received, in the same seconds."""
    ended_at: float | None
    """Time at which the last byte was queued, in the same seconds; None before."""
    is_waiting: bool
    """True while the connection waits for its turn to process received bytes."""

    def __init__(self, owner: Owner, buffer: memoryview) -> None:
        """`buffer` is shared by all connections, because the loop reads one at a time."""
        self.made_at = self.heard_at = monotonic()
        self.ended_at = None
        self._owner = owner
        self._buffer = buffer
        self._http2 = http2.Connection(owner.max_streams, owner.max_message)
        self.streams = Streams(owner, self._http2, self._soon)
        self._loop = asyncio.get_running_loop()
        # None before the connection is made, and after it is lost.
        self._transport: asyncio.Transport | None = None
        self._unread = b""
        self._dropped = 0
        self.is_waiting = self._is_flushing = self._is_paused = self._is_closing = False
        self._is_reading = True

    def ping(self) -> None:
        """Send a ping to check that the peer is alive."""
        self._http2.ping()
        self._soon()

    def shut_down(self) -> None:
        """Accept no new calls, and close the connection after the last call."""
        self._http2.shut_down()
        self._soon()

    def close(self) -> None:
        """End the connection after sending all queued bytes; the peer then closes it."""
        # Bytes that waited for room are queued behind the bytes that are taken first, so this is done twice.
        for _ in range(2):
            self._flush(ends=True)
        self._end()

    def abort(self) -> None:
        """Close the connection immediately."""
        self._forget()
        if self._transport is not None:
            self._transport.abort()

    def _end(self) -> None:
        """End all calls and send nothing more; drop received bytes until the peer closes the connection.

        A connection that is closed while bytes are unread is reset by the system, and data that the peer has
        not received is lost (RFC 9293, section 3.6.1). TLS has no end in one direction.
        """
        transport, has_ended = self._transport, self.ended_at is not None
        self._forget()
        if transport is None or has_ended or transport.is_closing():
            return
        self.ended_at = monotonic()
        self.streams.close()
        if transport.can_write_eof():
            # The loss of a peer is detected when its connection is read.
            with suppress(OSError):
                transport.write_eof()
        if not self._is_reading:
            self._is_reading = True
            transport.resume_reading()

    def _forget(self) -> None:
        """Drop all received and queued bytes, and request no more turns."""
        self._is_closing, self.is_waiting = True, False
        self._unread = b""
        self._http2.close()

    # Callbacks of the loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve the connection."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = peer_name(transport.get_extra_info("peername"))
        self.streams.meet(peer, transport.get_extra_info("ssl_object"))
        if not self._owner.opened(self):
            transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        """The buffer into which the loop reads."""
        return self._buffer[: self._owner.rounds.room]

    def buffer_updated(self, nbytes: int) -> None:
        """Process `nbytes` that were read into the buffer."""
        self.data_received(bytes(self._buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Process bytes that were read."""
        if self._is_closing:
            self._dropped += len(data)
            if self._dropped > DROPPED_BYTES:
                self.abort()
            return
        self.heard_at = monotonic()
        self._unread += data
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """End all calls, because the connection is lost."""
        self._transport = None
        self._forget()
        self.streams.close()
        self._owner.closed(self)

    def pause_writing(self) -> None:
        """Stop reading while the peer does not read, because its requests would need answers."""
        self._is_paused = True
        self._read_or_not()

    def resume_writing(self) -> None:
        """Read again, because the peer reads; this also shows that the peer is alive."""
        self.heard_at = monotonic()
        self._is_paused = False
        self._read_or_not()
        self._soon()

    # Turns of the connection.

    def go_on(self) -> int:
        """Process received bytes; returns the work that they and the new calls have taken."""
        if self._is_closing:
            return 0
        data, self._unread = self._unread, b""
        begun = self.streams.begun
        self._carry_out(partial(self._http2.feed, data))
        self.streams.count_unfinished()
        self._soon()
        self.is_waiting = self._http2.has_more
        if self.is_waiting is self._is_reading:
            self._read_or_not()
        return len(data) + CALL_WORK * (self.streams.begun - begun)

    def _wait(self) -> None:
        """Wait for a turn, which may be immediate. Nothing is received in the meantime."""
        if not self.is_waiting:
            self.is_waiting = True
            self._owner.rounds.wait(self.streams.line, self)
            if self.is_waiting:
                self._read_or_not()

    def _read_or_not(self) -> None:
        """Receive, unless the peer does not read, or received bytes wait for a turn."""
        reads = not (self._is_paused or self.is_waiting)
        if reads is self._is_reading or self._transport is None or self._is_closing:
            return
        self._is_reading = reads
        if reads:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    # Between the wire and the loop.

    def _soon(self) -> None:
        """Write at the end of this round of the loop, when other calls have queued their messages as well."""
        if not (self._is_flushing or self._is_closing):
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self, *, ends: bool = False) -> None:
        """Write queued bytes, unless the peer does not read; with `ends`, the remaining bytes in any case."""
        self._is_flushing = False
        if not (self._is_closing or self.is_waiting):
            self._carry_out(self._http2.advance)
            if self._http2.has_more:
                self._wait()
        transport = self._transport
        if transport is None or self._is_closing or transport.is_closing():
            return
        if ends or self._http2.closed or not self._is_paused:
            data = self._http2.take()
            if data:
                transport.write(data)
            if len(data) >= WRITE_BYTES:
                # More bytes may have waited for room.
                self._soon()
        if self._http2.closed:
            self._end()

    def _carry_out(self, step: Callable[[], list[tuple[int, int, Any]]]) -> None:
        """Run a step, and process its events. A failure ends only this connection."""
        try:
            self.streams.carry_out(step())
        except Exception as error:
            log.exception("connection failed", peer=self.streams.peer, error=str(error))
            self.abort()


def peer_name(where: Any) -> str:
    """The name of a peer as gRPC writes it; `where` is its address in the form of sockets."""
    if not isinstance(where, tuple):
        return "unix:"
    host, port = where[0], where[1]
    if ":" not in host or host.startswith("::ffff:"):
        return f"ipv4:{host.removeprefix('::ffff:')}:{port}"
    return f"ipv6:{quote(f'[{host}]', safe=':')}:{port}"
