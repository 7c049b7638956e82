"""`licorne.v1.State` over the wire: usage and limits of users and groups."""

from typing import TYPE_CHECKING

import pytest

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import state_pb2 as pb
from licorne.v1.state_pb2_grpc import StateStub
from support.peers.shim import Shim, application, ask, new_allocations, node
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
    """A service with an application of ann in each of two queues, and one of bob."""
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


@pytest.mark.parametrize("size", [0, 1, 2])
async def test_users_are_paged(state: "StateAsyncStub", size: int) -> None:
    """All users are listed by name, whatever the page size."""
    request = pb.ListUsageRequest(page_size=size)
    assert [user.name async for user in listed(state.ListUsage, request)] == ["ann", "bob"]
