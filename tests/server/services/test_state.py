"""`licorne.v1.State` over the wire: reports of the core."""

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import state_pb2 as pb
from support.patience import PATIENCE
from support.peers.shim import Call, Shim, application, ask, connected, new_allocations, node, violations

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
    """An RM with a node of 250 milli-cores, and three asks of 100 of which two run."""
    calls = await shim.set_up(vcore=250)
    await shim.ask(calls[0], *(ask(f"k{i}", priority=-i) for i in range(3)))
    await new_allocations(calls[0], 2)
    return calls


async def test_partitions_come_in_numbers(state: "StateAsyncStub", calls: Any) -> None:
    """A partition shows capacity, usage, counts and applications by state."""
    [partition] = (await state.ListPartitions(pb.ListPartitionsRequest())).partitions
    assert (partition.name, partition.rm_id, partition.state) == ("[rm]default", "rm", "Active")
    assert [partition.capacity, partition.allocated] == [{"vcore": 250}, {"vcore": 200}]
    counts = (partition.nodes, partition.allocations, partition.pending_asks)
    assert counts == (1, 2, 1)
    assert partition.applications == {"Running": 1}
    assert partition.node_sort_policy == "auto"
    assert not partition.holds


async def test_a_partition_shows_what_it_spreads_over(shim: Shim, state: "StateAsyncStub") -> None:
    """The node order includes its attribute."""
    order = "\n    nodesortpolicy: {type: spread, attribute: si/zone}\n    queues:"
    await shim.register(QUEUES.replace("\n    queues:", order, 1))
    [partition] = (await state.ListPartitions(pb.ListPartitionsRequest())).partitions
    assert (partition.node_sort_policy, partition.node_sort_attribute) == ("spread", "si/zone")


async def test_queues_come_parents_first(shim: Shim, state: "StateAsyncStub") -> None:
    """The tree is a list: root first, children by name after their parent."""
    await shim.register(QUEUES)
    queues = (await state.ListQueues(pb.ListQueuesRequest(partition="[rm]default"))).queues
    assert [queue.path for queue in queues] == ["root", "root.a", "root.a.x", "root.b"]
    leaf = queues[2]
    assert (leaf.parent, leaf.is_leaf, leaf.is_managed) == ("root.a", True, True)
    assert [leaf.guaranteed, leaf.max] == [{"vcore": 1000}, {"vcore": 2000}]
    assert queues[3].properties == {"priority.offset": "3"}


async def test_application_shows_what_it_has_and_wants(state: "StateAsyncStub", calls: Any) -> None:
    """One application has its asks, allocations and states; times in nanoseconds."""
    request = pb.GetApplicationRequest(application_id="app")
    found = await state.GetApplication(request)
    assert (found.queue, found.user, found.state) == ("root.ns", "tester", "Running")
    assert [item.allocation_key for item in found.allocations] == ["k0", "k1"]
    [waiting] = found.asks
    assert (waiting.allocation_key, waiting.priority) == ("k2", -2)
    assert waiting.resources == {"vcore": 100}
    assert waiting.request_time > 10**18
    states = [change.state for change in found.state_log]
    assert states == ["New", "Accepted", "Running"]


