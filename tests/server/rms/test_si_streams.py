"""`si.v1` over the wire: registration and the three streams (spec § 1.6)."""

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import pytest

from licorne.si.v1 import si_pb2 as si
from support.patience import PATIENCE
from support.peers.shim import (
    Call,
    Shim,
    application,
    ask,
    connected,
    new_allocations,
    node,
    releases,
    resource,
    serving,
    violations,
)

STOPPED = si.STOPPED_BY_RM


def release(key: str, app_id: str = "app") -> si.AllocationRelease:
    """A release by the RM."""
    return si.AllocationRelease(applicationID=app_id, allocationKey=key, terminationType=STOPPED)


@pytest.mark.row(3)
async def test_an_invalid_configuration_fails_the_registration_with_its_place(shim: Shim) -> None:
    """A refused configuration has the place of the error, and a later valid one is accepted."""
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await shim.register("partitions:\n  - name: default\n    queues: [{name: a, hue: 1}]\n")
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    place = "partitions[0].queues[0].hue"
    text = "unknown key 'hue'"
    assert refused.value.details() == f"registration of RM failed: 3:24: {place}: {text}"
    assert violations(refused.value) == {place: f"3:24: {text}"}
    await shim.register()


@pytest.mark.row(9)
async def test_a_full_partition_name_is_accepted(shim: Shim) -> None:
    """`[rm]default` names the RM's own partition on every kind of item."""
    allocations, applications, nodes = await shim.set_up()
    placed = node("n9", vcore=500)
    placed.attributes["si/node-partition"] = "[rm]default"
    assert (await shim.nodes(nodes, placed)).accepted[0].nodeID == "n9"
    other = application("other", partitionName="[rm]default")
    assert (await shim.applications(applications, other)).accepted[0].applicationID == "other"
    await shim.ask(allocations, ask("k", "other", partitionName="[rm]default"))
    assert "k" in await new_allocations(allocations, 1)


@pytest.mark.row(11)
async def test_kinds_of_allocation_answers_are_separate_and_in_order(shim: Shim) -> None:
    """Rejections of a request precede its releases, each in a message of its own."""
    allocations, _, _ = await shim.set_up()
    await shim.ask(allocations, ask("old"))
    await new_allocations(allocations, 1)
    await allocations.send(
        si.AllocationRequest(
            allocations=[ask("bad", "nobody"), ask("", "app"), ask("here", nodeID="n0")],
            releases=releases(release("old")),
        )
    )
    kinds: list[str] = []
    rejected: list[str] = []
    while "released" not in kinds:
        response = await allocations.next()
        present = [field.name for field, _ in response.ListFields()]
        assert len(present) == 1
        kinds += [name for name in present if name not in kinds]
        rejected += [item.reason for item in response.rejectedAllocations]
    assert kinds == ["new", "rejectedAllocations", "released"]
    assert rejected == ["failed to find application nobody", "allocationKey is empty"]


@pytest.mark.row(11)
async def test_applications_are_answered_together_and_before_removals(shim: Shim) -> None:
    """All additions of a request are answered by one message, whatever is removed with them."""
    allocations, applications, _ = await shim.set_up()
    await shim.ask(allocations, ask("k"))
    await new_allocations(allocations, 1)
    states = await applications.next()
    assert {update.state for update in states.updated} <= {"Accepted", "Running"}
    await applications.send(
        si.ApplicationRequest(
            new=[application("one"), application("app"), application("two")],
            remove=[si.RemoveApplicationRequest(applicationID="app")],
        )
    )
    while not (response := await applications.next()).accepted:
        assert response.updated
    assert [item.applicationID for item in response.accepted] == ["one", "two"]
    assert [item.applicationID for item in response.rejected] == ["app"]
    released = (await allocations.next()).released
    assert [item.message for item in released] == ["Application app Removed"]


@pytest.mark.row(18)
async def test_half_closed_stream_is_flushed_and_ended(shim: Shim) -> None:
    """Once the RM has closed its side, its answers are sent, and the stream ends with OK."""
    await shim.register()
    nodes = shim.open("UpdateNode")
    await nodes.send(si.NodeRequest(rmID="rm", nodes=[node("n0", vcore=1)]))
    await nodes.half_close()
    assert (await nodes.next()).accepted[0].nodeID == "n0"
    assert await nodes.ending() == (grpc.StatusCode.OK, "")


