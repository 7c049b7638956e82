"""Watchers of events, which need a server."""

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc

from licorne.v1.state_pb2 import ListEventsRequest, WatchEventsRequest
from licorne_server.commands.server_process import ServerProcess, running_server
from licorne_tools.bench import workload
from licorne_tools.bench.driver import BenchError, BenchRm, limited
from licorne_tools.bench.growth.world import Cost
from licorne_tools.bench.isolation.readers import EXTRA, watching
from licorne_tools.bench.load import RM, Meter, joined
from licorne_tools.bench.scenarios import Scenario

NODES = 100
BATCH = 200
"""Number of asks after which the watchers catch up, so that none loses events."""

LIMIT_SECONDS = 600.0


def watchers(size: int, work: int) -> Cost:
    """Measure the server's CPU while `size` watchers read the events of asks, until each has read all.

    Raises:
        BenchError: the server failed.
        ServerFailed: the server did not start, or ended early.
    """
    return asyncio.run(_watched(size, work))


async def _watched(size: int, work: int) -> Cost:
    shape = Scenario("", "", asks=work, nodes=NODES, batch=BATCH)
    async with (
        limited(LIMIT_SECONDS),
        running_server() as server,
        joined(server.target, shape, extra=EXTRA) as rm,
        watching(server.target, size) as stubs,
    ):
        return await _place(server, rm, list(map(Watcher, stubs)), shape)


async def _place(server: ServerProcess, rm: BenchRm, audience: Sequence["Watcher"], shape: Scenario) -> Cost:
    """Place all asks in batches, and wait after each batch until all watchers have seen its events."""
    for watcher in audience:
        await watcher.begin()
    asks = list(workload.asks(shape))
    meter = Meter(server.pid)
    for some in workload.batched(asks, BATCH):
        await rm.place(workload.requests(RM, some, BATCH), len(some))
        last = await audience[0].newest()
        await asyncio.gather(*(watcher.see(last) for watcher in audience))
    return Cost(asks=0, taking=0.0, allocations=len(asks), deciding=meter.read().server)


class Watcher:
    """A watcher of the RM's events."""

    def __init__(self, stub: Any) -> None:
        """Open the stream; `begin` waits for its first message."""
        self._stub = stub
        self._call = stub.WatchEvents(WatchEventsRequest(rm_id=RM))
        self._seen = -1

    async def begin(self) -> None:
        """Read the first message, which has no events."""
        await self._call.read()

    async def newest(self) -> int:
        """The id of the newest event."""
        answer = await self._stub.ListEvents(ListEventsRequest(rm_id=RM, count=1))
        return int(answer.highest_id)

    async def see(self, last: int) -> None:
        """Read until the event `last`.

        Raises:
            BenchError: the stream has ended.
        """
        while self._seen < last:
            response = await self._call.read()
            if response is grpc.aio.EOF:
                raise BenchError("a watcher was cut off")
            self._seen = response.events[-1].id
