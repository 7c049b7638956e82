"""`licorne.v1.State` over the wire: usage and limits of users and groups."""

from typing import TYPE_CHECKING, Any

import grpc
import pytest

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import state_pb2 as pb
from licorne.v1.state_pb2_grpc import StateStub
from support.peers.shim import Shim, application, ask, new_allocations, node, violations
from support.server.reports import listed

if TYPE_CHECKING:
    from licorne.v1.state_pb2_grpc import StateAsyncStub

LIMITED = """
partitions:
  - name: default
    limits:
      - {limit: users, users: ["*"], maxresources: {vcore: 300m}, maxapplications: 3}
      - {limit: groups, groups: [dev], maxresources: {vcore: 200m}}
    queues: [{name: root, submitacl: "*", queues: [{name: a}, {name: b}]}]
"""


@pytest.fixture
async def state(shim: Shim) -> "StateAsyncStub":
    """The service, with an application of ann in each of two queues, and one of bob."""
    await shim.register(LIMITED)
    await shim.nodes(shim.open("UpdateNode"), node("n0", vcore=1000))
    ann = si.UserGroupInformation(user="ann", groups=["dev"])
    bob = si.UserGroupInformation(user="bob")
    await shim.applications(
        shim.open("UpdateApplication"),
        application("one", "root.a", ugi=ann),
        application("two", "root.b", ugi=ann),
        application("three", "root.b", ugi=bob),
    )
    allocations = shim.open("UpdateAllocation")
    await shim.ask(allocations, *(ask(f"{name}-0", name) for name in ("one", "two", "three")))
    await new_allocations(allocations, 3)
    return StateStub(shim.channel)


@pytest.mark.row(155, 157, 158)
async def test_a_user_has_a_tree_of_usage(state: "StateAsyncStub") -> None:
    """A user's usage and limits are listed level by level, with the group of each application."""
    [ann] = (await state.ListUsage(pb.ListUsageRequest(name="ann"))).usages
    assert ann.name == "ann"
    assert ann.application_groups == {"one": "dev", "two": "dev"}
    assert (ann.root.queue, ann.root.max_applications) == ("root", 3)
    assert [ann.root.allocated, ann.root.max] == [{"vcore": 200}, {"vcore": 300}]
    assert ann.root.running_applications == ["one", "two"]
    assert [child.queue for child in ann.root.children] == ["root.a", "root.b"]
    assert [child.allocated for child in ann.root.children] == [{"vcore": 100}, {"vcore": 100}]
    assert [child.max for child in ann.root.children] == [{}, {}]


@pytest.mark.row(156)
async def test_groups_have_what_counts_for_them(state: "StateAsyncStub") -> None:
    """Groups are selected by their kind; only those with a limit have usage."""
    answer = await state.ListUsage(pb.ListUsageRequest(kind=pb.USAGE_OF_GROUPS))
    [dev] = answer.usages
    assert dev.name == "dev"
    assert [dev.root.allocated, dev.root.max] == [{"vcore": 200}, {"vcore": 200}]
    assert dev.application_groups == {"one": "dev", "two": "dev"}


@pytest.mark.parametrize("size", [0, 1, 2])
async def test_users_come_in_pages(state: "StateAsyncStub", size: int) -> None:
    """All users are listed by name, whatever the page size."""
    request = pb.ListUsageRequest(page_size=size)
    assert [user.name async for user in listed(state.ListUsage, request)] == ["ann", "bob"]


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (pb.ListUsageRequest(name="eve"), "user eve not found"),
        (pb.ListUsageRequest(name="ann", kind=pb.USAGE_OF_GROUPS), "group ann not found"),
        (pb.ListUsageRequest(partition="x"), "partition x not found"),
    ],
)
async def test_who_is_not_there_is_named(
    state: "StateAsyncStub", wanted: pb.ListUsageRequest, text: str
) -> None:
    """Unknown users, groups and partitions are NOT_FOUND, by name."""
    with pytest.raises(grpc.aio.AioRpcError) as missing:
        await state.ListUsage(wanted)
    assert missing.value.code() is grpc.StatusCode.NOT_FOUND
    assert missing.value.details() == text


async def test_a_kind_has_to_be_known(state: "StateAsyncStub") -> None:
    """An invalid kind is refused with the valid ones."""
    unknown: Any = 7
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await state.ListUsage(pb.ListUsageRequest(kind=unknown))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    text = "kind 7 is none of USAGE_OF_USERS, USAGE_OF_GROUPS"
    assert violations(refused.value) == {"kind": text}
