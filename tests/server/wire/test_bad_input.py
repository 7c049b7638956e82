"""Bad input over the wire: a typed answer for each kind, with bounded work, and no effect on others."""

import itertools
import resource as usage
import time

import grpc
import pytest

from licorne.si.v1 import si_pb2 as si
from licorne_server.assembly.server import Server
from licorne_server.wire.framing import delimited
from support.peers.shim import Call, Shim, application, ask, new_allocations, node, releases, resource

COUNT = itertools.count()
MIB = 1024 * 1024
INVALID = grpc.StatusCode.INVALID_ARGUMENT
SECONDS = 3.0
"""CPU seconds: more than any answer takes, and less than a bomb would take."""

BYTES = 96 * MIB
"""The maximum growth of the process for one request; a bomb would take several times that."""


async def rejection(shim: Shim, call: Call, bad: si.Allocation) -> str:
    """The reason for a rejected ask; the good ask in the same request must be accepted."""
    good = f"good-{next(COUNT)}"
    await shim.ask(call, bad, ask(good, vcore=1))
    reasons: dict[str, str] = {}
    placed: list[str] = []
    while not (reasons and placed):
        response = await call.next()
        placed += [item.allocationKey for item in response.new]
        reasons |= {item.allocationKey: item.reason for item in response.rejectedAllocations}
    assert placed == [good]
    assert list(reasons) == [bad.allocationKey[:512]]
    return reasons[bad.allocationKey[:512]]


@pytest.mark.row(110)
@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (ask(""), "allocationKey is empty"),
        (ask("k", ""), "applicationID is empty"),
        (ask("k", "nobody"), "failed to find application nobody"),
        (ask("k", nodeID="nowhere"), "failed to find node nowhere"),
        (
            ask("k", partitionName="nowhere"),
            "Failed to find partition [rm]nowhere, for application app and allocation k",
        ),
        (
            ask("k", partitionName="[neighbour]default"),
            "Failed to find partition [neighbour]default, for application app and allocation k",
        ),
        (ask("k", vcore=-1), "allocation contains negative resources"),
        (ask("k", vcore=0), "allocation contains no resources"),
        (ask("nul\0"), "allocationKey holds control characters: nul\\x00"),
        (ask("bidi\u202e"), "allocationKey holds control characters: bidi\\u202e"),
        (
            ask("k", resourcePerAlloc=resource(**{"n" * 513: 1})),
            "resourcePerAlloc name has 513 characters, at most 512 are allowed: " + "n" * 64 + "…",
        ),
        (
            ask("k", allocationTags={f"{i:x}": "" for i in range(200_000)}),
            "allocation has more than 200000 entries",
        ),
        (
            ask("k", allocationTags={"tag": "x" * (6 * MIB)}),
            "allocation has 6291494 bytes, at most 6291456 are allowed",
        ),
        (
            ask("k", allocationTags={"tag\t": ""}),
            "allocationTags key holds control characters: tag\\t",
        ),
        (
            ask("k", taskGroupName="a\nb"),
            "taskGroupName holds control characters: a\\nb",
        ),
    ],
)
async def test_bad_asks_are_rejected(
    shim: Shim, streams: tuple[Call, Call, Call], bad: si.Allocation, reason: str
) -> None:
    """A bad ask is rejected with its reason, and the asks beside it are accepted."""
    assert await rejection(shim, streams[0], bad) == reason


async def test_quantities_cannot_overflow_the_books(
    shim: Shim, streams: tuple[Call, Call, Call], server: Server
) -> None:
    """Asks that together exceed int64 are rejected, and sums stay correct."""
    most = 2**63 - 1
    await shim.ask(streams[0], ask("one", vcore=most), ask("two", vcore=most))
    [rejected] = (await streams[0].next()).rejectedAllocations
    assert rejected.allocationKey == "two"
    assert "beyond int64" in rejected.reason
    root = server.scheduler.views.queue(server.scheduler.views.resolve("[rm]default"), "root")
    assert root.pending == {"vcore": most}


