"""Objects of the maximum size in Kubernetes are accepted; allocations count, whatever describes them.

The numbers are those of Kubernetes: 1.5 MiB for an object in etcd, 256 KiB for its annotations,

253 + 1 + 63 characters for the name of a label or resource, 1 MiB for a config map.
"""

from typing import Any

import pytest

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import session_pb2 as sp
from licorne_core.messages.commands import NodeUpdate, UpdateApplications, UpdateNodes
from licorne_core.values.asks import Ask
from licorne_core.values.ids import NodeId, RmId
from licorne_server.assembly.server import Server
from licorne_server.wire.asks import ASK, AskingReader, AskReader
from licorne_server.wire.caps import MAX_ITEM_BYTES, MAX_MESSAGE_BYTES
from licorne_server.wire.framing import APPLICATION_REQUEST, NODE_REQUEST, split
from licorne_server.wire.items import BadItem, take_apart
from licorne_server.wire.requests import application_batch, node_batch
from support.core.steps import at_once, pace
from support.peers.shim import Call, Shim, application, ask, eventually, new_allocations, node, resource

RM = RmId("rm")
KIB = 1024
MOST_LABELS = 174_762
"""1.5 MiB of labels whose names have three characters, with empty values: 9 bytes each."""

LONGEST = "a" * 253 + "/" + "b" * 63
ANNOTATION = "x" * (256 * KIB)
TOO_MUCH = {"note": "x" * MAX_ITEM_BYTES}


def labels(count: int) -> dict[str, str]:
    """Tags as the shim makes them from labels."""
    return {f"kubernetes.io/label/{number:03x}": "" for number in range(count)}


def read_ask(raw: bytes, reader: AskReader | None = None) -> Ask:
    """A large ask, as the reader of a new RM reads it, or another one."""
    return (reader or AskReader(RM)).read_large(at_once(take_apart(raw, ASK, pace())))


@pytest.mark.slow
async def test_pod_with_the_most_labels_is_placed(shim: Shim) -> None:
    """A pod with the most labels that etcd can hold is accepted, and displayed with them."""
    calls = await shim.set_up()
    await shim.ask(calls[0], ask("k", allocationTags=labels(MOST_LABELS)))
    assert await new_allocations(calls[0], 1) == {"k": "n0"}


@pytest.mark.parametrize(
    "reader", [AskReader(RM), AskingReader(RM, sp.BY_ASK), AskingReader(RM, sp.BY_ALL_TAGS)]
)
def test_the_longest_names_of_kubernetes_are_accepted(reader: AskReader) -> None:
    """The longest names of labels and resources fit, and so do the largest annotations."""
    tags = {f"kubernetes.io/label/{LONGEST}": "v" * 63}
    wire = ask(
        "k",
        ANNOTATION,
        allocationTags=tags,
        taskGroupName=ANNOTATION,
        resourcePerAlloc=resource(**{LONGEST: 1}),
    )
    read = read_ask(wire.SerializeToString(), reader)
    assert (read.app_id, read.task_group) == (ANNOTATION, ANNOTATION)
    assert read.tags == tags
    assert read.ask_class.resources == {LONGEST: 1}


async def test_groups_and_tags_of_an_application_are_counted_by_bytes() -> None:
    """All groups that an annotation can name are accepted, and so is any number of tags."""
    groups = [f"{number:x}" for number in range(50_000)]
    new = application("a", ugi=si.UserGroupInformation(user="u" * 1000, groups=groups))
    new.tags.update({f"tag-{number}": "v" for number in range(1000)})
    taken = await read_application(new)
    assert taken.user.groups == tuple(groups)
    assert taken.user.user == "u" * 1000
    assert len(taken.tags) == 1001


async def test_an_invalid_group_is_left_out() -> None:
    """A group with control characters is left out, and its application is accepted."""
    ugi = si.UserGroupInformation(user="u", groups=["a\tb", "dev", "no\u00a0break"])
    assert (await read_application(application("a", ugi=ugi))).user.groups == ("dev",)


async def read_application(wire: si.AddApplicationRequest) -> Any:
    """The application as the core receives it."""
    raw = si.ApplicationRequest(new=[wire]).SerializeToString()
    steps = await application_batch(AskReader(RM), await split(raw, APPLICATION_REQUEST, pace()), 10, pace())
    [step] = steps.steps
    assert isinstance(step, UpdateApplications)
    return step.new[0]


async def test_a_node_with_thousands_of_resources_is_used(shim: Shim) -> None:
    """One node and one ask may have thousands of resources, as device plugins may name them."""
    calls = await shim.set_up()
    types = {f"example.com/device-{number}": 1 for number in range(1000)}
    devices = resource(vcore=1000, **types)
    answer = await shim.nodes(calls[2], si.NodeInfo(nodeID="fat", action=CREATE, schedulableResource=devices))
    assert [item.nodeID for item in answer.accepted] == ["fat"]
    await shim.ask(calls[0], ask("k", resourcePerAlloc=devices))
    assert await new_allocations(calls[0], 1) == {"k": "fat"}


CREATE = si.NodeInfo.CREATE


