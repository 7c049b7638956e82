"""`licorne.v1.State` over the wire: reports of the core."""

from typing import TYPE_CHECKING, Any

import pytest

from licorne.v1 import state_pb2 as pb
from support.peers.shim import Call, Shim, application, ask, connected, new_allocations, node

if TYPE_CHECKING:
    from licorne.v1.state_pb2_grpc import StateAsyncStub

QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: b, properties: {priority.offset: "3"}}
          - name: a
            queues: [{name: x, resources: {guaranteed: {vcore: 1}, max: {vcore: 2}}}]
"""


@pytest.fixture
async def calls(shim: Shim) -> tuple[Call, Call, Call]:
    """An RM with a node of 250 milli-cores, and three asks of 100, two of which run."""
    calls = await shim.set_up(vcore=250)
    await shim.ask(calls[0], *(ask(f"k{i}", priority=-i) for i in range(3)))
    await new_allocations(calls[0], 2)
    return calls


async def test_applications_are_paged(
    shim: Shim, state: "StateAsyncStub", calls: tuple[Call, Call, Call]
) -> None:
    """Pages have the requested size, follow one another, and contain each application once."""
    await calls[1].next()
    await shim.applications(calls[1], *(application(f"app-{i}") for i in range(5)))
    names: list[str] = []
    token = ""
    while True:
        request = pb.ListApplicationsRequest(page_size=2, page_token=token)
        page = await state.ListApplications(request)
        assert len(page.applications) <= 2
        names += [item.application_id for item in page.applications]
        token = page.next_page_token
        if not token:
            break
    assert names == ["app", *(f"app-{i}" for i in range(5))]


@pytest.mark.parametrize(("size", "counts"), [(2, [2, 2, 1]), (5, [5]), (0, [5])])
async def test_nodes_are_paged(shim: Shim, state: "StateAsyncStub", size: int, counts: list[int]) -> None:
    """Nodes follow one another by id, and the last page has no token."""
    await shim.set_up(nodes=5)
    pages = await pages_of(state.ListNodes, pb.ListNodesRequest(page_size=size))
    assert [len(page.nodes) for page in pages] == counts
    assert [item.node_id for page in pages for item in page.nodes] == [f"n{i}" for i in range(5)]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
async def test_queues_are_paged(shim: Shim, state: "StateAsyncStub", size: int) -> None:
    """Whatever the page size, all pages together are the whole tree."""
    await shim.register(QUEUES)
    pages = await pages_of(state.ListQueues, pb.ListQueuesRequest(page_size=size))
    paths = [queue.path for page in pages for queue in page.queues]
    assert paths == ["root", "root.a", "root.a.x", "root.b"]
    assert max(len(page.queues) for page in pages) <= size


async def test_pages_of_large_items_are_short(shim: Shim, state: "StateAsyncStub") -> None:
    """Nodes with long attributes are in pages that a client accepts without special settings."""
    await shim.register()
    nodes = shim.open("UpdateNode")
    names = [f"n{number:03}" for number in range(80)]
    for name in names:
        large = node(name, vcore=1)
        large.attributes.update({f"key{i}": "x" * 500 for i in range(120)})
        await shim.nodes(nodes, large)
    pages = await pages_of(state.ListNodes, pb.ListNodesRequest())
    assert len(pages) > 1
    assert max(page.ByteSize() for page in pages) < 2 * 1024 * 1024
    assert [item.node_id for page in pages for item in page.nodes] == names


async def pages_of(method: Any, request: Any) -> list[Any]:
    """All pages of a list."""
    pages = [await method(request)]
    while pages[-1].next_page_token:
        request.page_token = pages[-1].next_page_token
        pages.append(await method(request))
    return pages


async def test_reads_are_consistent_during_a_turn(server: Any, state: "StateAsyncStub") -> None:
    """Any query during the placement of asks has consistent totals."""
    async with connected(server) as other:
        shim = Shim(other)
        allocations = (await shim.set_up(nodes=5, vcore=1_000_000))[0]
        await shim.ask(allocations, *(ask(f"k{i}", vcore=10) for i in range(4000)))
        placed = 0
        while placed < 4000:
            [partition] = (await state.ListPartitions(pb.ListPartitionsRequest())).partitions
            assert partition.allocated.get("vcore", 0) == 10 * partition.allocations
            placed += len((await allocations.next()).new)
