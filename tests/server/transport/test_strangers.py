"""An unauthenticated peer can cause only little work."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from itertools import pairwise
from typing import Any

import grpc
import licorne_transport as http2
import pytest

from licorne_server.transport.loop import unfinished
from licorne_server.transport.loop.call import Call
from licorne_server.transport.loop.connection import Connection
from licorne_server.transport.loop.rounds import CALL_WORK, ROUND_WORK, Rounds
from licorne_server.transport.loop.streams import Streams
from licorne_server.transport.loop.unfinished import Unfinished
from support.peers.networks import DATA, END_HEADERS, HEADERS, RESET, frame, header_block
from support.peers.raw_grpc import GREETING, calling, data, frames_to, literal, opening, packed, serving
from support.peers.shim import eventually

pytestmark = pytest.mark.transport

CODE = grpc.StatusCode
MOST = 4 * 1024 * 1024
STREAMS = 16
AGAIN = b"\xbe"
"""A reference to the newest header in HPACK's table."""


class Begun:
    """Accepts calls, and processes none."""

    max_message = MOST
    unfinished = Unfinished(bool)

    def __init__(self) -> None:
        """Start without calls."""
        self.calls: list[Call] = []

    def begin(self, call: Call, seconds: float | None) -> None:
        """Keep the call."""
        self.calls.append(call)


