"""Lifetimes of connections and calls, and their complete removal."""

import asyncio
import struct
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import grpc
import pytest

from support.patience import PATIENCE
from support.peers.networks import DATA, GOAWAY, PING, RESET, WINDOW, RawHttp2, frame, raw_connection
from support.peers.raw_grpc import GREETING, calling, data, frames_to, literal, opening, packed, serving
from support.peers.shim import eventually
from support.peers.tls import https, tls

pytestmark = pytest.mark.transport

CODE = grpc.StatusCode
CANCEL = (8).to_bytes(4)


class Calls:
    """Methods, some of which wait, and weak references to their calls."""

    def __init__(self) -> None:
        """Start without calls."""
        self.goes_on = asyncio.Event()
        self.begun = asyncio.Event()
        self.seen: list[weakref.ref[Any]] = []
        self.handlers: dict[str, Any] = {
            "Echo": grpc.unary_unary_rpc_method_handler(self.echo),
            "Wait": grpc.unary_unary_rpc_method_handler(self.wait),
            "Read": grpc.stream_stream_rpc_method_handler(self.read),
            "Many": grpc.unary_stream_rpc_method_handler(self.many),
            "Abort": grpc.stream_stream_rpc_method_handler(self.abort),
            "Fail": grpc.stream_stream_rpc_method_handler(self.fail),
            "Stubborn": grpc.stream_stream_rpc_method_handler(self.stubborn),
        }

    def _see(self, context: Any) -> None:
        self.begun.set()
        self.seen += [weakref.ref(context), weakref.ref(context._transport)]

    async def echo(self, request: bytes, context: Any) -> bytes:
        """Answer at once."""
        self._see(context)
        return request

    async def wait(self, request: bytes, context: Any) -> bytes:
        """Answer when released."""
        self._see(context)
        await self.goes_on.wait()
        return request

    async def read(self, _: Any, context: Any) -> None:
        """Read one message."""
        self._see(context)
        await context.read()

    async def many(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        """Answer once, and wait."""
        self._see(context)
        yield request
        await self.goes_on.wait()

    async def abort(self, _: Any, context: Any) -> None:
        """End with a status, in the middle of an error."""
        self._see(context)
        try:
            raise KeyError(context)
        except KeyError:
            await context.abort(CODE.ABORTED, "so")

    async def fail(self, _: Any, context: Any) -> None:
        """End with an error."""
        self._see(context)
        raise KeyError(context)

    async def stubborn(self, _: Any, context: Any) -> None:
        """Never end."""
        self._see(context)
        while not self.goes_on.is_set():
            with suppress(asyncio.CancelledError):
                await self.goes_on.wait()


async def closed(connection: RawHttp2) -> list[int]:
    """The kinds of frames of a connection that the server closes."""
    await connection.ended()
    return connection.kinds


async def test_a_peer_that_answers_pings_is_kept() -> None:
    """A silent peer is pinged repeatedly, and kept as long as it answers."""
    async with serving({}, keepalive_time_ms=50) as (_, address), raw_connection(address) as connection:
        await eventually(lambda: connection.kinds.count(PING) >= 3)
        assert not connection.closed.is_set()


async def test_a_peer_that_does_not_answer_pings_is_closed() -> None:
    """A peer that is silent and does not answer is closed, and its call cancelled."""
    calls = Calls()
    async with (
        serving(calls.handlers, keepalive_time_ms=50, keepalive_timeout_ms=50) as (_, address),
        frames_to(address) as frames,
    ):
        frames.send(opening(1, "Stubborn"))
        await frames.to_the_end()
        calls.goes_on.set()


async def test_idle_connections_are_closed() -> None:
    """A connection without calls gets GOAWAY, and one with a call gets it after the call."""
    calls = Calls()
    async with serving(calls.handlers, max_connection_idle_ms=300) as (_, address):
        busy = await RawHttp2.open(address)
        # In one message, because the connection would be idle between two.
        await busy.send(GREETING + opening(1, "Wait") + data(1, packed(b"")))
        async with raw_connection(address) as idle:
            assert GOAWAY in await closed(idle)
        await busy.dealt_with()
        assert GOAWAY not in busy.kinds
        calls.goes_on.set()
        assert GOAWAY in await closed(busy)
        await busy.close()


async def test_an_idle_peer_that_ignores_goaway_is_closed() -> None:
    """A peer without calls that sends data, but does not answer pings, is closed too."""
    async with (
        serving({}, max_connection_idle_ms=50, keepalive_timeout_ms=50) as (_, address),
        frames_to(address) as frames,
    ):

        async def talk() -> None:
            while True:
                frames.send(frame(PING, b"is there "[:8]))
                await asyncio.sleep(0.01)

        talking = asyncio.create_task(talk())
        await frames.to_the_end()
        talking.cancel()


async def test_calls_under_way_end_within_the_grace() -> None:
    """A stop with grace lets calls end, with all of a large answer; no call begins meanwhile."""
    calls = Calls()
    large = bytes(4 * 1024 * 1024 - 1)
    async with serving(calls.handlers) as (transport, address), calling(address) as channel:
        call = channel.unary_unary("/test/Wait")(large)
        await calls.begun.wait()
        async with frames_to(address) as frames:
            # This client ignores that the server refuses new calls.
            frames.send(opening(1, "Wait"), data(1, packed(b""), ends=True))
            await frames.dealt_with()
            stopping = asyncio.create_task(transport.stop(PATIENCE))
            await frames.until(lambda got: got.kind == GOAWAY)
            frames.send(opening(3, "Echo"), data(3, packed(b""), ends=True))
            [*_, refused] = await frames.until(lambda got: got.ends)
            assert (refused.stream, refused.has_status(CODE.UNAVAILABLE)) == (3, True)
            with pytest.raises(OSError, match="Connection refused"):
                await frames_to(address).__aenter__()
            calls.goes_on.set()
            assert await call == large
            await stopping
            assert [got.stream for got in await frames.to_the_end() if got.ends] == [1]


@pytest.mark.parametrize("is_secure", [False, True], ids=["plain", "tls"])
async def test_a_peer_that_sends_to_the_end_gets_the_whole_answer(is_secure: bool) -> None:
    """Data that a peer sends while it receives a large last answer does not cut the answer."""
    calls = Calls()
    request = packed(bytes(3 * 1024 * 1024))
    served, secure = (tls(), https("rm")) if is_secure else (None, None)
    if secure is not None:
        secure.set_alpn_protocols(["h2"])
    async with (
        serving(calls.handlers, tls=served) as (transport, address),
        frames_to(address, struct.pack(">HI", 4, 2**31 - 1), secure, 2**16) as frames,
    ):
        # Small pieces, which the server takes as it has room for them.
        frames.send(frame(WINDOW, (2**30).to_bytes(4)), opening(1, "Wait"))
        for at in range(0, len(request), 2**15):
            await frames.dealt_with()
            frames.send(data(1, request[at : at + 2**15], ends=at + 2**15 >= len(request)))
        await calls.begun.wait()
        stopping = asyncio.create_task(transport.stop(PATIENCE))
        await frames.until(lambda got: got.kind == GOAWAY)
        calls.goes_on.set()
        got = 0
        with suppress(asyncio.IncompleteReadError):
            async with asyncio.timeout(PATIENCE):
                while got < len(request):
                    [*_, one] = await frames.until(lambda got: got.kind == DATA)
                    got += len(one.payload)
                    frames.send(frame(WINDOW, (1).to_bytes(4)))
                    # The server reads the data, or closes the connection.
                    await asyncio.sleep(0)
        assert got == len(request)
        [status] = [each for each in await frames.to_the_end() if each.ends]
        assert status.stream == 1
        frames.close()
        await stopping


@pytest.mark.parametrize("more", [0, 8 * 1024 * 1024], ids=["silent", "flooding"])
async def test_a_peer_that_keeps_an_ended_connection_is_closed(more: int) -> None:
    """A peer has the time of an answer to a ping, and less if it keeps sending."""
    patience = 3_600_000 if more else 50
    async with (
        serving({}, keepalive_timeout_ms=patience, keepalive_time_ms=50) as (transport, address),
        frames_to(address) as frames,
    ):
        frames.send(frame(WINDOW, b"none"), bytes(more))
        await frames.to_the_end()
        await eventually(lambda: not transport._connections)


@pytest.mark.parametrize("grace", [None, 0.05])
async def test_a_stop_cancels_calls_that_do_not_end(grace: float | None) -> None:
    """Without grace, or after it, calls end with a status; one that does not end delays no other."""
    calls = Calls()
    async with serving(calls.handlers) as (transport, address), calling(address) as channel:
        call = channel.unary_unary("/test/Wait")(b"")
        stubborn = channel.stream_stream("/test/Stubborn")()
        await stubborn.write(b"")
        await eventually(lambda: len(calls.seen) >= 4)
        async with asyncio.timeout(PATIENCE):
            await transport.stop(grace)
        for ended in (call, stubborn):
            assert (await ended.code(), await ended.details()) == (CODE.UNAVAILABLE, "the server has stopped")
        calls.goes_on.set()


async def test_connections_are_bounded() -> None:
    """One connection too many is closed at once; with TLS too, where handshakes count."""
    async with (
        serving({}, max_allowed_incoming_connections=1) as (_, address),
        raw_connection(address) as one,
    ):
        async with raw_connection(address) as other:
            await other.ended()
        await one.dealt_with()
        assert not one.closed.is_set()
    async with serving({}, tls=tls(), max_allowed_incoming_connections=1) as (_, address):
        first = await RawHttp2.open(address)
        second = await RawHttp2.open(address)
        await second.ended()
        assert not first.closed.is_set()
        for connection in (first, second):
            await connection.close()


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\x16\x03\x01" + bytes(300), b"PRI"])
async def test_an_invalid_beginning_is_closed(said: bytes) -> None:
    """A connection that does not begin like HTTP/2, or not in time, is closed."""
    async with serving({}, server_handshake_timeout_ms=50) as (_, address):
        connection = await RawHttp2.open(address)
        await connection.send(said)
        await connection.ended()
        await connection.close()


def _reset(stream: int) -> bytes:
    return frame(RESET, CANCEL, stream=stream)


TIMEOUT = literal("grpc-timeout", b"20m")
ENDS: dict[str, Callable[[], tuple[bytes, bytes]]] = {
    "answer": lambda: (opening(1, "Echo") + data(1, packed(b""), ends=True), b""),
    "answers": lambda: (opening(1, "Many") + data(1, packed(b""), ends=True), _reset(1)),
    "abort": lambda: (opening(1, "Abort"), b""),
    "error": lambda: (opening(1, "Fail", ends=True), b""),
    "reset": lambda: (opening(1, "Wait") + data(1, packed(b"")), _reset(1)),
    "reset before it began": lambda: (opening(3, "Wait") + _reset(3) + opening(5, "Abort"), b""),
    "deadline": lambda: (opening(1, "Wait", more=TIMEOUT) + data(1, packed(b"")), b""),
    "garbage": lambda: (opening(1, "Read"), data(1, packed(b"", flag=7))),
    "loss": lambda: (opening(1, "Wait") + data(1, packed(b"")), b"loss"),
}


@pytest.mark.usefixtures("collector_off")
@pytest.mark.parametrize("how", ENDS)
async def test_an_ended_call_is_freed(how: str) -> None:
    """However a call ends, it is freed without the garbage collector, and then its connection is."""
    calls = Calls()
    begin, end = ENDS[how]()
    async with serving(calls.handlers) as (_, address):
        async with frames_to(address) as frames:
            frames.send(begin)
            await calls.begun.wait()
            frames.send(b"" if end == b"loss" else end)
            if end != b"loss":
                await eventually(lambda: calls.seen[0]() is None)
                await frames.dealt_with()
        await eventually(lambda: all(reference() is None for reference in calls.seen))
