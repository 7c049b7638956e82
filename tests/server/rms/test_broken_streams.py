"""Streams that are cut, or compete with others of their kind (DESIGN § 3)."""

import asyncio

import grpc
import pytest

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import session_pb2 as sp
from licorne_core.values.ids import RmId
from licorne_server.assembly.server import Server
from licorne_server.process.bounds import PeerBounds
from support.peers.shim import (
    Call,
    RawSession,
    Shim,
    application,
    ask,
    connected,
    eventually,
    node,
    releases,
    serving,
)

MANY = 8_000


def nodes_known(server: Server) -> int:
    """The number of the RM's nodes on the server."""
    [report] = server.scheduler.views.partitions(RmId("rm"))
    return report.nodes


async def answered(call: Call, session: RawSession, count: int) -> None:
    """Read the answers to this number of nodes; none of them is rejected."""
    while count:
        response = (await session.until(call, "nodes")).nodes
        assert not response.rejected
        count -= len(response.accepted)


@pytest.mark.parametrize("seen", [1, MANY // 4, MANY // 2])
@pytest.mark.parametrize("cancelled", [True, False])
async def test_a_request_of_a_lost_stream_is_completed_once(
    server: Server, session: RawSession, seen: int, cancelled: bool
) -> None:
    """A request whose stream is lost or replaced is carried out once and completely."""
    call, welcome = await session.begin()
    await session.replay(call, nodes=0)
    token = welcome.welcome.resume_token
    nodes = [node(f"n{i}", vcore=1) for i in range(MANY)]
    number = await session.send(call, nodes=si.NodeRequest(nodes=nodes))
    await eventually(lambda: nodes_known(server) >= seen)
    if cancelled:
        call.call.cancel()
    call, again = await session.begin(token=token)
    assert again.welcome.resumed
    assert again.acknowledged == number
    assert nodes_known(server) == MANY
    await answered(call, session, MANY)


async def test_a_repeated_request_allocates_no_released_key(server: Server, session: RawSession) -> None:
    """If asks and their releases are cut off in the middle, no key is allocated twice."""
    call, welcome = await session.begin()
    await session.replay(call, vcore=10_000_000)
    keys = [f"k{i}" for i in range(MANY)]
    gone = [si.AllocationRelease(applicationID="app", allocationKey=key) for key in keys]
    request = si.AllocationRequest(allocations=[ask(key, vcore=1) for key in keys], releases=releases(*gone))
    number = await session.send(call, allocations=request)

    def held() -> int:
        [report] = server.scheduler.views.partitions(RmId("rm"))
        return report.pending_asks + report.allocations

    await eventually(held)
    call.call.cancel()
    _, again = await session.begin(token=welcome.welcome.resume_token)
    assert again.acknowledged == number
    assert held() == 0


async def test_an_acknowledged_response_cannot_be_requested_again(session: RawSession) -> None:
    """A client that acknowledged a response and requests it again has to replay."""
    call, welcome = await session.begin()
    await session.replay(call)
    await session.send(call, allocations=si.AllocationRequest(allocations=[ask("k")]))
    placed = await session.until(call, "allocations")
    await session.send(call, acknowledged=placed.number, replay_begin=sp.ReplayBegin())
    await session.until(call, "ack")
    token = welcome.welcome.resume_token
    _, again = await session.begin(token=token, acknowledged=placed.number - 1)
    assert not again.welcome.resumed


async def test_one_of_several_new_streams_remains(shim: Shim) -> None:
    """Of several streams of one kind opened at once one remains, and gets all answers."""
    _, _, older = await shim.set_up()
    newcomers = [shim.open("UpdateNode") for _ in range(4)]
    await asyncio.gather(*(call.send(si.NodeRequest(rmID="rm")) for call in newcomers))
    endings = [asyncio.ensure_future(call.call.code()) for call in (older, *newcomers)]
    await eventually(lambda: sum(ending.done() for ending in endings) == len(newcomers))
    [survivor] = [call for call in newcomers if not call.call.done()]
    response = await shim.nodes(survivor, node("mine", vcore=1))
    assert [item.nodeID for item in response.accepted] == ["mine"]
    for ending in endings:
        ending.cancel()


async def test_older_streams_do_not_affect_a_new_session(server: Server, shim: Shim) -> None:
    """While an RM moves to a session, its older streams change nothing in the new state."""
    await shim.register()
    call = shim.open("UpdateNode")
    await shim.nodes(call, node("first", vcore=1))
    session = RawSession(shim.channel)

    async def flood() -> None:
        number = 0
        try:
            while True:
                number += 1
                info = node(f"late{number}", vcore=1)
                await call.send(si.NodeRequest(rmID="rm", nodes=[info]))
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return

    flooding = asyncio.ensure_future(flood())
    await eventually(lambda: nodes_known(server) > 10)
    stream, welcome = await session.begin()
    assert welcome.session == 2
    assert nodes_known(server) == 0
    await flooding
    assert (await session.replay(stream, nodes=2)).complete
    assert nodes_known(server) == 2


async def test_a_refused_session_does_not_affect_open_streams(shim: Shim) -> None:
    """A hello whose configuration is refused has no effect on open streams."""
    _, _, call = await shim.set_up()
    wrong = si.RegisterResourceManagerRequest(config="partitions: 3")
    refused = await RawSession(shim.channel).hello(registration=wrong)
    assert (await refused.ending())[0] is grpc.StatusCode.INVALID_ARGUMENT
    assert len((await shim.nodes(call, node("more", vcore=1))).accepted) == 1


@pytest.mark.parametrize("is_session", [True, False])
async def test_a_stream_without_a_message_is_ended(is_session: bool) -> None:
    """A stream whose first message is late ends with the reason."""
    async with (
        serving(peers=PeerBounds(first_message=0.05)) as server,
        connected(server) as channel,
    ):
        call = RawSession(channel).open() if is_session else Shim(channel).open("UpdateNode")
        code, text = await call.ending()
        assert code is grpc.StatusCode.UNAVAILABLE
        assert text == "nothing was said for 0.05 s after the stream was opened"


async def test_a_stream_may_be_silent_after_its_first_message() -> None:
    """The time for the first message does not end a stream that has sent one."""
    async with (
        serving(peers=PeerBounds(first_message=0.05)) as server,
        connected(server) as channel,
    ):
        shim = Shim(channel)
        await shim.register()
        spoken, silent = shim.open("UpdateNode"), shim.open("UpdateApplication")
        assert len((await shim.nodes(spoken, node("n1", vcore=1))).accepted) == 1
        await silent.ending()
        assert len((await shim.nodes(spoken, node("n2", vcore=1))).accepted) == 1


async def test_the_number_of_silent_streams_is_bounded() -> None:
    """One silent stream too many is refused; a place is free again once a stream has sent a message."""
    async with (
        serving(peers=PeerBounds(waiting=5, waiting_share=1)) as server,
        connected(server) as channel,
    ):
        shim = Shim(channel)
        await shim.register()
        quiet = shim.open("UpdateNode")
        code, text = await shim.open("UpdateApplication").ending()
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert text == "streams that have sent nothing: at most 1 of one peer"
        assert len((await shim.nodes(quiet, node("n1", vcore=1))).accepted) == 1
        await shim.applications(shim.open("UpdateApplication"), application("app"))


async def test_registration_over_si_frees_a_wrong_instance_number(session: RawSession) -> None:
    """An RM that used an instance number that is too high can register with a lower one."""
    await session.begin(instance=2**64 - 1)
    await Shim(session.channel).register()
    _, welcome = await session.begin(instance=1)
    assert welcome.HasField("welcome")


async def test_only_overflows_are_counted_as_resyncs(server: Server, session: RawSession) -> None:
    """A replay for a wrong token does not count as one for a full outbox."""
    await session.begin()
    await session.begin(token="no such token")
    rm = server.rms.find("rm")
    assert rm is not None
    assert rm.resyncs == 0
