"""`licorne.v1.State` over the wire: reserved nodes, and reasons of asks."""

import asyncio
from typing import TYPE_CHECKING

import grpc
import pytest

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import state_pb2 as pb
from support.patience import PATIENCE
from support.peers.shim import Call, Shim, ask, new_allocations, releases, violations
from support.server.reports import listed

if TYPE_CHECKING:
    from licorne.v1.state_pb2_grpc import StateAsyncStub


@pytest.fixture
async def calls(shim: Shim) -> tuple[Call, Call, Call]:
    """Three nodes with an allocation each, and two asks that are too large for the cluster."""
    calls = await shim.set_up(nodes=3, vcore=150)
    await shim.ask(calls[0], *(ask(f"k{i}", vcore=451, priority=-i) for i in (3, 4)))
    await shim.ask(calls[0], *(ask(f"k{i}", priority=-i) for i in range(3)))
    await new_allocations(calls[0], 3)
    return calls


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4])
async def test_reservations_are_paged(
    state: "StateAsyncStub", calls: tuple[Call, Call, Call], size: int
) -> None:
    """The order is by node and then by time, whatever the page size."""
    for key, node_id in (("r1", "n2"), ("r0", "n2"), ("r2", "n0"), ("r3", "n2")):
        await reserve(state, calls, key, node_id)
    request = pb.ListReservationsRequest(page_size=size)
    keys = [item.allocation_key async for item in listed(state.ListReservations, request)]
    assert keys == ["r2", "r1", "r0", "r3"]


async def test_pages_continue_after_an_ended_reservation(
    state: "StateAsyncStub", calls: tuple[Call, Call, Call]
) -> None:
    """The end of a page is a valid token even after its reservation has ended."""
    for key in ("r0", "r1", "r2"):
        await reserve(state, calls, key, "n1")
    first = await state.ListReservations(pb.ListReservationsRequest(page_size=2))
    ended = si.AllocationRelease(applicationID="app", allocationKey="r1")
    await calls[0].send(si.AllocationRequest(rmID="rm", releases=releases(ended)))
    async with asyncio.timeout(PATIENCE):
        while len((await state.ListReservations(pb.ListReservationsRequest())).reservations) > 2:
            pass
    request = pb.ListReservationsRequest(page_token=first.next_page_token)
    rest = (await state.ListReservations(request)).reservations
    assert [item.allocation_key for item in rest] == ["r2"]


async def reserve(state: "StateAsyncStub", calls: tuple[Call, Call, Call], key: str, node_id: str) -> None:
    """Submit an ask for more than is free on a node, and wait until the node is reserved."""
    tags = {"yunikorn.apache.org/requiredNode": node_id}
    wanted = ask(key, vcore=60, allocationTags=tags)
    await calls[0].send(si.AllocationRequest(rmID="rm", allocations=[wanted]))
    async with asyncio.timeout(PATIENCE):
        while True:
            found = (await state.ListReservations(pb.ListReservationsRequest())).reservations
            if key in [item.allocation_key for item in found]:
                return


@pytest.mark.parametrize("token", ["n2", "[", "{}", '["n2", 1, "app", "k"]', "[" * 100_000])
async def test_an_invalid_token_is_refused(state: "StateAsyncStub", shim: Shim, token: str) -> None:
    """A token that no page had is an error of its field, not a wrong page."""
    await shim.register()
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await state.ListReservations(pb.ListReservationsRequest(page_token=token))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert violations(refused.value).keys() == {"page_token"}
