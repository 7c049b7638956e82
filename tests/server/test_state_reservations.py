"""`licorne.v1.State` over the wire: reserved nodes, and what asks say of themselves."""

import asyncio
from typing import TYPE_CHECKING

import grpc
import pytest

from licorne.v1 import state_pb2 as pb
from licorne.v1.state_pb2_grpc import StateStub
from licorne_core.apps.application import LogEntry
from licorne_core.ids import AllocationKey, AppId, PartitionName
from licorne_core.partition import Partition
from licorne_server.app import Server
from support.books import listed
from support.shim import PATIENCE, Shim, application, ask, new_allocations, node, violations
from support.waiting import hold, reserve

if TYPE_CHECKING:
    from licorne.v1.state_pb2_grpc import StateAsyncStub

START = 1_000_000.5
TIRED = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: a
            properties:
              application.unschedasks.backoff: "1"
              application.unschedasks.backoff.delay: 1h
"""


@pytest.fixture
async def partition(server: Server, shim: Shim) -> Partition:
    """Three nodes with room for one ask each; of five asks two wait."""
    calls = await shim.set_up(nodes=3, vcore=150)
    await shim.ask(calls[0], *(ask(f"k{i}", priority=-i) for i in range(5)))
    await new_allocations(calls[0], 3)
    return server.scheduler.partitions[PartitionName("[rm]default")]


@pytest.fixture
def state(channel: grpc.aio.Channel) -> "StateAsyncStub":
    """The service."""
    return StateStub(channel)


async def test_a_reservation_is_shown_by_all_it_concerns(
    state: "StateAsyncStub", partition: Partition
) -> None:
    """Node, application, ask and the list of reservations say the same of one reservation."""
    reserve(partition, "app", "k3", "n1", START, required=True)
    [found] = (await state.ListReservations(pb.ListReservationsRequest())).reservations
    assert (found.node_id, found.application_id, found.allocation_key) == ("n1", "app", "k3")
    assert (found.time, found.required) == (1_000_000_500_000_000, True)
    nodes = (await state.ListNodes(pb.ListNodesRequest())).nodes
    assert [list(item.reservations) for item in nodes] == [[], [found], []]
    app = await state.GetApplication(pb.GetApplicationRequest(application_id="app"))
    assert app.reservations == 1
    assert [item.reserved_node for item in app.asks] == ["n1", ""]


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4])
async def test_reservations_come_in_pages(
    state: "StateAsyncStub", partition: Partition, size: int
) -> None:
    """By node and then by time, however many to a page."""
    reserve(partition, "app", "k4", "n2", START)
    reserve(partition, "app", "k3", "n2", START + 1)
    reserve(partition, "app", "k2", "n2", START)
    reserve(partition, "app", "k1", "n0", START + 2)
    request = pb.ListReservationsRequest(page_size=size)
    keys = [item.allocation_key async for item in listed(state.ListReservations, request)]
    assert keys == ["k1", "k2", "k4", "k3"]


@pytest.mark.parametrize("token", ["n2", "[", "{}", '["n2", 1, "app", "k"]', "[" * 100_000])
async def test_a_made_up_token_is_refused(
    state: "StateAsyncStub", partition: Partition, token: str
) -> None:
    """A token that no page ended with is an error of its field, not a wrong page."""
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await state.ListReservations(pb.ListReservationsRequest(page_token=token))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert violations(refused.value).keys() == {"page_token"}


async def test_an_ask_shows_what_became_of_it(
    state: "StateAsyncStub", partition: Partition
) -> None:
    """Why an ask was passed over, and who was told; held ones name the node that is asked about."""
    owner = partition.applications[AppId("app")]
    [run] = owner.runs.values()
    run.attempted = True
    run.told.add(AllocationKey("k4"))
    run.log["Not enough queue quota"] = LogEntry(START, 3)
    held = owner.allocations[AllocationKey("k1")]
    hold(partition, "app", "k1")
    app = await state.GetApplication(pb.GetApplicationRequest(application_id="app"))
    assert [item.allocation_key for item in app.asks] == ["k1", "k3", "k4"]
    assert [item.held_node for item in app.asks] == [held.node_id, "", ""]
    assert [item.triggered_scale_up for item in app.asks] == [False, False, True]
    assert all(item.scheduling_attempted for item in app.asks)
    [entry] = app.asks[1].allocation_log
    assert (entry.message, entry.count) == ("Not enough queue quota", 3)
    assert entry.last_time == 1_000_000_500_000_000
    assert (app.pending_asks, app.allocation_count) == (3, 2)
    nodes = (await state.ListNodes(pb.ListNodesRequest())).nodes
    assert sum(item.allocation_count for item in nodes) == 2


@pytest.mark.row(103)
async def test_a_back_off_and_a_start_have_their_times(shim: Shim, state: "StateAsyncStub") -> None:
    """An application shows since when it runs and until when it rests, in nanoseconds."""
    await shim.register(TIRED)
    await shim.nodes(shim.open("UpdateNode"), *(node(f"n{i}", vcore=10) for i in range(3)))
    await shim.applications(shim.open("UpdateApplication"), application("app", "root.a"))
    allocations = shim.open("UpdateAllocation")
    await shim.ask(allocations, ask("first", vcore=1))
    await new_allocations(allocations, 1)
    await shim.ask(allocations, ask("big", vcore=20, priority=1), ask("small", vcore=1))
    request = pb.ListApplicationsRequest()
    async with asyncio.timeout(PATIENCE):
        while not (app := (await state.ListApplications(request)).applications[0]).backoff_deadline:
            pass
    assert app.start_time > 10**18
    assert app.backoff_deadline > app.start_time + 3000 * 10**9
    assert (app.pending_asks, app.group) == (2, "")
