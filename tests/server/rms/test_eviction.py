"""Disconnected RMs: they are evicted after a time, unless they have running allocations."""

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest
from structlog.testing import capture_logs

from licorne.si.v1 import si_pb2 as si
from licorne_core.messages.commands import RegisterRm
from licorne_core.values.ids import RmId
from licorne_server.assembly.server import Server
from licorne_server.process.bounds import RmBounds
from licorne_server.rms.eviction import RETURNING, SETTLING
from licorne_server.rms.rm import Rm
from licorne_server.testing import VirtualClock
from support.peers.shim import (
    RawSession,
    Shim,
    ask,
    connected,
    eventually,
    hang_up,
    new_allocations,
    node,
    releases,
    serving,
)

AFTER = 100.0


@pytest.fixture
async def server(clock: VirtualClock) -> AsyncIterator[Server]:
    """A server that forgets RMs after `AFTER` seconds."""
    async with serving(clock=clock, rms=RmBounds(forget_after=AFTER)) as server:
        yield server


def known(server: Server) -> list[str]:
    """The RMs that the server and the core know, which must agree."""
    ids = [rm.rm_id for rm in server.rms.all()]
    assert sorted(ids) == sorted(report.rm_id for report in server.scheduler.views.rms())
    return list(ids)


async def test_rm_without_streams_is_forgotten(
    server: Server, clock: VirtualClock, channel: grpc.aio.Channel
) -> None:
    """An RM that registered and opened no stream is forgotten after its time, with one log line."""
    await Shim(channel, "one").register()
    await clock.advance(AFTER / 2)
    await Shim(channel, "two").register()
    await clock.advance(AFTER / 2 - 1)
    assert known(server) == ["one", "two"]
    with capture_logs() as logs:
        await clock.advance(1)
        assert known(server) == ["two"]
        await clock.advance(AFTER / 2)
        assert known(server) == []
    told = [(entry["rm_id"], entry["gone_seconds"]) for entry in logs]
    assert told == [("one", AFTER), ("two", AFTER)]
    assert server.eviction.forgotten == 2


async def test_the_time_begins_when_the_last_stream_ends(
    server: Server, clock: VirtualClock, channel: grpc.aio.Channel
) -> None:
    """A connected RM is never evicted; after a disconnect it has its full time."""
    call, _ = await RawSession(channel).begin()
    await clock.advance(3 * AFTER)
    assert known(server) == ["rm"]
    await hang_up(server, call)
    await clock.advance(AFTER - 1)
    assert known(server) == ["rm"]
    await clock.advance(1)
    assert known(server) == []


async def test_an_rm_that_reconnects_is_kept(
    server: Server, clock: VirtualClock, channel: grpc.aio.Channel
) -> None:
    """An RM that has reconnected in time is not evicted at the old deadline."""
    session = RawSession(channel)
    call, welcome = await session.begin()
    await hang_up(server, call)
    await clock.advance(AFTER - 1)
    _, again = await session.begin(token=welcome.welcome.resume_token)
    assert again.welcome.resumed
    await clock.advance(2 * AFTER)
    assert known(server) == ["rm"]


async def test_running_allocations_keep_an_rm(
    server: Server, clock: VirtualClock, channel: grpc.aio.Channel
) -> None:
    """An RM with running allocations is kept; after their release its time starts over."""
    shim = Shim(channel)
    allocations, applications, nodes = await shim.set_up()
    await shim.ask(allocations, ask("k"))
    await new_allocations(allocations, 1)
    await hang_up(server, allocations, applications, nodes)
    await clock.advance(3 * AFTER)
    assert known(server) == ["rm"]
    again = shim.open("UpdateAllocation")
    release = si.AllocationRelease(
        partitionName="default",
        applicationID="app",
        allocationKey="k",
        terminationType=si.STOPPED_BY_RM,
    )
    await again.send(si.AllocationRequest(rmID="rm", releases=releases(release)))
    await eventually(lambda: not server.scheduler.views.partitions(RmId("rm"))[0].allocations)
    await hang_up(server, again)
    await clock.advance(AFTER)
    assert known(server) == []


async def test_zero_disables_eviction(clock: VirtualClock) -> None:
    """With 0 no RM is evicted."""
    async with (
        serving(clock=clock, rms=RmBounds(forget_after=0)) as server,
        connected(server) as channel,
    ):
        await Shim(channel).register()
        await clock.advance(10 * AFTER)
        assert known(server) == ["rm"]


async def test_a_concurrent_registration_counts(
    server: Server, clock: VirtualClock, channel: grpc.aio.Channel
) -> None:
    """An RM that registers again before its eviction is handled remains registered."""
    await Shim(channel).register()
    await clock.advance(AFTER - 1)
    rm = server.rms.find("rm")
    assert rm is not None
    # Both wait for the engine: the eviction that is due, and the earlier registration.
    registering = asyncio.create_task(server.engine.submit(RegisterRm(rm_id=RmId("rm"))))
    replacing = asyncio.create_task(server.eviction.replace(rm))
    await asyncio.gather(registering, replacing)
    assert known(server) == ["rm"]


async def longest_gone(server: Server, clock: VirtualClock, channel: grpc.aio.Channel) -> tuple[Shim, Rm]:
    """An RM that has been disconnected long enough to be evicted."""
    shim = Shim(channel)
    await shim.register()
    await clock.advance(SETTLING)
    chosen = await server.eviction.longest_gone(lambda _: True)
    assert chosen is not None
    return shim, chosen


async def test_a_concurrent_stream_counts(
    server: Server, clock: VirtualClock, channel: grpc.aio.Channel
) -> None:
    """An RM that is connected when its eviction is handled is kept, whatever the reason for the eviction."""
    shim, chosen = await longest_gone(server, clock, channel)
    await shim.nodes(shim.open("UpdateNode"), node("n", vcore=1))
    await server.eviction.replace(chosen)
    assert known(server) == ["rm"]


async def test_concurrent_objects_count(
    server: Server, clock: VirtualClock, channel: grpc.aio.Channel
) -> None:
    """An RM that was chosen without objects, and has a node when it is handled, has its longer time."""
    shim, chosen = await longest_gone(server, clock, channel)
    nodes = shim.open("UpdateNode")
    await shim.nodes(nodes, node("n", vcore=1))
    await hang_up(server, nodes)
    await clock.advance(SETTLING)
    await server.eviction.replace(chosen)
    assert known(server) == ["rm"]
    await clock.advance(RETURNING - SETTLING)
    await server.eviction.replace(chosen)
    assert known(server) == []


async def test_stream_of_a_forgotten_rm_is_refused(
    server: Server, clock: VirtualClock, channel: grpc.aio.Channel
) -> None:
    """A late stream is refused as not registered, and the RM may register again."""
    shim = Shim(channel)
    await shim.register()
    await clock.advance(AFTER)
    call = shim.open("UpdateNode")
    await call.send(si.NodeRequest(rmID="rm"))
    code, _ = await call.ending()
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    await shim.set_up()
