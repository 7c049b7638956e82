"""Calls packed into one stream: packing, windows, turns and ends, tested without gRPC."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest
from google.protobuf.any_pb2 import Any
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]

from licorne_server.services.members.packing import (
    CANCELLED,
    MOST_CALLS,
    MOST_MESSAGE,
    PACK,
    PIECE,
    WINDOW,
    PackedCall,
    PackedStream,
)
from licorne_server.store.coordination.pb import members_pb2 as pb
from licorne_server.wire.errors import CallError, Malformed, bad_request, error_info, packed_details
from support.peers.shim import eventually


class Pipe:
    """One direction of a stream, in which each message takes some rounds of the loop."""

    def __init__(self) -> None:
        """Start empty."""
        self.sizes: list[int] = []
        self._messages: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def write(self, raw: bytes) -> None:
        """Send a message."""
        self.sizes.append(len(raw))
        self._messages.put_nowait(raw)
        for _ in range(4):
            await asyncio.sleep(0)

    async def read(self) -> bytes | None:
        """Receive a message."""
        return await self._messages.get()

    def close(self) -> None:
        """End the stream."""
        self._messages.put_nowait(None)


class Ends:
    """Both ends of one stream: `caller` begins calls, and `opened` has them at the other end."""

    def __init__(self) -> None:
        """Connect both ends."""
        self.there, self.back = Pipe(), Pipe()
        self.opened: list[PackedCall] = []
        self.openings: list[pb.Open] = []
        self.caller = PackedStream(self.back.read, self.there.write)
        self.server = PackedStream(self.there.read, self.back.write, self._begin)

    def _begin(self, call: PackedCall, opening: pb.Open) -> None:
        self.opened.append(call)
        self.openings.append(opening)

    async def call(self) -> tuple[PackedCall, PackedCall]:
        """Begin a call; returns both ends of it."""
        count = len(self.opened)
        call = self.caller.open(pb.Open(method="/a.B/C"))
        await eventually(lambda: len(self.opened) > count)
        return call, self.opened[-1]


@asynccontextmanager
async def both() -> AsyncIterator[Ends]:
    """A stream whose ends run inside the block."""
    ends = Ends()
    tasks = [asyncio.create_task(end.run()) for end in (ends.caller, ends.server)]
    try:
        yield ends
    finally:
        ends.there.close()
        ends.back.close()
        await asyncio.wait(tasks)


async def test_many_small_messages_are_packed_into_few() -> None:
    """10,000 messages of one call arrive in order, in less than a twentieth of as many packed ones."""
    async with both() as ends:
        call, served = await ends.call()
        before = len(ends.there.sizes)

        async def send() -> None:
            for number in range(10_000):
                await call.send(b"%d" % number)

        sending = asyncio.create_task(send())
        for number in range(10_000):
            assert await served.receive() == b"%d" % number
        await sending
        assert len(ends.there.sizes) - before < 500


async def test_a_single_message_is_not_delayed() -> None:
    """A message is sent without a timer if nothing was sent just before."""
    async with both() as ends:
        call, served = await ends.call()
        sent = len(ends.there.sizes)
        await call.send(b"x")
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(ends.there.sizes) == sent + 1
        assert await served.receive() == b"x"


async def test_a_call_that_is_not_read_blocks_no_other() -> None:
    """A call with a full window waits, while thousands of messages of another one arrive."""
    async with both() as ends:
        stopped, unread = await ends.call()
        lively, read = await ends.call()

        async def flood() -> None:
            while True:
                await stopped.send(bytes(1000))

        flooding = asyncio.create_task(flood())
        for _ in range(3000):
            await lively.send(bytes(1000))
            assert await read.receive() == bytes(1000)
        flooding.cancel()
        await asyncio.wait([flooding])
        count = 0
        stopped.half()
        while await unread.receive() is not None:
            count += 1
        assert WINDOW // 1100 <= count <= (WINDOW + PIECE) // 1000


async def test_a_message_above_the_window_waits_for_a_late_reader() -> None:
    """The first pieces of a large message fill the window until a reader takes them; the others follow."""
    large = bytes(range(256)) * 8 * 1024
    async with both() as ends:
        call, served = await ends.call()
        sending = asyncio.create_task(call.send(large))
        await eventually(lambda: sum(ends.there.sizes) > WINDOW)
        for _ in range(200):
            await asyncio.sleep(0)
        assert await served.receive() == large
        await sending


async def test_calls_take_turns() -> None:
    """A single message of one call does not wait behind the megabytes of another."""
    async with both() as ends:
        large, large_served = await ends.call()
        small, small_served = await ends.call()
        sending = asyncio.create_task(large.send(bytes(8 * 1024 * 1024)))
        receiving = asyncio.create_task(large_served.receive())
        await eventually(lambda: len(ends.there.sizes) > 3)
        await small.send(b"x")
        assert await small_served.receive() == b"x"
        assert not receiving.done()
        await sending
        assert await receiving == bytes(8 * 1024 * 1024)
        assert max(ends.there.sizes) < PACK + 2 * PIECE


async def test_empty_messages_use_the_window() -> None:
    """Messages without a byte cannot accumulate without a bound."""
    async with both() as ends:
        call, served = await ends.call()

        async def flood() -> None:
            while True:
                await call.send(b"")

        flooding = asyncio.create_task(flood())
        await call.send(b"")
        await eventually(lambda: len(ends.there.sizes) > WINDOW // 64 // 512)
        flooding.cancel()
        await asyncio.wait([flooding])
        call.half()
        count = 0
        while await served.receive() is not None:
            count += 1
        assert count == WINDOW // 64


async def test_ends_follow_the_messages() -> None:
    """All messages before a half-close and before the status are received."""
    async with both() as ends:
        call, served = await ends.call()
        await call.send(b"ask")
        call.half()
        assert [await served.receive(), await served.receive()] == [b"ask", None]
        await served.send(b"answer")
        served.finish(3, "no")
        await eventually(lambda: call.end is not None)
        assert [await call.receive(), await call.receive()] == [b"answer", None]
        with pytest.raises(CallError, match="no"):
            call.check()


@pytest.mark.parametrize(
    ("details", "reason"),
    [
        ([bad_request([("rm_id", "empty")]), error_info("WRONG"), RetryInfo()], "WRONG"),
        ([Any(type_url="type.googleapis.com/of.a.newer.Member", value=b"x"), error_info("NEW")], "NEW"),
        ([], "INVALID_ARGUMENT"),
    ],
)
async def test_a_status_is_passed_on_unchanged(details: list[Message], reason: str) -> None:
    """Code, text and details are those of the owner, including types unknown here."""
    given = CallError(grpc.StatusCode.INVALID_ARGUMENT, "no", details)
    async with both() as ends:
        call, served = await ends.call()
        served.finish(3, "no", packed_details(given.status()))
        await call.ended.wait()
        with pytest.raises(CallError) as answered:
            call.check()
    assert answered.value.reason == reason
    assert answered.value.status() == given.status()


async def test_invalid_details_are_dropped() -> None:
    """Code and text are passed on without details that are invalid."""
    async with both() as ends:
        call, served = await ends.call()
        served.finish(5, "nothing", b"\xff")
        await call.ended.wait()
        with pytest.raises(CallError, match="nothing") as answered:
            call.check()
    assert (answered.value.code, answered.value.details) == (grpc.StatusCode.NOT_FOUND, [])


async def test_a_cancelled_call_ends_at_the_other_end() -> None:
    """The service is notified, and a sender that waits for room continues."""
    async with both() as ends:
        call, served = await ends.call()
        ended = asyncio.Event()
        served.on_end = ended.set
        sending = asyncio.create_task(served.send(bytes(4 * WINDOW)))
        call.finish(CANCELLED)
        await ended.wait()
        await sending


async def test_a_lost_call_gives_no_more_messages() -> None:
    """Unread messages from a previous owner are dropped."""
    async with both() as ends:
        call, served = await ends.call()
        await served.send(b"effect")
        served.finish()
        await eventually(lambda: call.end is not None)
        call.lose(14, "another owner")
        assert await call.receive() is None
        with pytest.raises(CallError, match="another owner"):
            call.check()


async def test_an_ended_call_is_not_lost_by_a_change_of_owner() -> None:
    """A change of the owner after the last message is read does not become an error."""
    async with both() as ends:
        call, served = await ends.call()
        await served.send(b"last")
        served.finish()
        await call.ended.wait()
        assert await call.receive() == b"last"
        call.lose(14, "it is served elsewhere")
        call.check()


async def test_a_finished_stream_sends_pending_messages() -> None:
    """All messages and statuses before the end arrive; open calls end with UNAVAILABLE."""
    async with both() as ends:
        calls = [await ends.call() for _ in range(2)]
        for _, served in calls:
            for number in range(500):
                await served.send(b"%d" % number)
        calls[0][1].finish()
        ends.server.finish("about to stop")
        for call, _ in calls:
            await call.ended.wait()
            assert [await call.receive() for _ in range(501)] == [*(b"%d" % n for n in range(500)), None]
        calls[0][0].check()
        with pytest.raises(CallError, match="about to stop"):
            calls[1][0].check()


async def test_the_end_of_the_stream_ends_its_calls() -> None:
    """Calls end with UNAVAILABLE at both ends of an ended stream, and none is begun afterwards."""
    async with both() as ends:
        call, served = await ends.call()
        ends.there.close()
        ends.back.close()
        await served.ended.wait()
        await call.ended.wait()
        with pytest.raises(CallError, match="has ended"):
            call.check()
        with pytest.raises(CallError, match="has ended"):
            ends.caller.open(pb.Open())


@pytest.mark.parametrize(
    ("frames", "why"),
    [
        ([pb.Frame(call=1, message=bytes(PIECE))] * 10, "window"),
        ([pb.Frame(call=1, open=pb.Open())], "cannot be opened"),
        ([pb.Frame(call=number, open=pb.Open()) for number in range(2, MOST_CALLS + 3)], "calls"),
        ([pb.Frame(call=1, message=bytes(MOST_MESSAGE // 32))], "has .* bytes"),
    ],
)
async def test_a_member_that_sends_too_much_is_cut_off(frames: list[pb.Frame], why: str) -> None:
    """Bytes above a window, calls above their number, and huge messages end the stream."""
    ends = Ends()
    running = asyncio.create_task(ends.server.run())
    await ends.there.write(pb.Frames(frames=[pb.Frame(call=1, open=pb.Open())]).SerializeToString())
    await ends.there.write(pb.Frames(frames=frames).SerializeToString())
    with pytest.raises(Malformed, match=why):
        await running
    assert ends.server.is_idle
