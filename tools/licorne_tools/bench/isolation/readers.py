"""Attacks that read the server's state."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import cycle, islice
from typing import Any
from urllib.parse import quote

import aiohttp
import grpc

from licorne.v1 import state_pb2 as pb
from licorne.v1.state_pb2_grpc import StateStub
from licorne_tools.bench import workload
from licorne_tools.bench.driver import OPTIONS, OWN_CONNECTION
from licorne_tools.bench.isolation.attack import (
    BATCH,
    PARTITION,
    RM,
    Act,
    Site,
    attacker,
    called,
    churn,
    numbers,
)
from licorne_tools.bench.isolation.items import misfits
from licorne_tools.bench.scenarios import Scenario

CALLS = 200_000
APPS, MISFITS, NODES = 1000, 5000, 1000
WATCHERS = 100
STREAMS_PER_CONNECTION = 16
WATCHES = 1000
"""Maximum number of streams that a watcher opens in succession."""
ROUNDS = 2000
# One host may open as many event streams as an RM may have.
EXTRA = {"event.maxStreamsPerHost": str(WATCHERS)}
PATHS = ("queues", "nodes", "applications/active", "queue/root.q0000/applications", "usage/users")
DUMP = "/debug/fullstatedump"

Call = Callable[[], Any]


@asynccontextmanager
async def world(site: Site) -> AsyncIterator[str]:
    """An RM with 1,000 nodes and applications, and 5,000 asks that fit nowhere.

    Yields the id of the application of the asks.
    """
    shape = Scenario("", "", apps=site.part(APPS), nodes=site.part(NODES))
    _, app = next(workload.app_names(shape))
    async with attacker(site, shape) as rm:
        await rm.send(misfits(app, site.part(MISFITS)))
        yield app


@asynccontextmanager
async def explain(site: Site) -> AsyncIterator[Act]:
    """Eight concurrent readers explain asks."""

    def calls(stub: Any, app: str) -> Iterator[Call]:
        for number in numbers(site, CALLS):
            key = f"misfit-{number % site.part(MISFITS):06}"
            request = pb.ExplainRequest(partition=PARTITION, application_id=app, allocation_key=key)
            yield lambda request=request: stub.Explain(request)  # type: ignore[misc]

    async with world(site) as app, reading(site) as stub:
        yield lambda: called(site, calls(stub, app))


@asynccontextmanager
async def lists(site: Site) -> AsyncIterator[Act]:
    """Eight concurrent readers list outstanding asks, applications and nodes."""

    def calls(stub: Any) -> Iterator[Call]:
        wanted = cycle(
            (
                lambda: stub.ListOutstanding(pb.ListOutstandingRequest(partition=PARTITION)),
                lambda: stub.ListApplications(pb.ListApplicationsRequest(partition=PARTITION)),
                lambda: stub.ListNodes(pb.ListNodesRequest(partition=PARTITION)),
            )
        )
        return (next(wanted) for _ in numbers(site, CALLS))

    async with world(site), reading(site) as stub:
        yield lambda: called(site, calls(stub))


@asynccontextmanager
async def reading(site: Site) -> AsyncIterator[Any]:
    """A stub of the State service."""
    async with grpc.aio.insecure_channel(site.target, options=OPTIONS) as channel:
        yield StateStub(channel)


@asynccontextmanager
async def rest(site: Site) -> AsyncIterator[Act]:
    """Eight concurrent readers fetch lists over REST."""
    base = f"/ws/v1/partition/{quote(PARTITION)}"
    async with world(site), fetching(site, [f"{base}/{path}" for path in PATHS]) as act:
        yield act


@asynccontextmanager
async def dump(site: Site) -> AsyncIterator[Act]:
    """Eight concurrent readers fetch the state dump over REST."""
    async with world(site), fetching(site, [DUMP]) as act:
        yield act


@asynccontextmanager
async def fetching(site: Site, paths: list[str]) -> AsyncIterator[Act]:
    """Eight concurrent readers fetch these paths in turn."""
    async with aiohttp.ClientSession(f"http://{site.http}") as session:

        async def fetch(path: str) -> None:
            async with session.get(path) as answer:
                await answer.read()
                site.refused += answer.status != 200

        wanted = cycle(paths)

        def calls() -> Iterator[Call]:
            for _ in numbers(site, CALLS):
                path = next(wanted)
                yield lambda path=path: fetch(path)  # type: ignore[misc]

        yield lambda: called(site, calls())


@asynccontextmanager
async def watchers(site: Site) -> AsyncIterator[Act]:
    """100 watchers of the events of an RM with short-lived allocations."""
    shape = Scenario("", "", apps=1, asks=site.part(BATCH), nodes=100)
    messages = workload.requests(RM, workload.asks(shape), BATCH)
    async with (
        attacker(site, shape, EXTRA) as rm,
        watching(site.target, site.part(WATCHERS)) as stubs,
    ):
        request = pb.WatchEventsRequest(rm_id=RM)

        async def watch(stub: Any) -> None:
            for _ in numbers(site, WATCHES):
                try:
                    async for response in stub.WatchEvents(request):
                        site.acts += len(response.events)
                except grpc.aio.AioRpcError:
                    site.refused += 1

        async def act() -> None:
            await asyncio.gather(churn(site, rm, site.part(ROUNDS), lambda _: messages), *map(watch, stubs))

        yield act


@asynccontextmanager
async def watching(target: str, count: int) -> AsyncIterator[list[Any]]:
    """A stub for each watcher; some share a connection."""
    async with AsyncExitStack() as stack:
        stubs = []
        for _ in range(0, count, STREAMS_PER_CONNECTION):
            channel = grpc.aio.insecure_channel(target, options=OWN_CONNECTION)
            stubs.append(StateStub(await stack.enter_async_context(channel)))
        yield list(islice(cycle(stubs), count))
