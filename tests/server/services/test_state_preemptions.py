"""`licorne.v1.State` over the wire: victims, beneficiaries and reasons."""

from typing import TYPE_CHECKING

import grpc
import pytest

from licorne.v1 import state_pb2 as pb
from licorne_core.ledger.stops import Ledger
from licorne_core.values.ids import PartitionName
from licorne_server.assembly.server import Server
from support.core.builders import TIME, victim
from support.peers.shim import Shim, violations
from support.server.reports import listed

if TYPE_CHECKING:
    from licorne.v1.state_pb2_grpc import StateAsyncStub

NAME = PartitionName("[rm]default")


@pytest.fixture
async def ledger(server: Server, shim: Shim) -> Ledger:
    """The ledger of the partition of an RM."""
    await shim.set_up()
    return server.scheduler.partitions[NAME].ledger


async def every(
    state: "StateAsyncStub", request: pb.ListPreemptionsRequest | None = None
) -> list[pb.Preemption]:
    """All pages of a list."""
    request = request or pb.ListPreemptionsRequest()
    return [item async for item in listed(state.ListPreemptions, request)]


@pytest.mark.parametrize("size", [0, 1, 2, 5, 6])
async def test_victims_are_paged(state: "StateAsyncStub", ledger: Ledger, size: int) -> None:
    """The latest is first, whatever the page size and the number at one time."""
    for number in range(5):
        ledger.note(victim(f"v{number}", time=TIME + number // 2))
    found = await every(state, pb.ListPreemptionsRequest(page_size=size))
    assert [item.allocation_key for item in found] == ["v4", "v3", "v2", "v1", "v0"]


async def test_pages_continue_while_there_are_new_victims(state: "StateAsyncStub", ledger: Ledger) -> None:
    """No victim is listed twice, and new ones precede the first page."""
    for number in range(4):
        ledger.note(victim(f"v{number}"))
    first = await state.ListPreemptions(pb.ListPreemptionsRequest(page_size=2))
    ledger.note(victim("new", time=TIME + 1))
    rest = await every(state, pb.ListPreemptionsRequest(page_token=first.next_page_token))
    assert [item.allocation_key for item in rest] == ["v1", "v0"]


async def test_pages_end_at_dropped_victims(state: "StateAsyncStub", ledger: Ledger) -> None:
    """The oldest are dropped first, so no victim follows a dropped one."""
    ledger.note(victim("v"))
    ledger.note(victim("w", time=TIME + 1))
    first = await state.ListPreemptions(pb.ListPreemptionsRequest(page_size=1))
    assert first.next_page_token
    for number in range(10_000):
        ledger.note(victim(f"v{number}", time=TIME + 2))
    request = pb.ListPreemptionsRequest(page_token=first.next_page_token)
    assert await every(state, request) == []


@pytest.mark.parametrize(
    "token", ["v", "[", "{}", "-1", "true", "9" * 19, '[1, "low", "v"]', '["n", 1.0, "a", "k"]']
)
async def test_an_invalid_token_is_refused(state: "StateAsyncStub", ledger: Ledger, token: str) -> None:
    """A token that no page had is an error of its field, not a wrong page."""
    assert len(ledger) == 0
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await state.ListPreemptions(pb.ListPreemptionsRequest(page_token=token))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert violations(refused.value).keys() == {"page_token"}
