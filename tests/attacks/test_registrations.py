"""Registrations that nobody uses: they do not close the door, and push out nobody who is needed."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from licorne_server.app import Server
from licorne_server.departures import SETTLING
from licorne_server.rm_bounds import RmBounds
from licorne_server.testing import VirtualClock
from support.bearing import Bearing
from support.shim import Shim, ask, connected, hang_up, new_allocations, node, serving

NUMBER = 16
FLOOD = 1_100


@pytest.fixture
def clock() -> VirtualClock:
    """The server's clock."""
    return VirtualClock()


@pytest.fixture
async def server(clock: VirtualClock) -> AsyncIterator[Server]:
    """A server with few places, which forgets nobody by itself."""
    async with serving(clock=clock, rms=RmBounds(number=NUMBER, forget_after=0)) as server:
        yield server


@pytest.fixture
async def channel(server: Server) -> AsyncIterator[grpc.aio.Channel]:
    """A connection to it."""
    async with connected(server) as channel:
        yield channel


async def refusal(shim: Shim) -> str:
    """Why the registration is refused; empty if it is not."""
    try:
        await shim.register()
    except grpc.aio.AioRpcError as error:
        return f"{error.code().name}: {error.details()}"
    return ""


async def flood(channel: grpc.aio.Channel, count: int, *, first: int = 0) -> int:
    """Register so many RMs that open no stream; how many were taken."""
    outcomes = [await refusal(Shim(channel, f"idle-{first + i}")) for i in range(count)]
    return outcomes.count("")


async def test_registrations_without_streams_do_not_close_the_door(
    server: Server, clock: VirtualClock, channel: grpc.aio.Channel
) -> None:
    """After more registrations than there are places the next RM takes a place and is served."""
    share = RmBounds(number=NUMBER).share
    assert await flood(channel, FLOOD) == share
    full = f"RESOURCE_EXHAUSTED: {share} RMs of this peer are registered already"
    assert await refusal(Shim(channel, "next")) == full
    await clock.advance(SETTLING)
    shim = Shim(channel, "next")
    allocations, _, _ = await shim.set_up()
    await shim.ask(allocations, ask("k"))
    assert len(await new_allocations(allocations, 1)) == 1
    assert len(server.rms.all()) == share
    assert server.rms.find("idle-0") is None
    assert server.departures.forgotten == 1


async def test_storm_spares_those_who_are_needed(
    server: Server, clock: VirtualClock, channel: grpc.aio.Channel
) -> None:
    """A connected RM, and one that is gone while allocations run, outlast any number of others."""
    there, gone = Shim(channel, "there"), Shim(channel, "gone")
    here, _, _ = await there.set_up()
    calls = await gone.set_up()
    await gone.ask(calls[0], ask("k"))
    await new_allocations(calls[0], 1)
    await hang_up(server, *calls, rm_id="gone")
    rm = server.rms.find("gone")
    assert rm is not None
    for round_ in range(5):
        await clock.advance(SETTLING)
        assert await flood(channel, 3 * NUMBER, first=100 * round_)
    await there.ask(here, ask("k"))
    assert len(await new_allocations(here, 1)) == 1
    [report] = server.scheduler.views.partitions(rm.rm_id)
    assert report.allocations == 1
    assert server.rms.find("gone") is rm


async def test_full_of_needed_rms_is_full(
    server: Server, clock: VirtualClock, channel: grpc.aio.Channel
) -> None:
    """Where every RM is connected a newcomer is refused, and nobody is pushed out."""
    share = RmBounds(number=NUMBER).share
    for number in range(share):
        shim = Shim(channel, f"rm-{number}")
        await shim.register()
        await shim.nodes(shim.open("UpdateNode"), node("n", vcore=1))
    await clock.advance(2 * SETTLING)
    assert await flood(channel, 5) == 0
    assert len(server.rms.all()) == share


async def test_share_of_one_leaves_places_for_others(tmp_path: Path) -> None:
    """An identity that may be many RMs, and is, leaves places for an RM of another one."""
    tokens: dict[str, Any] = {}
    for name, rms in (("greedy", [f"rm-{i}" for i in range(NUMBER)]), ("modest", ["modest"])):
        path = tmp_path / name
        path.write_text(f"token-of-{name * 3}\n")
        tokens |= dict.fromkeys(rms, (path,))
    async with (
        serving(rm_tokens=tokens, rms=RmBounds(number=NUMBER)) as server,
        connected(server) as channel,
    ):
        greedy: Any = Bearing(channel, f"Bearer token-of-{'greedy' * 3}")
        modest: Any = Bearing(channel, f"Bearer token-of-{'modest' * 3}")
        refused = [await refusal(Shim(greedy, f"rm-{i}")) for i in range(NUMBER)]
        assert refused.count("") == RmBounds(number=NUMBER).share < NUMBER
        await Shim(modest, "modest").set_up()
