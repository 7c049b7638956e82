"""Calls over connections of the loop: their kinds, ends, and input."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from licorne_server.process.settings import Address
from licorne_server.transport.interface import Status
from support.peers.networks import END_STREAM, RESET, frame
from support.peers.raw_grpc import calling, data, frames_to, literal, opening, packed, serving

pytestmark = pytest.mark.transport

MIB = 1024 * 1024
CODE = grpc.StatusCode


async def echo(request: bytes, context: Any) -> bytes:
    """A unary call."""
    return request


async def parts(request: bytes, context: Any) -> AsyncIterator[bytes]:
    """One message in, and a message out for each of its bytes."""
    for byte in request:
        yield bytes([byte])


async def joined(requests: AsyncIterator[bytes], context: Any) -> bytes:
    """Many messages in, and one out."""
    return b"".join([request async for request in requests])


async def answers(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    """Return each message at once."""
    async for request in requests:
        yield request


async def by_hand(_: Any, context: Any) -> None:
    """Return each message at once, through the context."""
    await context.send_initial_metadata((("first", "1"),))
    while (message := await context.read()) is not grpc.aio.EOF:
        await context.write(message)


KINDS: dict[str, Any] = {
    "Echo": grpc.unary_unary_rpc_method_handler(echo),
    "Parts": grpc.unary_stream_rpc_method_handler(parts),
    "Joined": grpc.stream_unary_rpc_method_handler(joined),
    "Answers": grpc.stream_stream_rpc_method_handler(answers),
    "ByHand": grpc.stream_stream_rpc_method_handler(by_hand),
}


class Hanging:
    """A call that never ends by itself, and records its end."""

    def __init__(self) -> None:
        """Start without a call."""
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.handlers: dict[str, Any] = {"Hang": grpc.stream_stream_rpc_method_handler(self.serve)}

    async def serve(self, _: Any, context: Any) -> None:
        """Wait for ever."""
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


def ending(end: Callable[[Any], Any]) -> dict[str, Any]:
    """A method that ends in the given way."""

    async def serve(_: Any, context: Any) -> None:
        await end(context)

    return {"End": grpc.stream_stream_rpc_method_handler(serve)}


async def test_all_kinds_of_calls_keep_the_order_of_messages() -> None:
    """Calls with one message or many in each direction keep the order of messages of up to 4 MiB."""
    numbers = [b"%d" % number for number in range(2_000)]
    large = bytes(4 * MIB - 1)
    async with serving(KINDS) as (_, address), calling(address) as channel:
        assert await channel.unary_unary("/test/Echo")(large) == large
        assert [part async for part in channel.unary_stream("/test/Parts")(b"abc")] == [b"a", b"b", b"c"]
        assert await channel.stream_unary("/test/Joined")(iter(numbers)) == b"".join(numbers)
        for method in ("Answers", "ByHand"):
            call = channel.stream_stream(f"/test/{method}")(iter([*numbers, large, b""]))
            assert [answer async for answer in call] == [*numbers, large, b""]
            assert (await call.code(), await call.details()) == (CODE.OK, "")
            assert (("first", "1") in tuple(await call.initial_metadata())) is (method == "ByHand")


async def test_a_status_arrives_with_its_text_and_metadata() -> None:
    """A status has its text in any script, and its metadata; unknown errors are sent as a type."""

    async def abort(context: Any) -> None:
        await context.abort(CODE.DATA_LOSS, " größer 100 % ", (("k", "v"), ("k-bin", b"\0\xff")))

    async def fail(context: Any) -> None:
        raise KeyError("secret")

    async def no_header(context: Any) -> None:
        await context.abort_with_status(Status(CODE.ABORTED, "", (("k", "two\nlines"),)))

    for end, code, text in (
        (abort, CODE.DATA_LOSS, " größer 100 % "),
        (fail, CODE.UNKNOWN, "Unexpected <class 'KeyError'>"),
        (no_header, CODE.INTERNAL, "the status has metadata that is not valid in HTTP/2"),
    ):
        async with serving(ending(end)) as (_, address), calling(address) as channel:
            call = channel.stream_stream("/test/End")(iter([b"request"]))
            with pytest.raises(grpc.aio.AioRpcError):
                await call.read()
            assert (await call.code(), await call.details()) == (code, text)
            if end is abort:
                assert set(await call.trailing_metadata()) >= {("k", "v"), ("k-bin", b"\0\xff")}


async def test_unknown_method_is_unimplemented() -> None:
    """A client gets the status for an unknown method, even if it writes at once, and continues."""
    async with serving(KINDS) as (_, address), calling(address) as channel:
        call = channel.stream_stream("/test/None")()
        await call.write(b"at once")
        assert await call.code() is CODE.UNIMPLEMENTED
        with pytest.raises(grpc.aio.AioRpcError, match="Method not found!"):
            await channel.unary_unary("/other/None")(b"")
        assert await channel.unary_unary("/test/Echo")(b"on") == b"on"


async def test_a_call_ends_at_its_deadline() -> None:
    """A handler that hangs beyond the deadline is cancelled, and its client gets the status."""
    hanging = Hanging()
    async with serving(hanging.handlers) as (_, address), frames_to(address) as frames:
        # A client of the library would end the call itself.
        frames.send(opening(1, "Hang", more=literal("grpc-timeout", b"20m")))
        [*_, end] = await frames.until(lambda got: got.ends)
        assert end.has_status(CODE.DEADLINE_EXCEEDED)
        await hanging.cancelled.wait()


async def test_an_invalid_timeout_ends_its_call() -> None:
    """A call whose timeout violates the rules of gRPC ends with INTERNAL; the connection continues."""
    async with serving(KINDS) as (_, address), frames_to(address) as frames:
        frames.send(opening(1, "Echo", more=literal("grpc-timeout", b"soon")))
        [*_, end] = await frames.until(lambda got: got.ends)
        assert end.has_status(CODE.INTERNAL)
        frames.send(opening(3, "Echo"), data(3, packed(b""), ends=True))
        assert (await frames.until(lambda got: got.ends))[-1].stream == 3


@pytest.mark.parametrize("loses", [False, True])
async def test_a_client_that_leaves_cancels_its_calls(loses: bool) -> None:
    """A call that its client cancels, or whose connection is lost, is cancelled at the server."""
    hanging = Hanging()
    async with serving(hanging.handlers) as (_, address), frames_to(address) as frames:
        frames.send(opening(1, "Hang"))
        await hanging.begun.wait()
        if loses:
            frames.close()
        else:
            frames.send(frame(RESET, (8).to_bytes(4), stream=1))
        await hanging.cancelled.wait()


async def test_a_generator_is_closed_with_its_call() -> None:
    """A suspended generator is closed when its client disconnects, not when memory is freed."""
    begun, closed = asyncio.Event(), asyncio.Event()

    async def endless(request: bytes, context: Any) -> AsyncIterator[bytes]:
        try:
            while True:
                begun.set()
                yield bytes(MIB)
        finally:
            closed.set()

    handlers: dict[str, Any] = {"Endless": grpc.unary_stream_rpc_method_handler(endless)}
    async with serving(handlers) as (_, address), frames_to(address) as frames:
        frames.send(opening(1, "Endless"), data(1, packed(b""), ends=True))
        await begun.wait()
        await frames.dealt_with()
        frames.send(frame(RESET, (8).to_bytes(4), stream=1))
        await closed.wait()


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
async def test_compressed_messages_are_read(compression: grpc.Compression) -> None:
    """A client may compress; a too large message is refused, compressed or not, and others continue."""
    async with (
        serving(KINDS, max_receive_message_length=MIB) as (_, address),
        calling(address) as channel,
    ):
        unary, many = channel.unary_unary("/test/Echo"), channel.stream_unary("/test/Joined")
        other = channel.stream_stream("/test/Answers")()
        fits = b"a" * MIB
        assert await unary(fits, compression=compression) == fits
        assert await many(iter([b"a" * 9999, b"", b"b"]), compression=compression) == b"a" * 9999 + b"b"
        for how in (compression, grpc.Compression.NoCompression):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await unary(fits + b"a", compression=how)
            assert refused.value.code() is CODE.RESOURCE_EXHAUSTED
            assert refused.value.details() == f"Received message larger than max ({MIB + 1} vs. {MIB})"
        await other.write(b"on")
        assert await other.read() == b"on"
        await other.done_writing()


async def test_an_invalid_message_ends_its_call() -> None:
    """A call with an invalid message ends with a status of its own; the connection continues."""
    unknown = literal("grpc-encoding", b"br")
    cases = (
        (b"", packed(b"", flag=7), CODE.INTERNAL),
        (b"", packed(b"cut off")[:-1], CODE.INTERNAL),
        (b"", packed(b"")[:3], CODE.INTERNAL),
        (b"", b"", CODE.INTERNAL),
        (b"", packed(b"x", flag=1), CODE.UNIMPLEMENTED),
        (unknown, packed(b"x", flag=1), CODE.UNIMPLEMENTED),
        (literal("grpc-encoding", b"gzip"), packed(b"x", flag=1), CODE.UNIMPLEMENTED),
        (b"", b"\0\xff\xff\xff\xff", CODE.RESOURCE_EXHAUSTED),
    )
    async with serving(KINDS) as (_, address):
        for more, body, code in cases:
            async with frames_to(address) as frames:
                frames.send(opening(1, "Echo", more=more), data(1, body, ends=True))
                [*_, end] = await frames.until(lambda got: got.ends)
                assert end.has_status(code), (body, code)
                frames.send(opening(3, "Echo", more=unknown), data(3, packed(b"fine"), ends=True))
                answer = await frames.until(lambda got: got.ends and got.stream == 3)
                assert packed(b"fine") in [got.payload for got in answer]


async def test_other_requests_are_refused() -> None:
    """A request that is no gRPC call is reset; the connection continues."""
    async with serving(KINDS) as (_, address), frames_to(address) as frames:
        good = opening(1, "Echo")
        for stream, call in (
            (1, good.replace(b"POST", b"PULL")),
            (3, opening(3, "Echo").replace(b"application/grpc", b"application/json")),
        ):
            frames.send(call)
            [*_, end] = await frames.until(lambda got: got.kind == RESET)
            assert end.stream == stream
        frames.send(opening(5, "Echo"), data(5, packed(b"on"), ends=True))
        [*_, end] = await frames.until(lambda got: got.ends)
        assert (end.stream, end.flags & END_STREAM) == (5, END_STREAM)


async def test_small_frames_to_ended_calls_are_not_summed() -> None:
    """A client that keeps writing to ended calls keeps its connection."""
    async with serving(KINDS) as (_, address), frames_to(address) as frames:
        for stream in range(1, 81, 2):
            frames.send(opening(stream, "Echo"), data(stream, packed(b"", flag=7)))
            await frames.until(lambda got: got.kind == RESET)
            frames.send(data(stream, b"x" * 9) * 500)
            await frames.dealt_with()


# A machine without IPv6.
HOSTS = ["127.0.0.1", "0.0.0.0", "unix", *([] if Address(host="::1", port=0).refusal() else ["::1"])]


@pytest.mark.parametrize("host", HOSTS)
async def test_peers_have_the_same_names_as_in_grpc(host: str, tmp_path: Path) -> None:
    """A caller's address reads as in grpc.aio: by IPv4, by IPv6, on all interfaces, on a Unix socket."""

    async def peer(request: bytes, context: Any) -> bytes:
        name: str = context.peer()
        return name.encode()

    handlers: dict[str, Any] = {"Peer": grpc.unary_unary_rpc_method_handler(peer)}
    listening = Address(host="127.0.0.1" if host == "unix" else host, port=0)
    path = str(tmp_path / "ours") if host == "unix" else ""
    async with serving(handlers, address=listening, path=path) as (_, address):
        native = grpc.aio.server()
        native.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("test", handlers)])
        if host == "unix":
            ours, theirs = f"unix:{path}", f"unix:{tmp_path / 'theirs'}"
            native.add_insecure_port(theirs)
        else:
            ours = address.replace("0.0.0.0", "127.0.0.1")
            port = native.add_insecure_port(str(listening))
            theirs = f"{ours.rpartition(':')[0]}:{port}"
        await native.start()
        names = []
        for target in (ours, theirs):
            async with calling(target) as channel:
                name = (await channel.unary_unary("/test/Peer")(b"")).decode()
                names.append(name if host == "unix" else name.rpartition(":")[0])
        await native.stop(None)
        assert names[0] == names[1]