@pytest.mark.row(19)
async def test_a_stopping_server_sends_its_decisions() -> None:
    """A drain flushes the streams and ends them with UNAVAILABLE, so that shims reconnect."""
    async with serving(drain=PATIENCE) as server, connected(server) as channel:
        shim = Shim(channel)
        allocations, applications, nodes = await shim.set_up()
        await shim.ask(allocations, ask("k"))
        await new_allocations(allocations, 1)
        stopping = asyncio.create_task(server.stop())
        for call in (allocations, applications, nodes):
            code, text = await call.ending()
            assert code is grpc.StatusCode.UNAVAILABLE
            assert text == "the server is about to stop"
        await stopping


async def test_a_newer_stream_replaces_the_older(shim: Shim) -> None:
    """A second stream of a kind gets the answers; the first ends with ABORTED and a reason."""
    allocations, _, _ = await shim.set_up()
    await shim.ask(allocations, ask("before"))
    await new_allocations(allocations, 1)
    newer = shim.open("UpdateAllocation")
    await shim.ask(newer, ask("k"))
    assert await new_allocations(newer, 1) == {"k": "n0"}
    code, text = await allocations.ending()
    assert code is grpc.StatusCode.ABORTED
    assert text == "taken over by a newer UpdateAllocation stream of RM rm"


async def test_stream_belongs_to_the_rm_of_its_first_message(shim: Shim) -> None:
    """A later message in another RM's name ends the stream and has no other effect."""
    await shim.register()
    await Shim(shim.channel, "other").register()
    nodes = shim.open("UpdateNode")
    await shim.nodes(nodes, node("n0", vcore=1))
    await nodes.send(si.NodeRequest(rmID="other", nodes=[node("n1", vcore=1)]))
    code, text = await nodes.ending()
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert text == "rmID is other on a stream of RM rm"


async def test_large_requests_are_processed_completely(shim: Shim) -> None:
    """Thousands of asks in one message are all placed, though they are handled in slices."""
    allocations, _, _ = await shim.set_up(nodes=10, vcore=1_000_000)
    await shim.ask(allocations, *(ask(f"k{i}") for i in range(3_000)))
    assert len(await new_allocations(allocations, 3_000)) == 3_000


async def test_an_allocation_has_all_fields_of_the_interface(shim: Shim) -> None:
    """A new allocation has its node, and all parts of the ask that the interface has (spec § 1.6.9)."""
    allocations, _, nodes = await shim.set_up(vcore=1)
    await shim.nodes(nodes, node("n1", vcore=1000, pods=5))
    sent = ask(
        "k",
        priority=-7,
        taskGroupName="tg",
        originator=True,
        resourcePerAlloc=resource(vcore=10, pods=1),
        preemptionPolicy=si.PreemptionPolicy(allowPreemptSelf=True),
    )
    await shim.ask(allocations, sent)
    [made] = (await allocations.next()).new
    expected = si.Allocation()
    expected.CopyFrom(sent)
    expected.nodeID, expected.partitionName = "n1", "[rm]default"
    assert made == expected


REQUESTS: tuple[Callable[..., Any], ...] = (
    si.AllocationRequest,
    si.ApplicationRequest,
    si.NodeRequest,
)


@pytest.mark.row(4)
@pytest.mark.parametrize("number", range(3))
async def test_an_unknown_rm_on_an_open_stream_fails(streams: tuple[Call, Call, Call], number: int) -> None:
    """A later request of an unregistered RM fails like the first one."""
    request = REQUESTS[number]
    await streams[number].send(request(rmID="rm"))
    await streams[number].send(request(rmID="x"))
    code, text = await streams[number].ending()
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert text == f'received {request.__name__}, but RmID="x" not registered'


@pytest.mark.row(4)
async def test_a_first_request_without_an_rm_is_refused(shim: Shim) -> None:
    """A stream whose first request names no RM belongs to an unregistered RM."""
    call = shim.open("UpdateNode")
    await call.send(si.NodeRequest())
    code, text = await call.ending()
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert text == 'received NodeRequest, but RmID="" not registered'


async def test_another_rm_on_an_open_stream_is_refused(streams: tuple[Call, Call, Call]) -> None:
    """A request of another registered RM on an open stream is refused."""
    nodes = streams[2]
    await nodes.send(si.NodeRequest(rmID="neighbour"))
    code, text = await nodes.ending()
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert text == "rmID is neighbour on a stream of RM rm"
