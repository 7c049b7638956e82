"""`licorne.v1.State` over the wire: the shortage of the cluster."""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from licorne.v1 import state_pb2 as pb
from licorne.v1.state_pb2_grpc import StateStub
from licorne_core.extensions.autoscaler.reports import OutstandingShape
from licorne_core.values.ids import PartitionName
from licorne_server.assembly.server import Server
from licorne_server.reads import paging
from licorne_server.services.state import FRESH_SECONDS
from licorne_server.testing import VirtualClock
from support.patience import PATIENCE
from support.peers.shim import Shim, ask, connected, eventually, new_allocations, serving

if TYPE_CHECKING:
    from licorne.v1.state_pb2_grpc import StateAsyncStub


async def test_concurrent_callers_share_an_answer(
    server: Server, shim: Shim, state: "StateAsyncStub", monkeypatch: pytest.MonkeyPatch
) -> None:
    """One answer is computed, with other work in between, even if the first caller disconnects."""
    calls = await shim.set_up()
    views = server.scheduler.views
    find, looks, go = views.listed, 0, asyncio.Event()

    def find_when_told(name: str, partition: PartitionName) -> Iterator[OutstandingShape | None]:
        nonlocal looks
        looks += 1
        while not go.is_set():
            yield None
        yield from find(name, partition)

    monkeypatch.setattr(views, "listed", find_when_told)
    first, *others = [
        asyncio.ensure_future(state.ListOutstanding(pb.ListOutstandingRequest())) for _ in range(3)
    ]
    await eventually(lambda: looks)
    await shim.ask(calls[0], ask("k"))
    assert await new_allocations(calls[0], 1) == {"k": "n0"}
    first.cancel()
    go.set()
    assert [list((await other).shapes) for other in others] == [[], []]
    assert looks == 1


@pytest.mark.parametrize("moved", ["server", "process"])
async def test_successive_calls_share_an_answer(moved: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition is examined at most once a second, by the clock that is ahead."""
    clocks, request = {"server": VirtualClock(), "process": VirtualClock()}, pb.ListOutstandingRequest()
    monkeypatch.setattr("licorne_server.services.state.monotonic", clocks["process"].now)
    async with serving(clock=clocks["server"]) as server, connected(server) as channel:
        shim, state = Shim(channel), StateStub(channel)
        calls = await shim.set_up(vcore=10)
        assert not (await state.ListOutstanding(request)).shapes
        await shim.ask(calls[0], ask("big", vcore=20))
        app = pb.GetApplicationRequest(application_id="app")
        async with asyncio.timeout(PATIENCE):
            while not any(a.scheduling_attempted for a in (await state.GetApplication(app)).asks):
                pass
        await clocks[moved].advance(0.9)
        assert not (await state.ListOutstanding(request)).shapes
        await clocks[moved].advance(0.1)
        assert [shape.count for shape in (await state.ListOutstanding(request)).shapes] == [1]


async def test_an_answer_has_the_most_frequent_sizes(
    shim: Shim, state: "StateAsyncStub", monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many sizes there are, the answer is as small as a page of any list."""
    monkeypatch.setattr(paging, "MAX_PAGE_BYTES", 40)
    calls = await shim.set_up(vcore=10)
    await shim.ask(calls[0], *(ask(f"k{i}", vcore=size) for i, size in enumerate((20, 30, 30, 40, 50, 60))))
    async with asyncio.timeout(PATIENCE):
        while True:
            response = await state.ListOutstanding(pb.ListOutstandingRequest())
            if response.shapes and response.shapes[0].count == 2:
                break
            await asyncio.sleep(FRESH_SECONDS)
    assert 1 < len(response.shapes) < 5
