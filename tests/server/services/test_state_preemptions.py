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
AT = int(TIME) * 10**9


@pytest.fixture
async def ledger(server: Server, shim: Shim) -> Ledger:
    """That of the partition of an RM."""
    await shim.set_up()
    return server.scheduler.partitions[NAME].ledger


async def every(
    state: "StateAsyncStub", request: pb.ListPreemptionsRequest | None = None
) -> list[pb.Preemption]:
    """All pages of a list."""
    request = request or pb.ListPreemptionsRequest()
    return [item async for item in listed(state.ListPreemptions, request)]


def queue(path: str, first: int) -> pb.PreemptionQueue:
    """A queue as the tests have it, of which all amounts differ."""
    return pb.PreemptionQueue(
        path=path,
        guaranteed={"vcore": first},
        max={"vcore": first + 1},
        allocated={"vcore": first + 2},
        preempting={"vcore": first + 3},
        promised={"vcore": first + 4},
    )


async def test_a_victim_has_all_that_is_known_of_it(state: "StateAsyncStub", ledger: Ledger) -> None:
    """The record has the victim, the beneficiary and the rule, and the queues of that time."""
    ledger.note(victim("v", released=TIME + 1))
    assert await every(state) == [
        pb.Preemption(
            partition=NAME,
            application_id="low",
            allocation_key="v",
            node_id="n1",
            resources={"vcore": 7},
            priority=-3,
            time=AT,
            rule="guarantee",
            beneficiary_application_id="app",
            beneficiary_allocation_key="k",
            beneficiary_priority=9,
            victim_queue=queue("root.low", 100),
            beneficiary_queue=queue("root.high", 200),
            released_time=AT + 10**9,
        )
    ]


@pytest.mark.parametrize("size", [0, 1, 2, 5, 6])
async def test_victims_come_in_pages(state: "StateAsyncStub", ledger: Ledger, size: int) -> None:
    """The latest is first, whatever the page size and the number at one time."""
    for number in range(5):
        ledger.note(victim(f"v{number}", time=TIME + number // 2))
    found = await every(state, pb.ListPreemptionsRequest(page_size=size))
    assert [item.allocation_key for item in found] == ["v4", "v3", "v2", "v1", "v0"]


async def test_pages_go_on_though_there_are_new_victims(state: "StateAsyncStub", ledger: Ledger) -> None:
    """No victim is listed twice; new ones precede the first page."""
    for number in range(4):
        ledger.note(victim(f"v{number}"))
    first = await state.ListPreemptions(pb.ListPreemptionsRequest(page_size=2))
    ledger.note(victim("new", time=TIME + 1))
    rest = await every(state, pb.ListPreemptionsRequest(page_token=first.next_page_token))
    assert [item.allocation_key for item in rest] == ["v1", "v0"]


async def test_pages_end_where_the_ledger_has_forgotten(state: "StateAsyncStub", ledger: Ledger) -> None:
    """The oldest are dropped first: after a dropped victim there are no more."""
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
async def test_a_made_up_token_is_refused(state: "StateAsyncStub", ledger: Ledger, token: str) -> None:
    """A token that no page ended with is an error of its field, not a wrong page."""
    assert len(ledger) == 0
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await state.ListPreemptions(pb.ListPreemptionsRequest(page_token=token))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert violations(refused.value).keys() == {"page_token"}


async def test_an_unknown_partition_is_not_found(state: "StateAsyncStub", shim: Shim) -> None:
    """The status is NOT_FOUND, as for all calls."""
    await shim.register()
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await state.ListPreemptions(pb.ListPreemptionsRequest(partition="nowhere"))
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND


async def test_a_victim_that_is_gone_is_explained(state: "StateAsyncStub", ledger: Ledger) -> None:
    """An explanation of its key names the beneficiary, with the record."""
    ledger.note(victim("v", released=TIME + 1))
    answer = await state.Explain(pb.ExplainRequest(application_id="low", allocation_key="v"))
    assert (answer.verdict, answer.application_id, answer.queue) == ("preempted", "low", "root.low")
    assert answer.summary.startswith("preempted on node n1 for ask k of application app")
    assert [answer.preemption] == await every(state)
    assert not answer.checks