def indexed(name: str, value: bytes) -> bytes:
    """A header that is added to HPACK's table."""
    head = b"\x40" + bytes([len(name)]) + name.encode()
    rest = len(value) - 127
    return head + b"\x7f" + bytes([rest % 128 | 128, rest // 128]) + value


def blocks(name: str, value: bytes, times: int) -> bytes:
    """The maximum number of calls of a connection, each with a repeated header, which is sent only once."""
    raw = b""
    for number in range(STREAMS):
        more = AGAIN * times if number else indexed(name, value) + AGAIN * (times - 1)
        raw += frame(HEADERS, header_block("/a/b") + more, stream=2 * number + 1, flags=END_HEADERS)
    return raw


@pytest.mark.parametrize(
    ("name", "value", "times"),
    [
        pytest.param("k-bin", b"AA," * 1310 + b"AA", 4, id="many values in one header"),
        pytest.param("k-bin", b"," * 3_900, 4, id="empty values"),
        pytest.param("k-bin", b"AA" * 70, 80, id="many binary headers"),
        pytest.param("k", b"v" * 128, 90, id="many headers"),
    ],
)
def test_calls_with_too_many_headers_are_refused_undecoded(
    monkeypatch: pytest.MonkeyPatch, name: str, value: bytes, times: int
) -> None:
    """Calls with more values than allowed are refused; no value is handed over or decoded."""
    begun = Begun()
    wire = http2.Connection(STREAMS, MOST)
    streams = Streams(begun, wire, lambda: None)
    streams.carry_out(wire.feed(GREETING))
    refused: list[grpc.Status] = []
    monkeypatch.setattr(Call, "end", lambda call, status: refused.append(status))
    monkeypatch.setattr("licorne_server.transport.loop.metadata.base64", None)
    events = wire.feed(blocks(name, value, times))
    while wire.has_more:
        events += wire.feed(b"")
    values = times * (value.count(b",") + 1) + 2
    assert [payload[2:] for _, kind, payload in events if kind == http2.OPENED] == [([], values)] * STREAMS
    streams.carry_out(events)
    assert not begun.calls
    text = f"the headers have {values} values, and at most 64 are taken"
    assert {(status.code, status.details) for status in refused} == {(CODE.RESOURCE_EXHAUSTED, text)}


async def test_the_number_of_headers_is_bounded() -> None:
    """A client with 50 values gets its answer, and one with 70 an error with the maximum."""

    async def count(request: bytes, context: Any) -> bytes:
        return b"%d" % sum(key == "k-bin" for key, _ in context.invocation_metadata())

    handlers: dict[str, Any] = {"Count": grpc.unary_unary_rpc_method_handler(count)}
    async with serving(handlers) as (_, address), calling(address) as channel:
        method = channel.unary_unary("/test/Count")
        assert await method(b"", metadata=[("k-bin", b"value")] * 50) == b"50"
        with pytest.raises(grpc.aio.AioRpcError, match="and at most 64 are taken") as found:
            await method(b"", metadata=[("k-bin", b"value")] * 70)
        assert found.value.code() is CODE.RESOURCE_EXHAUSTED


async def test_metadata_is_decoded_on_access() -> None:
    """A violation of gRPC's rules ends the call of a handler that reads it, and no other."""

    async def asks(request: bytes, context: Any) -> bytes:
        return b"%d" % len(context.invocation_metadata())

    async def answers(request: bytes, context: Any) -> bytes:
        return request

    handlers: dict[str, Any] = {
        "Asks": grpc.unary_unary_rpc_method_handler(asks),
        "Answers": grpc.unary_unary_rpc_method_handler(answers),
    }
    async with serving(handlers) as (_, address), frames_to(address) as frames:
        for stream, method, code in ((1, "Answers", CODE.OK), (3, "Asks", CODE.INTERNAL)):
            header = literal("k-bin", b"\xff\xfe")
            frames.send(opening(stream, method, more=header), data(stream, packed(b""), ends=True))
            [*_, end] = await frames.until(lambda got: got.ends)
            assert (end.stream, end.has_status(code)) == (stream, True)


def test_a_large_message_in_small_frames_is_read() -> None:
    """A slow client that cuts a message into far more small frames than may wait loses nothing."""
    connection = http2.Connection(STREAMS, MOST)
    connection.feed(GREETING + opening(1, "Any"))
    body = packed(bytes(300 * 1024))
    size, found = 4, []
    small = b"".join(frame(DATA, body[at : at + size], stream=1) for at in range(0, len(body), size))
    for at in range(0, len(small), 64 * 1024):
        found += connection.feed(small[at : at + 64 * 1024])
        connection.take()
    assert [(kind, payload) for _, kind, payload in found] == [(http2.MESSAGES, [body[5:]])]
    assert not connection.closed


async def test_the_work_of_a_read_is_bounded() -> None:
    """Many small frames and calls on many connections in one read are spread over rounds of the loop."""
    work: list[int] = []
    rounds: list[int] = []

    class Counting(Rounds):
        def _begin(self) -> None:
            rounds.append(sum(work))
            super()._begin()

    go_on = Connection.go_on

    def counted(connection: Connection) -> int:
        work.append(go_on(connection))
        return work[-1]

    async with serving({}) as (transport, address), AsyncExitStack() as stack:
        transport.rounds = Counting()
        every = [await stack.enter_async_context(frames_to(address)) for _ in range(8)]
        for frames in every:
            await frames.dealt_with()
        stack.enter_context(pytest.MonkeyPatch.context()).setattr(Connection, "go_on", counted)
        calls = b"".join(opening(stream, "None", ends=True) for stream in range(3, 3 + 2 * STREAMS - 2, 2))
        for frames in every:
            begun = packed(bytes(MOST // 2))[:5]
            frames.send(opening(1, "None"), data(1, begun), data(1, b"x") * 20_000, calls)
        for frames in every:
            await frames.until(lambda got: got.ends and got.stream == 2 * STREAMS - 1)
    assert max(work) <= ROUND_WORK + 4 * CALL_WORK
    assert max(after - before for before, after in pairwise([0, *rounds, sum(work)])) < 2 * ROUND_WORK


class Reading:
    """A method that reads its request, and one that answers at once."""

    def __init__(self) -> None:
        """Start with nothing read."""
        self.handlers: dict[str, Any] = {"Echo": grpc.unary_unary_rpc_method_handler(self.echo)}

    async def echo(self, request: bytes, context: Any) -> bytes:
        """Return the request."""
        return request


async def test_unfinished_messages_of_strangers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest calls with incomplete messages end for newer ones, and complete messages are served."""
    each = 100_000
    monkeypatch.setattr(unfinished, "EACH", each)
    size = each // 4
    half = data(1, packed(bytes(2 * size))[:size])
    async with serving(Reading().handlers) as (transport, address), AsyncExitStack() as stack:
        every = [await stack.enter_async_context(frames_to(address)) for _ in range(7)]
        for frames in every:
            frames.send(opening(1, "Echo"), half)
            await frames.dealt_with()
            assert transport.unfinished.total <= each
        for frames in every[:3]:
            [*_, end] = await frames.until(lambda got: got.ends)
            assert end.has_status(CODE.RESOURCE_EXHAUSTED)
        async with calling(address) as channel:
            assert await channel.unary_unary("/test/Echo")(b"on") == b"on"
        rest = packed(bytes(2 * size))[size:]
        for frames in every[3:]:
            frames.send(data(1, rest, ends=True))
            [*_, end] = await frames.until(lambda got: got.ends)
            assert end.has_status(CODE.OK)
        assert transport.unfinished.total == 0


@pytest.mark.parametrize("how", ["reset", "loss", "deadline"])
async def test_unfinished_messages_are_counted_until_they_end(how: str) -> None:
    """However a call ends, its unfinished message does not count any more."""
    more = literal("grpc-timeout", b"20m") if how == "deadline" else b""
    async with serving(Reading().handlers) as (transport, address):
        async with frames_to(address) as frames:
            frames.send(opening(1, "Echo", more=more), data(1, packed(bytes(9_000))[:4_000]))
            if how == "deadline":
                await frames.until(lambda got: got.ends)
            else:
                await frames.dealt_with()
                assert transport.unfinished.total == 4_000
            if how == "reset":
                frames.send(frame(RESET, (8).to_bytes(4), stream=1))
            if how != "loss":
                await eventually(lambda: transport.unfinished.total == 0)
        await eventually(lambda: transport.unfinished.total == 0)


class Certified:
    """The part of a TLS connection with the names of the peer's certificate, if any."""

    def __init__(self, *names: str) -> None:
        """Use these DNS names."""
        self._names = names

    def getpeercert(self) -> dict[str, Any]:
        """The certificate."""
        return {"subjectAltName": tuple(("DNS", name) for name in self._names)}


@pytest.mark.parametrize("names", [(), ("rm.example",)])
def test_a_peer_with_a_certificate_is_no_stranger(names: tuple[str, ...]) -> None:
    """A peer with a certificate has turns apart from strangers, and its data does not count."""
    begun = Begun()
    begun.unfinished = Unfinished(bool)
    wire = http2.Connection(STREAMS, MOST)
    streams = Streams(begun, wire, lambda: None)
    secure: Any = Certified(*names)
    streams.meet("ipv4:10.0.0.1:5000", secure)
    assert streams.line == (bool(names), "10.0.0.1")
    streams.carry_out(wire.feed(GREETING + opening(1, "Any") + data(1, packed(bytes(99))[:50])))
    streams.count_unfinished()
    assert begun.unfinished.total == (0 if names else 50)
    # A processed message does not identify the peer; an authenticated caller does.
    streams.consumed(1, 1, 1)
    assert streams.line == (bool(names), "10.0.0.1")
    begun.calls[0].authenticated()
    assert streams.line == (True, "10.0.0.1")


async def test_a_unary_call_keeps_one_message_only() -> None:
    """After the one message of a method no data is kept, complete or not; its answers are still sent."""
    goes_on = asyncio.Event()

    async def watch(request: bytes, context: Any) -> AsyncIterator[bytes]:
        yield request
        await goes_on.wait()
        yield b"end"

    handlers: dict[str, Any] = {"Watch": grpc.unary_stream_rpc_method_handler(watch)}
    async with serving(handlers) as (transport, address), frames_to(address) as frames:
        frames.send(opening(1, "Watch"), data(1, packed(b"one")))
        await frames.until(lambda got: got.kind == DATA)
        frames.send(data(1, packed(b"two")), data(1, packed(bytes(100_000))[:50_000]))
        await frames.dealt_with()
        [connection] = transport._connections
        [call] = connection.streams._open.values()
        assert (transport.unfinished.total, list(call._messages)) == (0, [])
        assert connection._http2.unfinished(True) == []
        goes_on.set()
        found = await frames.until(lambda got: got.ends)
        assert [got.payload for got in found if got.kind == DATA] == [packed(b"end")]


@pytest.mark.parametrize("is_known", [False, True])
def test_later_messages_of_strangers_count(is_known: bool) -> None:
    """Of a connection without an authenticated caller every incomplete message counts."""
    begun = Begun()
    begun.unfinished = Unfinished(bool)
    wire = http2.Connection(STREAMS, MOST)
    streams = Streams(begun, wire, lambda: None)
    streams.meet("ipv4:10.0.0.1:5000", None)
    streams.carry_out(
        wire.feed(GREETING + opening(1, "Any") + data(1, packed(b"one") + packed(bytes(99))[:50]))
    )
    if is_known:
        begun.calls[0].authenticated()
    streams.count_unfinished()
    assert begun.unfinished.total == (0 if is_known else 50)
    begun.unfinished.count(streams.host, streams, 0)
    streams.drop_unfinished("so")
    assert begun.calls[0].is_over is not is_known


def test_costly_headers_are_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an admitted call no more values are decoded than allowed, on access."""
    decoded: list[str] = []

    def decode(value: str, *, validate: bool) -> bytes:
        decoded.append(value)
        return b""

    monkeypatch.setattr(base64, "b64decode", decode)
    begun = Begun()
    wire = http2.Connection(STREAMS, MOST)
    streams = Streams(begun, wire, lambda: None)
    most = http2.MOST_VALUES - 2
    streams.carry_out(wire.feed(GREETING + blocks("k-bin", b"AA," * (most - 1) + b"AA", 1)))
    while wire.has_more:
        streams.carry_out(wire.feed(b""))
    assert (len(begun.calls), decoded) == (STREAMS, [])
    for call in begun.calls * 2:
        assert len(call.invocation_metadata()) == most
    assert len(decoded) == STREAMS * most