async def test_ids_of_100_000_characters_are_rejected(shim: Shim, streams: tuple[Call, Call, Call]) -> None:
    """A giant id is refused in any field, and displayed shortened."""
    giant = "x" * 100_000
    long = "x" * 300_000
    allocations, applications, nodes = streams
    shown = "has 100000 characters, at most 512 are allowed: " + "x" * 64 + "…"
    too_long = "has 300000 characters, at most 262144 are allowed: " + "x" * 64 + "…"
    assert await rejection(shim, allocations, ask(giant)) == f"allocationKey {shown}"
    assert await rejection(shim, allocations, ask("k", long)) == f"applicationID {too_long}"
    # The states of `app`, which has asks now, may arrive in one message or in two.
    verdict = await shim.applications(applications, application(long))
    while not verdict.rejected:
        verdict = await applications.next()
    assert [item.reason for item in verdict.rejected] == [f"applicationID {too_long}"]
    answer = await shim.nodes(nodes, node(giant, vcore=1))
    assert [item.reason for item in answer.rejected] == [f"nodeID {shown}"]


@pytest.mark.slow
async def test_100_000_resource_names_are_rejected(shim: Shim, streams: tuple[Call, Call, Call]) -> None:
    """An item with too many resource names, however big, is refused without being stored."""
    many = resource(**{f"type-{i}": 1 for i in range(100_000)})
    reason = await rejection(shim, streams[0], ask("k", resourcePerAlloc=many))
    assert reason == "resourcePerAlloc has 100000 entries, at most 4096 are allowed"
    huge = resource(**{f"type-{i}": 1 for i in range(250_000)})
    begin = time.process_time()
    reason = await rejection(shim, streams[0], ask("k", resourcePerAlloc=huge))
    assert reason == "allocation has more than 200000 entries"
    assert time.process_time() - begin < SECONDS
    response = await shim.nodes(
        streams[2], si.NodeInfo(nodeID="big", action=si.NodeInfo.CREATE, schedulableResource=huge)
    )
    assert response.rejected[0].reason == "node has more than 200000 entries"


