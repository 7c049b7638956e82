"""`licorne.v1.State` over the wire: how much the cluster is short of."""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

import grpc
import pytest

from licorne.v1 import state_pb2 as pb
from licorne.v1.state_pb2_grpc import StateStub
from licorne_core.extensions.autoscaler.reports import OutstandingShape
from licorne_core.values.ids import PartitionName
from licorne_server.assembly.server import Server
from licorne_server.reads import paging
from licorne_server.services.state import FRESH_SECONDS
from licorne_server.testing import VirtualClock
from support.core.builders import config
from support.patience import PATIENCE
from support.peers.shim import Shim, application, ask, connected, eventually, new_allocations, node, serving

if TYPE_CHECKING:
    from licorne.v1.state_pb2_grpc import StateAsyncStub

QUEUES = config("[{name: a, resources: {max: {vcore: 600m}}}, {name: b}]")


async def test_what_waits_for_a_larger_cluster_is_counted_by_size(
    shim: Shim, state: "StateAsyncStub"
) -> None:
    """Each size has the number of its asks within their quotas, in total and for each queue."""
    await shim.register(QUEUES)
    await shim.nodes(shim.open("UpdateNode"), node("n0", vcore=10))
    await shim.applications(
        shim.open("UpdateApplication"), application("one", "root.a"), application("two", "root.b")
    )
    allocations = shim.open("UpdateAllocation")
    await shim.ask(allocations, *(ask(f"k{number}", "one", vcore=250) for number in range(4)))
    await shim.ask(allocations, ask("big", "two", vcore=900), ask("k", "two", vcore=250))
    request = pb.ListOutstandingRequest()
    async with asyncio.timeout(PATIENCE):
        while len(shapes := (await state.ListOutstanding(request)).shapes) < 2:
            pass
    small, big = shapes
    assert [small.resources, small.queues] == [{"vcore": 250}, {"root.a": 2, "root.b": 1}]
    assert [big.resources, big.queues] == [{"vcore": 900}, {"root.b": 1}]
    assert (small.count, big.count) == (3, 1)


async def test_a_partition_that_is_short_of_nothing_has_no_shapes(
    shim: Shim, state: "StateAsyncStub"
) -> None:
    """Without waiting asks the list is empty; an unknown partition is NOT_FOUND by name."""
    await shim.set_up()
    assert not (await state.ListOutstanding(pb.ListOutstandingRequest())).shapes
    with pytest.raises(grpc.aio.AioRpcError) as missing:
        await state.ListOutstanding(pb.ListOutstandingRequest(partition="x"))
    assert missing.value.code() is grpc.StatusCode.NOT_FOUND
    assert missing.value.details() == "partition x not found"


async def test_answer_is_made_for_all_who_wait(
    server: Server, shim: Shim, state: "StateAsyncStub", monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is computed once, with other work in between, though the first caller disconnects."""
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


async def test_looks_in_a_row_share_an_answer() -> None:
    """However many calls there are, a partition is examined at most once a second."""
    clock = VirtualClock()
    async with serving(clock=clock) as server, connected(server) as channel:
        shim, state = Shim(channel), StateStub(channel)
        calls = await shim.set_up(vcore=10)
        request = pb.ListOutstandingRequest()
        assert not (await state.ListOutstanding(request)).shapes
        await shim.ask(calls[0], ask("big", vcore=20))
        app = pb.GetApplicationRequest(application_id="app")
        async with asyncio.timeout(PATIENCE):
            while not any(a.scheduling_attempted for a in (await state.GetApplication(app)).asks):
                pass
        await clock.advance(0.9)
        assert not (await state.ListOutstanding(request)).shapes
        await clock.advance(0.1)
        assert [shape.count for shape in (await state.ListOutstanding(request)).shapes] == [1]


async def test_an_answer_has_the_largest_counts_that_fit(
    shim: Shim, state: "StateAsyncStub", monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many sizes there are, the answer is as small as a page of any list."""
    monkeypatch.setattr(paging, "MAX_PAGE_BYTES", 40)
    calls = await shim.set_up(vcore=10)
    sizes = [20, 30, 30, 40, 50, 60]
    await shim.ask(calls[0], *(ask(f"k{i}", vcore=size) for i, size in enumerate(sizes)))
    async with asyncio.timeout(PATIENCE):
        while True:
            response = await state.ListOutstanding(pb.ListOutstandingRequest())
            if response.shapes and response.shapes[0].count == 2:
                break
            await asyncio.sleep(FRESH_SECONDS)
    assert 1 < len(response.shapes) < 5
