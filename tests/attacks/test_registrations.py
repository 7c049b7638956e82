"""Unused registrations block no new RM, and displace no RM in use."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest

from licorne_server.assembly.server import Server
from licorne_server.process.bounds import RmBounds
from licorne_server.rms.eviction import RETURNING, SETTLING
from licorne_server.testing import VirtualClock
from support.peers.shim import Shim, ask, connected, hang_up, new_allocations, node, serving
from support.peers.tls import Bearing

NUMBER = 16
FLOOD = 1_100


@pytest.fixture
def clock() -> VirtualClock:
    """The server's clock."""
    return VirtualClock()


@pytest.fixture
async def server(clock: VirtualClock) -> AsyncIterator[Server]:
    """A server with few places, which evicts no RM by itself."""
    async with serving(clock=clock, rms=RmBounds(number=NUMBER, forget_after=0)) as server:
        yield server


@pytest.fixture
async def channel(server: Server) -> AsyncIterator[grpc.aio.Channel]:
    """A connection to the server."""
    async with connected(server) as channel:
        yield channel


async def refusal(shim: Shim) -> str:
    """The reason for a refused registration; empty if it was accepted."""
    try:
        await shim.register()
    except grpc.aio.AioRpcError as error:
        return f"{error.code().name}: {error.details()}"
    return ""


async def flood(channel: grpc.aio.Channel, count: int, *, first: int = 0) -> int:
    """Register this number of RMs without streams; returns the number of accepted ones."""
    outcomes = [await refusal(Shim(channel, f"idle-{first + i}")) for i in range(count)]
    return outcomes.count("")


@pytest.mark.slow
async def test_registrations_without_streams_block_no_rm(
    server: Server, clock: VirtualClock, channel: grpc.aio.Channel
) -> None:
    """After more registrations than places the next RM is still registered and served."""
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
    assert server.eviction.forgotten == 1


async def test_a_flood_of_registrations_evicts_no_rm_in_use(
    server: Server, clock: VirtualClock, channel: grpc.aio.Channel
) -> None:
    """A connected RM, and one with running allocations, outlast any number of others."""
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


async def test_a_server_full_of_connected_rms_refuses_others(
    server: Server, clock: VirtualClock, channel: grpc.aio.Channel
) -> None:
    """If every RM is connected, a new one is refused, and none is evicted."""
    share = RmBounds(number=NUMBER).share
    for number in range(share):
        shim = Shim(channel, f"rm-{number}")
        await shim.register()
        await shim.nodes(shim.open("UpdateNode"), node("n", vcore=1))
    await clock.advance(2 * SETTLING)
    assert await flood(channel, 5) == 0
    assert len(server.rms.all()) == share


def identity(directory: Path, name: str, rms: Sequence[str]) -> dict[str, tuple[Path]]:
    """The token of a peer for these RMs, in the form of the setting `rm_tokens`."""
    path = directory / name
    path.write_text(f"token-of-{name * 3}\n")
    return dict.fromkeys(rms, (path,))


def bearing(channel: grpc.aio.Channel, name: str) -> Any:
    """The channel with the token of that name."""
    return Bearing(channel, f"Bearer token-of-{name * 3}")


def registered(server: Server, letter: str) -> list[str]:
    """The registered RMs whose names begin with this letter."""
    return [rm.rm_id for rm in server.rms.all() if rm.rm_id.startswith(letter)]


async def test_one_identity_leaves_places_for_others(tmp_path: Path) -> None:
    """An identity with many registered RMs leaves places for an RM of another identity."""
    tokens = identity(tmp_path, "greedy", [f"rm-{i}" for i in range(NUMBER)])
    tokens |= identity(tmp_path, "modest", ["modest"])
    async with (
        serving(rm_tokens=tokens, rms=RmBounds(number=NUMBER)) as server,
        connected(server) as channel,
    ):
        greedy, modest = bearing(channel, "greedy"), bearing(channel, "modest")
        refused = [await refusal(Shim(greedy, f"rm-{i}")) for i in range(NUMBER)]
        assert refused.count("") == RmBounds(number=NUMBER).share < NUMBER
        await Shim(modest, "modest").set_up()


async def test_the_peer_with_most_rms_makes_room(tmp_path: Path, clock: VirtualClock) -> None:
    """A new RM replaces one of its own peer, or of the peer with most RMs.

    The few RMs of other peers remain, although they have been disconnected for longer.
    """
    greedy, modest, new = (f"g{i}" for i in range(NUMBER)), ("m1", "m2", "m3"), ("n",)
    tokens = identity(tmp_path, "greedy", list(greedy)) | identity(tmp_path, "modest", modest)
    tokens |= identity(tmp_path, "new", new)
    bounds = RmBounds(number=NUMBER, forget_after=0)
    async with (
        serving(rm_tokens=tokens, clock=clock, rms=bounds) as server,
        connected(server) as channel,
    ):
        for name in modest:
            await Shim(bearing(channel, "modest"), name).register()
        await clock.advance(SETTLING)
        for i in range(NUMBER - len(modest)):
            await Shim(bearing(channel, "greedy"), f"g{i}").register()
        crowd = bearing(channel, "greedy")
        assert await refusal(Shim(crowd, "g13")) == (
            f"RESOURCE_EXHAUSTED: {NUMBER} RMs are registered already"
        )
        await clock.advance(SETTLING)
        assert await refusal(Shim(crowd, "g13")) == ""
        assert await refusal(Shim(bearing(channel, "new"), "n")) == ""
        assert registered(server, "m") == list(modest)
        assert registered(server, "g")[0] == "g2"


async def test_an_rm_with_asks_is_evicted_last(
    server: Server, clock: VirtualClock, channel: grpc.aio.Channel
) -> None:
    """An RM with a pending ask is evicted a minute after its disconnection, and after idle ones."""
    shim = Shim(channel, "waits")
    calls = await shim.set_up()
    await shim.ask(calls[0], ask("k", vcore=10**9))
    await hang_up(server, *calls, rm_id="waits")
    await clock.advance(1.0)
    share = RmBounds(number=NUMBER).share
    assert await flood(channel, share) == share - 1
    await clock.advance(SETTLING)
    assert await refusal(Shim(channel, "first")) == ""
    assert registered(server, "w") == ["waits"]
    await clock.advance(RETURNING)
    # Idle RMs were disconnected more recently, and are nevertheless evicted first.
    assert await flood(channel, share - 1, first=100) == share - 1
    assert registered(server, "w") == ["waits"]
    assert await refusal(Shim(channel, "last")) == ""
    assert not registered(server, "w")