@pytest.mark.parametrize("tags", [TOO_MUCH, labels(250_000), {"bad\nkey": ""}, {"k" * 513: ""}])
async def test_a_running_allocation_is_accepted_without_its_tags(
    shim: Shim, server: Server, tags: dict[str, str]
) -> None:
    """An allocation with too large tags, its own or a foreign one, is accepted without them."""
    calls = await shim.set_up()
    mine = ask("mine", nodeID="n0", vcore=300, allocationTags=tags)
    await shim.ask(calls[0], mine)
    assert await new_allocations(calls[0], 1) == {"mine": "n0"}
    other = ask("other", "", nodeID="n0", vcore=400, allocationTags={**tags, "Foreign": "static"})
    await shim.ask(calls[0], other)
    views = server.scheduler.views
    partition = views.resolve("[rm]default")
    await eventually(lambda: views.node(partition, "n0").foreign_count)
    report = views.node(partition, "n0")
    assert (report.allocated, report.occupied) == ({"vcore": 300}, {"vcore": 400})
    assert views.foreign_on(partition, "n0")[0].ask.tags == {"Foreign": "static"}


@pytest.mark.parametrize("tags", [TOO_MUCH, labels(250_000), {"bad\nkey": ""}])
def test_pending_ask_keeps_its_tags_or_is_refused(tags: dict[str, str]) -> None:
    """A pending ask with too large tags is rejected, because an RM may judge asks by their tags."""
    with pytest.raises(BadItem):
        read_ask(ask("k", allocationTags=tags).SerializeToString())


def test_tags_with_a_meaning_are_kept() -> None:
    """Creation time and required node are kept, although the other tags are too large."""
    tags = {"creationTime": "1700000000", "yunikorn.apache.org/requiredNode": "n0", **TOO_MUCH}
    read = read_ask(ask("k", nodeID="n0", allocationTags=tags).SerializeToString())
    assert (read.create_time, read.ask_class.required_node) == (1_700_000_000, "n0")
    assert set(read.tags) == set(tags) - set(TOO_MUCH)


def test_a_running_allocation_is_accepted_without_its_task_group() -> None:
    """An invalid task group is left out of an allocation, and rejects an ask."""
    assert read_ask(running(taskGroupName="a\nb")).task_group == ""
    with pytest.raises(BadItem, match="taskGroupName holds control characters"):
        read_ask(ask("k", taskGroupName="a\nb").SerializeToString())


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"allocationKey": ""}, "allocationKey is empty"),
        ({"applicationID": "a\nb"}, "applicationID holds control characters"),
        ({"resourcePerAlloc": resource(**{"r\t": 1})}, "resourcePerAlloc name holds control"),
    ],
)
def test_a_running_allocation_needs_valid_ids_and_amounts(fields: dict[str, Any], reason: str) -> None:
    """An allocation with an invalid id or amount is rejected for that, in spite of too large tags."""
    with pytest.raises(BadItem, match=reason):
        read_ask(running(allocationTags=TOO_MUCH, **fields))


def running(**fields: Any) -> bytes:
    """An allocation on a node, as bytes."""
    wire = ask("k", nodeID="n0")
    wire.MergeFrom(si.Allocation(**fields))
    for name in ("allocationKey", "applicationID"):
        if name in fields:
            setattr(wire, name, fields[name])
    return wire.SerializeToString()


@pytest.mark.parametrize("attributes", [TOO_MUCH, {"bad\nkey": ""}])
async def test_a_node_is_accepted_without_its_attributes(attributes: dict[str, str]) -> None:
    """A node with invalid attributes is accepted without them, as its allocations depend on it."""
    wire = node("n1", vcore=1)
    wire.attributes.update({**attributes, "si/node-partition": "gpu"})
    raw = si.NodeRequest(nodes=[wire]).SerializeToString()
    [step] = (await node_batch(AskReader(RM), await split(raw, NODE_REQUEST, pace()), 10, pace())).steps
    assert isinstance(step, UpdateNodes)
    taken: NodeUpdate = step.nodes[0]
    assert (taken.node_id, taken.partition, taken.capacity) == (NodeId("n1"), "gpu", {"vcore": 1})
    assert taken.attributes == {"si/node-partition": "gpu"}


async def test_an_item_of_empty_fields_is_rejected(shim: Shim, streams: tuple[Call, Call, Call]) -> None:
    """Empty fields of an item are examined up to a number, whatever the item's size."""
    item = b"\x0a\x01k" + b"\x12\x00" * (MAX_ITEM_BYTES // 2 - 100)
    allocations = si.AllocationRequest(rmID="rm").SerializeToString()
    raw = allocations + b"\x22" + length(item) + item
    assert len(raw) < MAX_MESSAGE_BYTES
    await streams[0].send(raw)
    [rejected] = (await streams[0].next()).rejectedAllocations
    assert rejected.allocationKey == "k"
    assert rejected.reason == "allocation has more than 200000 entries"


def length(item: bytes) -> bytes:
    """A length as a varint."""
    return si.Quantity(value=len(item)).SerializeToString()[1:]