async def test_applications_come_in_pages(
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
async def test_nodes_come_in_pages(shim: Shim, state: "StateAsyncStub", size: int, counts: list[int]) -> None:
    """Nodes follow one another by id; the last page has no token."""
    await shim.set_up(nodes=5)
    pages = await pages_of(state.ListNodes, pb.ListNodesRequest(page_size=size))
    assert [len(page.nodes) for page in pages] == counts
    assert [item.node_id for page in pages for item in page.nodes] == [f"n{i}" for i in range(5)]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
async def test_queues_come_in_pages(shim: Shim, state: "StateAsyncStub", size: int) -> None:
    """However the tree is cut into pages, it is the same list."""
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


async def test_application_shows_as_much_as_was_asked_for(state: "StateAsyncStub", calls: Any) -> None:
    """A limit cuts asks and allocations after the first in order; the counts are complete."""
    await calls[0].send(si.AllocationRequest(rmID="rm", allocations=[ask("late", priority=-9), ask("first")]))
    request = pb.GetApplicationRequest(application_id="app", limit=1)
    async with asyncio.timeout(PATIENCE):
        while (found := await state.GetApplication(request)).pending_asks < 3:
            pass
    assert [item.allocation_key for item in found.asks] == ["first"]
    assert [item.allocation_key for item in found.allocations] == ["k0"]
    assert found.allocation_count == 2


async def pages_of(method: Any, request: Any) -> list[Any]:
    """All pages of a list."""
    pages = [await method(request)]
    while pages[-1].next_page_token:
        request.page_token = pages[-1].next_page_token
        pages.append(await method(request))
    return pages


@pytest.mark.parametrize(
    ("method", "message"),
    [("Explain", pb.ExplainRequest()), ("GetApplication", pb.GetApplicationRequest())],
)
async def test_application_has_to_be_named(
    shim: Shim, state: "StateAsyncStub", method: str, message: object
) -> None:
    """A request about an application that names none is refused, with the field."""
    await shim.register()
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await getattr(state, method)(message)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert violations(refused.value) == {"application_id": "application_id is empty"}


@pytest.mark.row(109)
async def test_rejected_applications_show_their_reason(shim: Shim, state: "StateAsyncStub") -> None:
    """Applications that were turned away are listed with the reason that their RM got."""
    await shim.register(QUEUES)
    applications = shim.open("UpdateApplication")
    answer = await shim.applications(applications, application("lost", "root.nowhere"))
    page = await state.ListApplications(pb.ListApplicationsRequest(state="rejected"))
    [rejected] = page.applications
    assert (rejected.application_id, rejected.state) == ("lost", "Rejected")
    assert rejected.rejected_message == answer.rejected[0].reason


async def test_explain_shows_the_limit_of_a_user(shim: Shim, state: "StateAsyncStub") -> None:
    """A user's limit is a check of its own kind, with its owner and its counts."""
    limit = "{limit: x, users: [tester], maxresources: {vcore: 100m}}"
    limited = QUEUES.replace("  - name: default\n", f"  - name: default\n    limits: [{limit}]\n")
    await shim.register(limited)
    allocations = shim.open("UpdateAllocation")
    await shim.nodes(shim.open("UpdateNode"), node("n0", vcore=1000))
    await shim.applications(shim.open("UpdateApplication"), application("app", "root.b"))
    await shim.ask(allocations, ask("k0"), ask("k1"))
    await new_allocations(allocations, 1)
    answer = await state.Explain(pb.ExplainRequest(application_id="app", allocation_key="k1"))
    [check] = [check for check in answer.checks if not check.passed]
    assert (check.kind, check.subject) == ("user", "tester in root")
    assert check.code == "USER_QUOTA_EXCEEDED"
    assert [check.requested, check.used, check.limit] == [{"vcore": 100}] * 3


async def test_bare_partition_is_that_of_the_first_rm(shim: Shim, state: "StateAsyncStub") -> None:
    """A bare name means the RM that registered first; brackets name any."""
    await shim.register(QUEUES)
    await Shim(shim.channel, "other").register()
    first = (await state.ListQueues(pb.ListQueuesRequest(partition="default"))).queues
    other = (await state.ListQueues(pb.ListQueuesRequest(partition="[other]default"))).queues
    assert (len(first), len(other)) == (4, 1)
    of_other = await state.ListPartitions(pb.ListPartitionsRequest(rm_id="other"))
    assert [item.name for item in of_other.partitions] == ["[other]default"]


@pytest.mark.parametrize(
    ("method", "request_message", "text"),
    [
        ("ListQueues", pb.ListQueuesRequest(partition="x"), "partition x not found"),
        (
            "GetApplication",
            pb.GetApplicationRequest(application_id="x"),
            "application x not found",
        ),
        (
            "ListApplications",
            pb.ListApplicationsRequest(queue="root.x"),
            "queue root.x not found",
        ),
        ("Explain", pb.ExplainRequest(application_id="x"), "application x not found"),
    ],
)
async def test_what_is_not_there_is_not_found(
    shim: Shim, state: "StateAsyncStub", method: str, request_message: object, text: str
) -> None:
    """Unknown things are NOT_FOUND, by name."""
    await shim.register()
    with pytest.raises(grpc.aio.AioRpcError) as missing:
        await getattr(state, method)(request_message)
    assert missing.value.code() is grpc.StatusCode.NOT_FOUND
    assert missing.value.details() == text


async def test_unknown_state_is_named(shim: Shim, state: "StateAsyncStub") -> None:
    """An invalid state is refused with the valid ones."""
    await shim.register()
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await state.ListApplications(pb.ListApplicationsRequest(state="idle"))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert refused.value.details() == "state idle is none of active, completed, rejected"


async def test_reading_shows_no_half_done_turn(server: Any, state: "StateAsyncStub") -> None:
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
