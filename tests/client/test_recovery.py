"""Lost streams and restarted servers: recovery without work for the caller."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from licorne import Event, Reconnected, RetryConfig
from licorne_server.testing import FakeRM, Proxy, serve
from support.peers.shim import TWO_QUEUES as CONFIG
from support.server.reports import read_books

QUICK = RetryConfig(initial=0.02, maximum=0.1)


@asynccontextmanager
async def fake_rm(proxy: Proxy) -> AsyncIterator[FakeRM]:
    """An RM that reaches its server through the proxy, and has short waits."""
    async with FakeRM(proxy.target, config=CONFIG, retry=QUICK) as rm:
        yield rm


def reconnections(events: list[Event]) -> list[bool]:
    """True for each reconnection that was a resumption."""
    return [event.resumed for event in events if isinstance(event, Reconnected)]


async def reconnected(rm: FakeRM, times: int = 1) -> bool:
    """Wait for this number of reconnections; return whether the last was a resumption."""
    await rm.until(lambda: len(reconnections(rm.events)) >= times, f"{times} reconnections")
    return reconnections(rm.events)[-1]


@pytest.mark.row(161)
async def test_a_restarted_server_gets_the_whole_state() -> None:
    """A restarted server has the same state after the replay, and the caller gets only that event."""
    async with serve() as first, Proxy(first.target) as proxy, fake_rm(proxy) as rm:
        await rm.add_nodes(2, vcore=4000)
        await rm.add_nodes(1, prefix="drained", vcore=4000)
        await rm.client.drain_node("drained-1")
        await rm.client.update_node("node-2", {"vcore": 3000})
        await rm.submit("app")
        await rm.submit("tight", queue="root.small", user="bob")
        await rm.ask("app", 3, vcore=1000)
        await rm.ask("tight", 4, vcore=1000)
        await rm.allocated(5)
        before = await read_books(first.target)
        assert len(before.pending) == 2
        told = len(rm.events)
        async with serve() as second:
            proxy.upstream = second.target
            await proxy.cut()
            assert not await reconnected(rm)
            assert await read_books(second.target) == before
            assert rm.events[told:] == [Reconnected(resumed=False)]
            await rm.release(["tight-1"])
            await rm.until(lambda: "tight-3" in rm.allocations, "the next in the queue")
