"""Cutting of connections: received bytes are compared with those that calls explain."""

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from licorne_server.process.bounds import PeerBounds
from licorne_server.security import connections
from licorne_server.security.access import Access
from licorne_server.security.connections import Connections, CountedConnection, Link
from licorne_server.services.calls import CallGuard
from licorne_server.wire.caps import MAX_MESSAGE_BYTES

MUCH = "more bytes than its calls explain"
ANSWERS = "many answers and no call"
RESETS = "too many calls cancelled"
CALLED = connections.CALL_BYTES + connections.MESSAGE_BYTES
"""Bytes that a call with an empty message explains."""


def found(link: Link) -> CountedConnection:
    """A connection before its first sweep."""
    return CountedConnection(("127.0.0.1", 1), link)


def test_bytes_explained_by_calls_are_unbounded() -> None:
    """A connection may receive any number of bytes that its calls explain."""
    link = Link()
    tally = found(link)
    link.called()
    received = 0
    for _ in range(100):
        link.heard(1, MAX_MESSAGE_BYTES)
        received += MAX_MESSAGE_BYTES + 100_000
        assert tally.judge(received, 1.0) == ""


@pytest.mark.parametrize(
    ("calls", "messages", "streams", "allowed"),
    [
        (0, 0, 0, connections.STRANGER_BYTES),
        (1, 0, 0, connections.STRANGER_BYTES + connections.CALL_BYTES),
        (1, 1, 0, connections.CALLER_BYTES + CALLED),
        (1, 1, 1, connections.CALLER_BYTES + CALLED + MAX_MESSAGE_BYTES),
    ],
    ids=["stranger", "half a message", "caller", "stream"],
)
def test_unexplained_bytes_are_bounded(calls: int, messages: int, streams: int, allowed: int) -> None:
    """Unexplained bytes are bounded, more tightly before a whole message of a call was received."""
    for surplus, reason in ((0, ""), (1, MUCH)):
        link = Link()
        for _ in range(calls):
            link.called()
        for _ in range(messages):
            link.heard(1, 0)
        link.streams = streams
        assert found(link).judge(allowed + surplus, 0.0) == reason


def test_first_message_may_be_as_large_as_any() -> None:
    """The first message of a unary call may be of any allowed size, and take several sweeps."""
    link = Link()
    tally = found(link)
    assert tally.judge(MAX_MESSAGE_BYTES // 2, 0.0) == ""
    assert tally.judge(MAX_MESSAGE_BYTES + 500_000, 0.0) == ""
    link.called()
    link.heard(1, MAX_MESSAGE_BYTES)
    assert tally.judge(MAX_MESSAGE_BYTES + 600_000, 0.0) == ""
    assert tally.debt == 0


def test_slow_excess_is_forgiven() -> None:
    """Unexplained bytes that arrive slowly, such as pings and flow control, are forgiven."""
    tally = found(Link())
    each = connections.FORGIVEN_BYTES
    assert not any(tally.judge(each * second, 1.0) for second in range(1, 1000))
    enough = connections.STRANGER_BYTES // each + 2
    assert any(tally.judge(each * (1000 + 2 * n), 1.0) for n in range(enough))


def test_answers_without_a_call_are_bounded() -> None:
    """Answers to frames are bounded only for a connection without calls."""
    link = Link()
    tally = found(link)
    most = connections.STRANGER_ANSWERS
    assert tally.judge(0, 1.0, most) == ""
    assert tally.judge(0, 1.0, most + 1) == ANSWERS
    link.called()
    assert tally.judge(0, 1.0, 1_000 * most) == ""


def test_cancelled_calls_are_bounded() -> None:
    """Occasional cancelled calls are forgiven; hundreds at once end the connection."""
    link = Link()
    tally = found(link)
    for _ in range(100):
        link.resets += connections.FORGIVEN_RESETS
        assert tally.judge(0, 1.0) == ""
    link.resets += connections.RESETS + connections.FORGIVEN_RESETS + 1
    assert tally.judge(0, 1.0) == RESETS


class Context:
    """A call of a peer that has only an address."""

    def peer(self) -> str:
        """The address in gRPC's form."""
        return "ipv4:127.0.0.1:5000"


@pytest.mark.parametrize(("cancelled", "resets"), [(True, 1), (False, 0)])
async def test_only_cancelled_calls_are_counted_as_such(cancelled: bool, resets: int) -> None:
    """Only calls cancelled by the peer count as cancelled."""
    known, bounds, answered = Connections(PeerBounds()), PeerBounds(), asyncio.Event()

    async def serve(request: bytes, context: Any) -> bytes:
        await answered.wait()
        return request

    call_guard = CallGuard(Access(), known, bounds, frozenset())
    handler = call_guard.guarded(grpc.unary_unary_rpc_method_handler(serve), "/service/method")
    call = asyncio.create_task(handler.unary_unary(b"", Context()))
    await asyncio.sleep(0)
    if cancelled:
        call.cancel()
    answered.set()
    await asyncio.gather(call, return_exceptions=True)
    link = known.link(Context().peer())
    assert (link.calls, link.open, link.resets) == (1, 0, resets)


async def test_an_incomplete_request_ends_its_call() -> None:
    """A call whose first message is incomplete after its time ends with the reason, and is forgotten."""
    bounds, told = PeerBounds(first_message=0.0), []

    class Waiting(Context):
        """A call that records its end."""

        async def abort_with_status(self, status: grpc.Status) -> None:
            """Record the status, like gRPC."""
            told.append((status.code, status.details))
            raise grpc.aio.AbortError

    async def half() -> AsyncIterator[bytes]:
        await asyncio.get_running_loop().create_future()
        yield b""

    async def serve(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        async for request in requests:
            yield request

    known = Connections(bounds)
    guard = CallGuard(Access(), known, bounds, frozenset())
    handler = guard.guarded(grpc.stream_stream_rpc_method_handler(serve), "/service/method")
    with pytest.raises(grpc.aio.AbortError):
        await anext(handler.stream_stream(half(), Waiting()))
    assert told == [(grpc.StatusCode.UNAVAILABLE, "no whole message came for 0 s after the call was opened")]
    assert known.link(Waiting().peer()).open == 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ipv4:127.0.0.1:5000", "ipv6:%5B::ffff:127.0.0.1%5D:5000"),
        ("ipv6:[fe80::1%25eth0]:5000", "ipv6:%5Bfe80::1%5D:5000"),
    ],
)
def test_connection_is_found_by_any_form_of_its_address(one: str, other: str) -> None:
    """Addresses of gRPC and of the kernel match, although they are written differently."""
    known = Connections(PeerBounds())
    assert known.link(one) is known.link(other)
    assert known.link(one) is not known.link(one + "1")


def test_a_cut_drops_received_bytes_and_then_ends_writing() -> None:
    """The first cut drops received bytes; a second one, if needed, ends writing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        peer = socket.create_connection(listener.getsockname())
        served, address = listener.accept()
    with peer, served:
        item = CountedConnection(address, Link())
        peer.sendall(bytes(65536))
        assert served.recv(1, socket.MSG_PEEK)
        item.cut(served, "a reason")
        assert served.recv(65536) == b""
        served.sendall(b"answer")
        item.cut(served, "a reason")
        with pytest.raises(BrokenPipeError):
            served.sendall(b"answer")
