"""One connection: HTTP/2 between a socket of the loop and the calls."""

import asyncio
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any, Protocol
from urllib.parse import quote

import licorne_transport as http2
import structlog

from licorne_server.transport.rounds import CALL_WORK, Rounds
from licorne_server.transport.streams import Calls, Streams

log = structlog.get_logger("core.transport")

READ_BYTES = 64 * 1024
"""Bytes that are read in one turn of the loop: hundreds of small messages."""

WRITE_BYTES = 64 * 1024
"""Bytes that are written at once."""


class Owner(Calls, Protocol):
    """Who has connections."""

    max_streams: int
    """Calls of one connection at a time."""
    rounds: Rounds
    """Turns of all connections."""

    def opened(self, connection: "Connection") -> bool:
        """A connection was made; false if there are too many."""
        ...

    def closed(self, connection: "Connection") -> None:
        """A connection has gone."""
        ...


class Connection(asyncio.BufferedProtocol):
    """One connection."""

    streams: Streams
    """Its calls."""
    made_at: float
    """When it was made, in seconds of the process' clock."""
    heard_at: float
    """When something was last received."""
    is_waiting: bool
    """True while it waits for its turn to go on with what it has received."""

    def __init__(self, owner: Owner, buffer: memoryview) -> None:
        """`buffer` is shared by all connections, as the loop reads one after the other."""
        self.made_at = self.heard_at = monotonic()
        self._owner = owner
        self._buffer = buffer
        self._http2 = http2.Connection(owner.max_streams, owner.max_message)
        self.streams = Streams(owner, self._http2, self._soon)
        self._loop = asyncio.get_running_loop()
        # None before and behind its life.
        self._transport: asyncio.Transport | None = None
        self._unread = b""
        self.is_waiting = self._is_flushing = self._is_paused = self._is_closing = False
        self._is_reading = True

    def ping(self) -> None:
        """Ask the peer for a sign of life."""
        self._http2.ping()
        self._soon()

    def shut_down(self) -> None:
        """Let no new call begin, and close behind the last."""
        self._http2.shut_down()
        self._soon()

    def close(self) -> None:
        """Close it behind what is to be sent."""
        # What waits for room is behind what is taken first.
        for _ in range(2):
            self._flush(ends=True)
        self._forget()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close it at once."""
        self._forget()
        if self._transport is not None:
            self._transport.abort()

    def _forget(self) -> None:
        """Do nothing more, whatever has come or was to be sent, and have no turn any more."""
        self._is_closing, self.is_waiting = True, False
        self._unread = b""
        self._http2.close()

    # What the loop tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = peer_name(transport.get_extra_info("peername"))
        self.streams.meet(peer, transport.get_extra_info("ssl_object"))
        if not self._owner.opened(self):
            transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where to read to."""
        return self._buffer[: self._owner.rounds.room]

    def buffer_updated(self, nbytes: int) -> None:
        """So much was read."""
        self.data_received(bytes(self._buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Something was read."""
        if self._is_closing:
            return
        self.heard_at = monotonic()
        self._unread += data
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """It has gone, and with it all calls."""
        self._transport = None
        self._forget()
        self.streams.close()
        self._owner.closed(self)

    def pause_writing(self) -> None:
        """The peer does not read. What it asks is not read either, as it would want answers."""
        self._is_paused = True
        self._read_or_not()

    def resume_writing(self) -> None:
        """The peer reads again. That is a sign of life, and none of it was read meanwhile."""
        self.heard_at = monotonic()
        self._is_paused = False
        self._read_or_not()
        self._soon()

    # Its turns.

    def go_on(self) -> int:
        """Go on with what was received; returns the work of it and of the calls that have begun."""
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
        """Go on in its turn, which may be at once. Nothing is received while it waits."""
        if not self.is_waiting:
            self.is_waiting = True
            self._owner.rounds.wait(self.streams.line, self)
            if self.is_waiting:
                self._read_or_not()

    def _read_or_not(self) -> None:
        """Receive, unless the peer does not read, or what was received waits."""
        reads = not (self._is_paused or self.is_waiting)
        if reads is self._is_reading or self._transport is None or self._is_closing:
            return
        self._is_reading = reads
        if reads:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    # Between both.

    def _soon(self) -> None:
        """Write at the end of this turn of the loop, when others have said what they want to, too."""
        if not (self._is_flushing or self._is_closing):
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self, *, ends: bool = False) -> None:
        self._is_flushing = False
        if self._is_closing:
            return
        if not self.is_waiting:
            self._carry_out(self._http2.advance)
            if self._http2.has_more:
                self._wait()
        self._write(ends)

    def _carry_out(self, step: Callable[[], list[tuple[int, int, Any]]]) -> None:
        """Carry out what a step has led to. Where that fails, the connection ends, and nothing else."""
        try:
            self.streams.carry_out(step())
        except Exception as error:
            log.exception("connection failed", peer=self.streams.peer, error=str(error))
            self.abort()

    def _write(self, ends: bool) -> None:
        """Write what is to be sent, unless the peer does not read; with `ends`, what is left in any case."""
        transport = self._transport
        if transport is None or self._is_closing or transport.is_closing():
            return
        if ends or self._http2.closed or not self._is_paused:
            data = self._http2.take()
            if data:
                transport.write(data)
            if len(data) >= WRITE_BYTES:
                # More may have waited for room.
                self._soon()
        if self._http2.closed:
            self._forget()
            transport.close()


def peer_name(where: Any) -> str:
    """The name of a peer as gRPC writes it; `where` is its address as sockets have it."""
    if not isinstance(where, tuple):
        return "unix:"
    host, port = where[0], where[1]
    if ":" not in host or host.startswith("::ffff:"):
        return f"ipv4:{host.removeprefix('::ffff:')}:{port}"
    return f"ipv6:{quote(f'[{host}]', safe=':')}:{port}"
