"""Slow or absent readers: bounded memory, no loss, no delay for others."""

from collections.abc import AsyncIterator

import grpc
import pytest

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import session_pb2 as sp
from licorne_core.values.ids import RmId
from licorne_server.assembly.server import Server
from licorne_server.process.bounds import OutboxBounds
from support.peers.shim import Call, RawSession, Shim, ask, connected, eventually, new_allocations, serving

ASKS = 20_000
SLOW = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 64 * 1024),
]
"""Options of a channel with a small window."""


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server with small outboxes."""
    bounds = OutboxBounds(high=200_000, low=100_000, cap=5_000_000)
    async with serving(bounds=bounds) as server:
        yield server


async def held(server: Server, rm_id: str = "rm") -> tuple[str, ...]:
    """The reasons of the RM's hold, once it is on hold."""

    def holds() -> tuple[str, ...]:
        [report] = server.scheduler.views.partitions(RmId(rm_id))
        return report.holds

    await eventually(holds)
    return holds()


async def flood(shim: Shim) -> Call:
    """Submit asks that fit, and read none of the results."""
    allocations = (await shim.set_up(nodes=4, vcore=10**9))[0]
    await ask_all(shim, allocations)
    return allocations


async def ask_all(shim: Shim, allocations: Call) -> None:
    """Send all asks, as the server reads them."""
    for begin in range(0, ASKS, 1000):
        keys = range(begin, begin + 1000)
        await shim.ask(allocations, *(ask(f"k{key:05}", vcore=1) for key in keys))


@pytest.mark.slow
@pytest.mark.row(18)
async def test_an_rm_that_does_not_read_is_put_on_hold(server: Server) -> None:
    """Scheduling for the RM stops while its outbox is full; once it reads, it gets everything once."""
    async with grpc.aio.insecure_channel(server.grpc_address, options=SLOW) as channel:
        shim = Shim(channel)
        allocations = await flood(shim)
        assert await held(server) == ("outbox full",)
        [report] = server.scheduler.views.partitions()
        assert report.allocations < ASKS
        async with connected(server) as other:
            neighbour = Shim(other, "neighbour")
            calls = await neighbour.set_up()
            await neighbour.ask(calls[0], ask("k"))
            assert await new_allocations(calls[0], 1) == {"k": "n0"}
        keys: list[str] = []
        while len(keys) < ASKS:
            keys += [item.allocationKey for item in (await allocations.next()).new]
        assert len(set(keys)) == len(keys) == ASKS


async def test_a_disconnected_rm_is_put_on_hold(server: Server) -> None:
    """Without an open stream the outbox fills up to its bound; the next stream gets all of it."""
    async with grpc.aio.insecure_channel(server.grpc_address, options=SLOW) as channel:
        shim = Shim(channel)
        allocations = await flood(shim)
        await held(server)
        allocations.call.cancel()
        [rm] = server.rms.all()
        assert rm.outbox.size < 1_000_000
        again = shim.open("UpdateAllocation")
        await shim.ask(again)
        keys = {item.allocationKey for item in (await again.next()).new}
        # The first stream has ended, and asks that were not read from it are lost.
        [report] = server.scheduler.views.partitions()
        asked = report.allocations + report.pending_asks
        while f"k{asked - 1:05}" not in keys:
            keys |= {item.allocationKey for item in (await again.next()).new}
        # All messages but those in flight when the first stream broke, in order.
        assert sorted(keys) == [f"k{key:05}" for key in range(asked - len(keys), asked)]


async def test_an_rm_with_a_dropped_outbox_registers_again() -> None:
    """An RM whose messages had to be dropped is requested to register again, and can."""
    bounds = OutboxBounds(high=10**9, low=10**8, cap=200_000)
    async with (
        serving(bounds=bounds) as server,
        grpc.aio.insecure_channel(server.grpc_address, options=SLOW) as channel,
    ):
        shim = Shim(channel)
        allocations = (await shim.set_up(nodes=4, vcore=10**9))[0]
        # The asks are in one message: grpc.aio's client replaces the status of a stream that ends during a
        # write.
        await shim.ask(allocations, *(ask(f"k{key:05}", vcore=1) for key in range(ASKS)))
        [rm] = server.rms.all()
        await eventually(lambda: rm.outbox.overflowed)
        code, text = await allocations.ending()
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert text.endswith("register again and replay")
        again = shim.open("UpdateNode")
        await again.send(si.NodeRequest(rmID="rm"))
        assert (await again.ending())[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
        calls = await shim.set_up()
        await shim.ask(calls[0], ask("k"))
        assert await new_allocations(calls[0], 1) == {"k": "n0"}
        assert rm.resyncs == 1


@pytest.mark.slow
async def test_a_session_that_does_not_acknowledge_is_put_on_hold(server: Server) -> None:
    """Messages that are read but not acknowledged count as well; an acknowledgement ends the hold."""
    async with connected(server) as channel:
        session = RawSession(channel)
        call, _ = await session.begin()
        await session.replay(call, vcore=10**9)
        for begin in range(0, ASKS, 1000):
            asks = [ask(f"k{begin + i}", vcore=1) for i in range(1000)]
            await session.send(call, allocations=si.AllocationRequest(allocations=asks))
        response = await session.until(call, "allocations")
        seen = len(response.allocations.new)
        while not server.scheduler.views.partitions()[0].holds:
            response = await session.until(call, "allocations")
            seen += len(response.allocations.new)
        assert server.scheduler.views.partitions()[0].holds == ("outbox full",)
        assert seen < ASKS
        while seen < ASKS:
            ack = sp.UpdateRequest(acknowledged=response.number, ack=sp.Ack())
            await call.send(ack)
            response = await session.until(call, "allocations")
            seen += len(response.allocations.new)
        assert seen == ASKS
