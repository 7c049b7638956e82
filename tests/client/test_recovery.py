"""Lost streams and restarted servers: recovery without the caller."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from licorne import Application, ApplicationRejected, Event, Node, NodeRejected, Reconnected, RetryConfig
from licorne_server.testing import FakeRM, Proxy, serve
from support.peers.shim import TWO_QUEUES as CONFIG
from support.peers.shim import eventually
from support.server.reports import read_books

QUICK = RetryConfig(initial=0.02, maximum=0.1)


@asynccontextmanager
async def fake_rm(proxy: Proxy) -> AsyncIterator[FakeRM]:
    """An RM that reaches its server through the proxy, and does not wait long."""
    async with FakeRM(proxy.target, config=CONFIG, retry=QUICK) as rm:
        yield rm


def reconnections(events: list[Event]) -> list[bool]:
    """Whether each reconnection so far was a resumption."""
    return [event.resumed for event in events if isinstance(event, Reconnected)]


async def reconnected(rm: FakeRM, times: int = 1) -> bool:
    """Wait for that many reconnections; return whether the last was a resumption."""
    await rm.until(lambda: len(reconnections(rm.events)) >= times, f"{times} reconnections")
    return reconnections(rm.events)[-1]


@pytest.mark.slow
@pytest.mark.row(18)
async def test_cuts_in_the_middle_of_a_request_change_nothing() -> None:
    """Wherever the stream of one big request breaks, client and server have the same books."""
    async with serve() as server, Proxy(server.target) as proxy:
        for cut in range(8):
            async with fake_rm(proxy) as rm:
                nodes = [Node(node_id=f"n{i}", capacity={"vcore": 1}) for i in range(900)]
                apps = [Application(application_id=f"a{i}", user="ann") for i in range(900)]
                await rm.client.add_nodes(nodes)
                await rm.client.submit_applications(apps)
                await eventually(lambda: server.views.partitions()[0].nodes)
                for _ in range(2 * cut):
                    await asyncio.sleep(0)
                await proxy.cut()
                await reconnected(rm)
                await rm.add_nodes(1, prefix="last")
                await rm.submit("last")
                books = await read_books(server.target)
                cache = rm.client.cache
                assert set(books.nodes) == set(cache.nodes)
                assert len(cache.nodes) == 901
                assert set(books.applications) == {name for _, name in cache.applications}
                assert len(cache.applications) == 901
                refused = (NodeRejected, ApplicationRejected)
                assert not [event for event in rm.events if isinstance(event, refused)]
                await rm.close(unregister=True)


@pytest.mark.row(161)
async def test_a_restarted_server_is_told_everything() -> None:
    """A new server has the same books after the replay, and the caller hears only of that."""
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


@pytest.mark.slow
async def test_changes_around_a_replay_are_not_lost() -> None:
    """Changes before, during and after a long replay are sent once."""
    async with serve() as first, Proxy(first.target) as proxy, fake_rm(proxy) as rm:
        await rm.add_nodes(1, vcore=10_000_000)
        await rm.submit("app")
        await rm.ask("app", 5000, vcore=1000)
        await rm.allocated(5000)
        async with serve() as second:
            proxy.upstream = second.target
            await proxy.cut()
            keys: list[str] = []
            while not reconnections(rm.events):
                keys += await rm.ask("app", prefix="late", vcore=1000)
                await rm.client.release([f"app-{len(keys)}"])
                await asyncio.sleep(0)
            await rm.until(lambda: set(keys) <= rm.allocations.keys(), "all late asks")
            gone = {f"app-{n}" for n in range(1, len(keys) + 1)}
            await rm.until(lambda: not gone & rm.allocations.keys(), "all releases")
            assert (await read_books(second.target)).allocations == rm.allocations
