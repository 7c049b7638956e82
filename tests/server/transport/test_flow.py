"""A client that does not read blocks its own writer only."""

import asyncio
import struct
import zlib
from typing import Any

import grpc
import pytest

from support.patience import PATIENCE, loop_turns
from support.peers.networks import DATA, WINDOW, frame
from support.peers.raw_grpc import Frame, Frames, calling, data, frames_to, literal, opening, packed, serving

pytestmark = pytest.mark.transport

KIB, MIB = 1024, 1024 * 1024
STREAM_WINDOW = 256 * KIB
"""Bytes that a client may send before they are read."""
UNLIMITED = struct.pack(">HI", 4, 2**31 - 1)
"""The settings of a client that accepts any number of bytes on each stream."""


async def echo(request: bytes, context: Any) -> bytes:
    """A unary call."""
    return request


ECHO: Any = grpc.unary_unary_rpc_method_handler(echo)


class Held:
    """A call that reads nothing until it is released, and then all messages."""

    def __init__(self) -> None:
        """Start unreleased."""
        self.goes_on = asyncio.Event()
        self.read: list[bytes] = []
        self.handlers: dict[str, Any] = {
            "Held": grpc.stream_stream_rpc_method_handler(self.serve),
            "Echo": ECHO,
        }

    async def serve(self, _: Any, context: Any) -> None:
        """Wait, then read to the end."""
        await self.goes_on.wait()
        while (message := await context.read()) is not grpc.aio.EOF:
            self.read.append(message)


class Sender:
    """Sends the body of a call as far as the server allows."""

    def __init__(self, frames: Frames, stream: int, body: bytes) -> None:
        """Start with nothing sent."""
        self._frames = frames
        self._stream = stream
        self._rest = body
        self._room = STREAM_WINDOW
        self._is_answered = False
        self.sent = 0

    async def send(self) -> int:
        """Send until there is no room, or nothing is left; return the total."""
        while self._rest and self._room:
            part, self._rest = self._rest[: self._room], self._rest[self._room :]
            self.sent += len(part)
            self._room -= len(part)
            self._frames.send(data(self._stream, part, ends=not self._rest))
            self._heard(await self._frames.dealt_with())
        return self.sent

    async def more(self) -> None:
        """Wait for room."""
        self._heard(await self._frames.until(self._is_room))

    async def answered(self) -> None:
        """Wait for the end of the call, which may have arrived while the last part was sent."""
        if not self._is_answered:
            await self._frames.until(self._is_end)

    def _is_end(self, got: Frame) -> bool:
        return got.stream == self._stream and got.ends

    def _is_room(self, got: Frame) -> bool:
        return (got.kind, got.stream) == (WINDOW, self._stream)

    def _heard(self, found: list[Frame]) -> None:
        self._room += sum(int.from_bytes(got.payload) for got in found if self._is_room(got))
        self._is_answered |= any(map(self._is_end, found))


@pytest.mark.parametrize("size", [10, 1_000, 100_000])
async def test_an_unread_call_blocks_its_own_client_only(size: int) -> None:
    """The client of an unread call can send a window and a message; other calls continue."""
    held = Held()
    count = 2 * STREAM_WINDOW // (size + 5)
    async with serving(held.handlers) as (_, address), frames_to(address) as frames:
        await frames.dealt_with()
        frames.send(opening(1, "Held"))
        sender = Sender(frames, 1, packed(b"x" * size) * count)
        assert STREAM_WINDOW <= await sender.send() <= STREAM_WINDOW + size
        frames.send(opening(3, "Echo"))
        other = packed(b"y" * STREAM_WINDOW)
        assert await Sender(frames, 3, other).send() == len(other)
        async with calling(address) as channel:
            assert await channel.unary_unary("/test/Echo")(b"on") == b"on"
        held.goes_on.set()
        while await sender.send() < count * (size + 5):
            await sender.more()
        await sender.answered()
        assert held.read == [b"x" * size] * count


class Writing:
    """A call that writes messages as fast as it can, and counts them."""

    def __init__(self, message: bytes, count: int) -> None:
        """Write the message this number of times."""
        self.written = 0
        self._message = message
        self._count = count
        self.handlers: dict[str, Any] = {
            "Write": grpc.stream_stream_rpc_method_handler(self.serve),
            "Echo": ECHO,
        }

    async def serve(self, _: Any, context: Any) -> None:
        """Write."""
        for _number in range(self._count):
            await context.write(self._message)
            self.written += 1

    async def stops(self) -> int:
        """Wait until no more is written for a while; return the bytes so far."""
        before = -1
        while before != self.written:
            before = self.written
            for _turn in range(50):
                await asyncio.sleep(0.001)
        return self.written * len(self._message)


@pytest.mark.parametrize("size", [100, 10_000, 100_000])
async def test_a_client_without_a_window_blocks_its_handler(size: int) -> None:
    """A client that gives no window gets a bounded number of bytes, and all of them with one."""
    window = 65_535
    writing = Writing(b"x" * size, 2 * MIB // size)
    async with serving(writing.handlers) as (_, address), frames_to(address) as frames:
        frames.send(opening(1, "Write"), opening(3, "Echo"), data(3, packed(b"on"), ends=True))
        # The window of the connection, which other calls need too.
        frames.send(frame(WINDOW, (2**30).to_bytes(4)))
        found = await frames.until(lambda got: got.stream == 3 and got.ends)
        assert await writing.stops() <= window + 128 * KIB + size
        frames.send(frame(WINDOW, (2**30).to_bytes(4), stream=1))
        found += await frames.until(lambda got: got.stream == 1 and got.ends)
        got_bytes = sum(len(got.payload) for got in found if (got.kind, got.stream) == (DATA, 1))
        assert got_bytes == (size + 5) * (2 * MIB // size)


async def test_a_client_that_does_not_read_its_socket_blocks_its_handler() -> None:
    """A client that reads nothing gets what fits into the sockets, and the rest once it reads."""
    count = 64
    writing = Writing(bytes(MIB), count)
    async with serving(writing.handlers) as (_, address), frames_to(address, UNLIMITED) as frames:
        frames.send(opening(1, "Write"), frame(WINDOW, (2**30).to_bytes(4)))
        assert await writing.stops() < 32 * MIB
        async with calling(address) as channel:
            assert await channel.unary_unary("/test/Echo")(b"on") == b"on"
        found = await frames.until(lambda got: got.ends)
        assert sum(len(got.payload) for got in found if got.kind == DATA) == count * (MIB + 5)


async def test_decompression_lets_other_work_run() -> None:
    """A call with many small messages that are large when decompressed does not block the loop."""

    async def serve(_: Any, context: Any) -> None:
        before = turns()
        async with asyncio.timeout(PATIENCE):
            while (message := await context.read()) is not grpc.aio.EOF:
                assert len(message) == MIB
        await context.write(b"%d" % (turns() - before))

    handlers: dict[str, Any] = {"Read": grpc.stream_stream_rpc_method_handler(serve)}
    async with (
        serving(handlers) as (_, address),
        frames_to(address) as frames,
        loop_turns() as turns,
    ):
        message = packed(zlib.compress(bytes(MIB)), flag=1)
        frames.send(opening(1, "Read", more=literal("grpc-encoding", b"deflate")))
        # All messages have arrived before the first is read.
        frames.send(data(1, message * 20, ends=True))
        found = await frames.until(lambda got: got.ends)
        [answer] = [got.payload for got in found if got.kind == DATA]
    assert int(answer[5:]) >= 18
