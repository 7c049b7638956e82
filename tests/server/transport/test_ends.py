"""A connection that ends while it waits for its turn does no more work."""

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from licorne_server.transport.loop.call import OK, Call
from licorne_server.transport.loop.connection import Connection
from licorne_server.transport.loop.rounds import ROUND_WORK, Rounds
from licorne_server.transport.loop.unfinished import Unfinished
from support.peers.networks import SETTINGS, frame
from support.peers.raw_grpc import GREETING, data, opening, packed

pytestmark = pytest.mark.transport

STREAMS = 12
PASSES = 200
BROKEN = frame(SETTINGS, b"no settings")
"""A frame that ends the connection by an error of HTTP/2."""


class Owner:
    """The owner of one connection, whose calls never end; the one with the number `fails` raises."""

    max_message = 4 * 1024 * 1024
    max_streams = STREAMS

    def __init__(self, fails: int = 0) -> None:
        """Start without a call."""
        self.rounds = Rounds()
        self.unfinished = Unfinished(bool)
        self.calls: list[Call] = []
        self.has_gone = False
        self._fails = fails

    def opened(self, connection: Connection) -> bool:
        """Accept the connection."""
        return True

    def closed(self, connection: Connection) -> None:
        """Record its end."""
        self.has_gone = True

    def begin(self, call: Call, seconds: float | None) -> None:
        """Store the call."""
        self.calls.append(call)
        if len(self.calls) == self._fails:
            raise RuntimeError("so")


class Wire(asyncio.Transport):
    """A socket that reports its end to its protocol once, in the next turn; then its peer closes."""

    def __init__(self, protocol: Connection) -> None:
        """Open."""
        super().__init__()
        self._protocol = protocol
        self._is_closing = False
        self.written = b""

    def abort(self) -> None:
        """End."""
        if not self._is_closing:
            self._is_closing = True
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    close = write_eof = abort

    def can_write_eof(self) -> bool:
        """True: one direction can be closed."""
        return True

    def is_closing(self) -> bool:
        """True once it was closed."""
        return self._is_closing

    def write(self, data: Any) -> None:
        """Keep the data."""
        self.written += data

    def pause_reading(self) -> None:
        """Do nothing, because nothing is read by itself."""

    resume_reading = pause_reading


async def passes() -> int:
    """Run the loop; return the number of rounds with other work."""
    loop = asyncio.get_running_loop()
    call_soon, calls = loop.call_soon, 0

    def counted(*args: Any, **kwargs: Any) -> asyncio.Handle:
        nonlocal calls
        calls += 1
        return call_soon(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "call_soon", counted)
        for _ in range(PASSES):
            await asyncio.sleep(0)
    return calls - PASSES


def waiting(owner: Owner) -> Connection:
    """A connection with more calls than begin in one turn, each with a part of a message."""
    connection = Connection(owner, memoryview(bytearray(1024)))
    connection.connection_made(Wire(connection))
    calls = (
        opening(stream, "Wait") + data(stream, packed(b"begun")[:7]) for stream in range(1, 2 * STREAMS, 2)
    )
    connection.data_received(GREETING + b"".join(calls))
    assert connection.is_waiting
    return connection


def stops(connection: Connection) -> None:
    """Stop the server."""
    connection.shut_down()
    connection.close()


def goes_on_sending(connection: Connection) -> None:
    """Abort the connection at the server, and let data arrive afterwards."""
    connection.abort()
    connection.data_received(b"more")


WAYS: dict[str, Callable[[Connection], None]] = {
    "the peer has gone": lambda connection: connection.connection_lost(None),
    "the server closes": Connection.close,
    "the server aborts": Connection.abort,
    "the server stops": stops,
    "more is received": goes_on_sending,
    "the protocol is broken": lambda connection: connection.data_received(BROKEN),
    "a call cannot be carried out": lambda connection: None,
}


@pytest.mark.parametrize("others", [0, 1], ids=["in its turn", "behind others"])
@pytest.mark.parametrize("how", WAYS)
async def test_an_ended_connection_has_no_more_turns(how: str, others: int) -> None:
    """A connection that ends while it waits for its turn has no work, counts nowhere and is freed."""
    owner = Owner(fails=6 if "carried out" in how else 0)
    connection = waiting(owner)
    for _ in range(others):
        owner.rounds.wait((False, "other"), Once(ROUND_WORK))
    WAYS[how](connection)
    await passes()
    assert owner.has_gone
    assert not connection.is_waiting
    assert owner.unfinished.total == 0
    # A call that was about to begin, for instance, does not give the connection another turn.
    for call in owner.calls:
        call.end(None)
    connection.streams.count_unfinished()
    connection.ping()
    assert await passes() < PASSES / 2
    assert owner.unfinished.total == 0
    kept = weakref.ref(connection)
    owner.calls.clear()
    del connection
    if kept() is not None:
        gc.collect()
    assert kept() is None


class Once:
    """Another connection, with one step of much work."""

    is_waiting = False

    def __init__(self, work: int) -> None:
        """Start with the step to do."""
        self._work = work

    def go_on(self) -> int:
        """Do the step; return its work."""
        return self._work


async def test_responses_are_sent_before_the_end() -> None:
    """A response that was written is sent when the connection is closed, even to a paused peer."""
    owner = Owner()
    connection = Connection(owner, memoryview(bytearray(1024)))
    wire = Wire(connection)
    connection.connection_made(wire)
    connection.data_received(GREETING + opening(1, "Any", ends=True))
    await passes()
    connection.pause_writing()
    [call] = owner.calls
    await call.write(b"response")
    call.end(OK)
    await passes()
    assert packed(b"response") not in wire.written
    connection.close()
    assert packed(b"response") in wire.written
