"""Failures of a server, and the client's reactions."""

import asyncio

import grpc
import pytest

from licorne import (
    Client,
    Drained,
    Event,
    LicorneError,
    Node,
    ProtocolError,
    Reconnected,
    RetryConfig,
    SessionFenced,
    Unauthorized,
)
from licorne.si.v1 import si_pb2 as si
from licorne.v1.session_pb2 import Drain, Goodbye, UpdateRequest
from support.patience import PATIENCE
from support.peers.scripted import ScriptedStream, scripted, served

QUICK = RetryConfig(initial=0.01, maximum=0.02)


def client(target: str) -> Client:
    """A client with short waits."""
    return Client(target, rm_id="rm1", retry=QUICK)


async def first_event(rm: Client) -> Event:
    """The next event."""
    async with asyncio.timeout(PATIENCE):
        async for event in rm.events():
            return event
    raise AssertionError("the client was closed")


def accepted(name: str) -> si.NodeResponse:
    """The answer that a node is accepted."""
    return si.NodeResponse(accepted=[si.AcceptedNode(nodeID=name)])


def kinds(requests: list[UpdateRequest]) -> list[str | None]:
    """The kind of each request."""
    return [request.WhichOneof("message") for request in requests]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (grpc.StatusCode.UNAUTHENTICATED, Unauthorized),
        (grpc.StatusCode.PERMISSION_DENIED, Unauthorized),
        (grpc.StatusCode.ABORTED, SessionFenced),
    ],
)
async def test_permanent_refusals_end_the_client(code: grpc.StatusCode, error: type[LicorneError]) -> None:
    """The client ends with a refusal that time does not change, in the server's words."""

    async def refuse(stream: ScriptedStream) -> None:
        await stream.read()
        await stream.abort(code, "not like this")

    async with scripted(refuse) as target, client(target) as rm:
        with pytest.raises(error, match="not like this"):
            await asyncio.wait_for(rm.ready(), PATIENCE)


async def test_temporary_failures_are_repeated() -> None:
    """A server that is busy, broken or unavailable is called again."""

    async def fail(stream: ScriptedStream) -> None:
        await stream.read()
        await stream.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "busy")

    async def work(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.replay()
        await stream.until_goodbye()

    async def leave(stream: ScriptedStream) -> None:
        await stream.read()

    async with scripted(fail, leave, work) as target, client(target) as rm:
        await asyncio.wait_for(rm.ready(), PATIENCE)
        assert rm.stats.streams == 3


async def test_another_service_ends_the_client() -> None:
    """A first message that is no welcome, twice, ends the client, because the service is a wrong one."""

    async def babble(stream: ScriptedStream) -> None:
        await stream.read()
        await stream.write(number=1, nodes=accepted("n1"))
        await stream.read()

    async with scripted(babble, babble) as target, client(target) as rm:
        with pytest.raises(ProtocolError, match="no welcome"):
            await asyncio.wait_for(rm.ready(), PATIENCE)


async def test_an_incomplete_replay_is_repeated() -> None:
    """If a part of a replay is lost, the client registers again and replays its whole state."""
    replays: list[list[str | None]] = []

    async def lose(stream: ScriptedStream) -> None:
        await stream.welcome()
        requests = await stream.read_replay()
        replays.append(kinds(requests))
        await stream.answer_replay(requests, complete=False)
        await stream.read()

    async def work(stream: ScriptedStream) -> None:
        stream.session = 2
        hello = await stream.welcome()
        assert hello.hello.resume_token == ""
        requests = await stream.read_replay()
        replays.append(kinds(requests))
        await stream.answer_replay(requests)
        await stream.until_goodbye()

    async with scripted(lose, work) as target, client(target) as rm:
        await rm.add_nodes([Node(node_id="n1", capacity={"vcore": 1})])
        await asyncio.wait_for(rm.ready(), PATIENCE)
    assert replays == [["replay_begin", "nodes", "replay_end"]] * 2


async def test_a_stream_that_broke_during_the_replay_is_not_resumed() -> None:
    """After a broken replay the next hello requests a new registration."""
    # More than fits into the pipe, so that the replay cannot be sent before the stream breaks.
    attributes = {"padding": "x" * 10_000}
    nodes = [Node(node_id=f"n{n}", capacity={}, attributes=attributes) for n in range(1500)]

    async def breaks(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.read()
        await stream.abort(grpc.StatusCode.UNAVAILABLE, "gone")

    async def work(stream: ScriptedStream) -> None:
        stream.session = 2
        hello = await stream.welcome()
        assert hello.hello.resume_token == ""
        replay = await stream.replay()
        assert replay[-1].replay_end.nodes == len(nodes)
        await stream.until_goodbye()

    async with scripted(breaks, work) as target, client(target) as rm:
        await rm.add_nodes(nodes)
        await asyncio.wait_for(rm.ready(), PATIENCE)


async def test_a_drain_notice_is_followed() -> None:
    """The client sends its queue, says goodbye, and reconnects after the given time."""
    ends: list[float] = []
    loop = asyncio.get_running_loop()

    @served
    async def drains(stream: ScriptedStream) -> None:
        drain = Drain(reason="upgrade", retry_after_milliseconds=300)
        await stream.write(number=2, drain=drain)
        await stream.write(number=3, goodbye=Goodbye())
        ends.append(loop.time())

    async def work(stream: ScriptedStream) -> None:
        ends.append(loop.time())
        await stream.welcome(resumed=True)
        await stream.until_goodbye()

    async with scripted(drains, work) as target, client(target) as rm:
        assert await first_event(rm) == Drained("upgrade", 0.3)
        assert await first_event(rm) == Reconnected(resumed=True)
    assert ends[1] - ends[0] >= 0.3


async def test_a_silent_server_is_left() -> None:
    """A server that is silent for three heartbeats counts as unavailable."""

    async def silent(stream: ScriptedStream) -> None:
        await stream.welcome(heartbeat_seconds=1)
        await stream.replay()
        await stream.until_goodbye()

    async def work(stream: ScriptedStream) -> None:
        await stream.welcome(resumed=True)
        await stream.until_goodbye()

    async with scripted(silent, work) as target, client(target) as rm:
        assert await first_event(rm) == Reconnected(resumed=True)
        assert rm.stats.streams == 2


async def test_a_client_without_a_welcome_can_be_closed() -> None:
    """A client that waits for a welcome can be closed at once."""
    reached = asyncio.Event()

    async def mute(stream: ScriptedStream) -> None:
        await stream.read()
        reached.set()
        await stream.read()

    async with scripted(mute) as target:
        rm = client(target)
        async with asyncio.timeout(PATIENCE), rm:
            await asyncio.wait_for(reached.wait(), PATIENCE)