@pytest.mark.parametrize(
    "item",
    [
        pytest.param(b"", id="empty allocations"),
        pytest.param(si.Allocation(allocationKey="k").SerializeToString(), id="tiny allocations"),
    ],
)
async def test_message_of_millions_of_items_is_refused_unparsed(
    shim: Shim, streams: tuple[Call, Call, Call], item: bytes
) -> None:
    """A message of 8 MiB with almost empty items is refused by their number before it is parsed."""
    field = delimited(si.AllocationRequest.ALLOCATIONS_FIELD_NUMBER, item)
    bomb = delimited(3, b"rm") + field * ((8 * MIB - 100) // len(field))
    before = usage.getrusage(usage.RUSAGE_SELF).ru_maxrss
    begin = time.process_time()
    await streams[0].send(bomb)
    assert await streams[0].ending() == (
        INVALID,
        "AllocationRequest holds more than 100000 items",
    )
    assert time.process_time() - begin < SECONDS
    assert (usage.getrusage(usage.RUSAGE_SELF).ru_maxrss - before) * 1024 < BYTES


async def test_8_mib_in_maps_are_rejected(shim: Shim, streams: tuple[Call, Call, Call]) -> None:
    """Maps that fill a message are rejected item by item, with bounded memory."""
    names = {f"{i:03x}": si.Quantity() for i in range(4096)}
    item = si.Allocation(allocationKey="k", resourcePerAlloc=si.Resource(resources=names))
    field = delimited(4, item.SerializeToString())
    bomb = delimited(3, b"rm") + field * ((8 * MIB - 100) // len(field))
    before = usage.getrusage(usage.RUSAGE_SELF).ru_maxrss
    begin = time.process_time()
    await streams[0].send(bomb)
    rejected = (await streams[0].next()).rejectedAllocations
    assert {item.reason for item in rejected} == {
        "applicationID is empty",
    }
    assert time.process_time() - begin < SECONDS
    assert (usage.getrusage(usage.RUSAGE_SELF).ru_maxrss - before) * 1024 < BYTES
    await shim.ask(streams[0], ask("after"))
    assert await new_allocations(streams[0], 1) == {"after": "n0"}


async def test_message_over_8_mib_is_refused_by_the_transport(
    shim: Shim, streams: tuple[Call, Call, Call]
) -> None:
    """A message over the limit ends its stream with RESOURCE_EXHAUSTED; a new one continues."""
    await streams[0].send(delimited(3, b"rm") + delimited(99, bytes(8 * MIB)))
    code, _ = await streams[0].ending()
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    again = shim.open("UpdateAllocation")
    await shim.ask(again, ask("k"))
    assert await new_allocations(again, 1) == {"k": "n0"}


async def test_unknown_enum_values_are_rejected(shim: Shim, streams: tuple[Call, Call, Call]) -> None:
    """An unknown action or termination type is named in a rejection."""
    allocations, _, nodes = streams
    answer = await shim.nodes(
        nodes,
        si.NodeInfo(nodeID="a", action=99),  # type: ignore[arg-type]
        si.NodeInfo(nodeID="b"),
    )
    assert [item.reason for item in answer.rejected] == [
        "node a: unknown action 99",
        "node b: unknown action 0",
    ]
    unknown = si.AllocationRelease(applicationID="app", allocationKey="k")
    unknown.terminationType = 77  # type: ignore[assignment]
    await allocations.send(si.AllocationRequest(rmID="rm", releases=releases(unknown)))
    [rejected] = (await allocations.next()).rejectedAllocations
    assert (rejected.allocationKey, rejected.reason) == (
        "k",
        "release: unknown termination type 77",
    )


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (application(""), "applicationID is empty"),
        (
            application("x", partitionName="nowhere"),
            "Failed to add application x to partition [rm]nowhere, partition doesn't exist",
        ),
        (
            application("x", partitionName="[neighbour]default"),
            "Failed to add application x to partition [neighbour]default, partition doesn't exist",
        ),
        (
            application("x", ugi=si.UserGroupInformation(user="u", groups=["g" * 9] * 30_000)),
            "ugi.groups has 270000 bytes, at most 262144 are allowed",
        ),
        (
            application("x", ugi=si.UserGroupInformation(user="new\nline")),
            "ugi.user holds control characters: new\\nline",
        ),
        (
            application("x", queue="q" * 5000),
            "queueName has 5000 characters, at most 4096 are allowed: " + "q" * 64 + "…",
        ),
    ],
)
async def test_bad_applications_are_rejected(
    shim: Shim, streams: tuple[Call, Call, Call], bad: si.AddApplicationRequest, reason: str
) -> None:
    """A bad application is rejected with its reason, and another in the request is accepted."""
    answers = [await shim.applications(streams[1], bad, application("fine"))]
    while sum(len(answer.accepted) + len(answer.rejected) for answer in answers) < 2:
        answers.append(await streams[1].next())
    assert [item.reason for answer in answers for item in answer.rejected] == [reason]
    assert [item.applicationID for answer in answers for item in answer.accepted] == ["fine"]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (node(""), "nodeID is empty"),
        (node("x", vcore=-5), "node x has a negative capacity: vcore of -5"),
    ],
)
async def test_bad_nodes_are_rejected(
    shim: Shim, streams: tuple[Call, Call, Call], bad: si.NodeInfo, reason: str
) -> None:
    """A bad node is rejected, with a reason."""
    answer = await shim.nodes(streams[2], bad)
    assert [(item.nodeID, item.reason) for item in answer.rejected] == [(bad.nodeID, reason)]
