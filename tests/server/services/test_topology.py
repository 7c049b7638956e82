"""Free room by topology domain, over gRPC, REST, for the page and on the command line."""

from collections import Counter
from collections.abc import AsyncIterator, Callable

import grpc
import pytest

from licorne import TaskGroup
from licorne.v1 import state_pb2 as pb
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.testing import FakeRM, Served, VirtualClock, serve
from support.core.builders import config

CONFIG = config("[{name: default}]", properties="{topology.levels: 'zone,rack'}")
PATHS = ["a", "a/1", "a/2", "b", "b/1"]


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    """Three racks in two zones, with two nodes of four cores each; one ask waits for its only node."""
    async with serve(CONFIG) as server, FakeRM(server.target) as rm:
        for zone, rack in ("a1", "a2", "b1"):
            place = {"zone": zone, "rack": rack}
            await rm.add_nodes(2, prefix=f"{zone}{rack}", attributes=place, vcore=4000)
        await rm.submit("app")
        await rm.ask("app", 2, required_node="a1-1", vcore=1500)
        await rm.ask("app", 1, required_node="a1-1", vcore=3500)
        await rm.allocated(2)
        yield server


async def test_domains_are_paged(server: Served) -> None:
    """Each page has the domains after the one before, for the requested shape."""
    request = pb.ListTopologyRequest(shape={"vcore": 2000}, page_size=2)
    pages = []
    async with grpc.aio.insecure_channel(server.target) as channel:
        while True:
            pages.append(await StateStub(channel).ListTopology(request))
            request.page_token = pages[-1].next_page_token
            if not request.page_token:
                break
    assert [[domain.path for domain in page.domains] for page in pages] == [PATHS[:2], PATHS[2:4], PATHS[4:]]
    assert all(page.levels == ["zone", "rack"] and page.shape == {"vcore": 2000} for page in pages)
    first = pages[0].domains[0]
    assert (first.level, first.nodes, first.schedulable_nodes, first.slots) == ("zone", 4, 4, 6)
    assert (first.capacity["vcore"], first.available["vcore"]) == (16_000, 13_000)


@pytest.mark.parametrize(
    "rack_of",
    [lambda number: number % 3, lambda number: number // 4],
    ids=["names in turn", "names in order"],
)
async def test_single_asks_leave_racks_for_a_waiting_gang(rack_of: Callable[[int], int]) -> None:
    """Twelve asks of a GPU are placed in one of three used racks, and the gang gets another."""
    clock = VirtualClock()
    rack_at: dict[str, str] = {}
    old: list[str] = []
    async with serve(CONFIG, clock=clock) as server, FakeRM(server.target) as rm:
        await rm.submit("old")
        for number in range(12):
            rack = f"r{rack_of(number)}"
            [node] = await rm.add_nodes(
                1, prefix=f"n{number:02}", attributes={"zone": "z", "rack": rack}, gpu=4
            )
            if rack not in rack_at.values():
                old += await rm.ask("old", required_node=node, gpu=1)
            rack_at[node] = rack
        await rm.allocated(3)
        workers = (TaskGroup(name="workers", members=4, resources={"gpu": 4}),)
        await rm.submit("train", task_groups=workers, topology="required=rack")
        await clock.advance(1)
        await rm.submit("small")
        small = await rm.ask("small", 12, gpu=1)
        where = await rm.allocated(15)
        assert Counter(rack_at[where[key]] for key in small) == {"r0": 12}
        await rm.release(old[1:])
        where = await rm.allocated(17)
        members = {rack_at[node] for key, node in where.items() if key not in {*old, *small}}
        assert len(members) == 1
