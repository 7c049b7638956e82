"""`si.v1` over the wire: tags, drained nodes, resizes, and foreign allocations (spec §§ 3, 5.3, 7)."""

import pytest

from licorne.si.v1 import si_pb2 as si
from licorne_server.assembly.server import Server
from support.peers.shim import Call, Shim, application, ask, new_allocations, node, releases, resource
from support.server.reports import read_books

CONFIG = """
partitions:
  - name: default
    limits:
      - {limit: bob, users: [bob], maxresources: {vcore: 500m}}
      - {limit: staff, groups: [staff], maxresources: {vcore: 700m}}
    placementrules:
      - {name: tag, value: namespace, create: true}
      - {name: provided}
    queues: [{name: root, submitacl: "*", queues: [{name: a, resources: {max: {vcore: 5}}}]}]
"""
Streams = tuple[Call, Call, Call]


@pytest.fixture
async def calls(shim: Shim) -> Streams:
    """Streams for allocations, applications and nodes, with one node, and an application in root.a."""
    await shim.register(CONFIG)
    allocations, applications, nodes = (
        shim.open(name) for name in ("UpdateAllocation", "UpdateApplication", "UpdateNode")
    )
    await shim.nodes(nodes, node("n0", vcore=10_000))
    await shim.applications(applications, application("app", "root.a"))
    return allocations, applications, nodes


async def accepted(shim: Shim, call: Call, *new: si.AddApplicationRequest) -> None:
    """Submit applications, all of which are accepted."""
    names: list[str] = []
    await call.send(si.ApplicationRequest(rmID=shim.rm_id, new=new))
    while len(names) < len(new):
        answer = await call.next()
        assert not answer.rejected
        names += [item.applicationID for item in answer.accepted]


@pytest.mark.row(83)
async def test_a_namespace_tag_bounds_the_created_queue(shim: Shim, server: Server, calls: Streams) -> None:
    """The tag bounds the queue that was created for the namespace, and no configured queue."""
    allocations, applications, _ = calls
    quota = '{"resources":{"vcore":{"value":"200"}}}'
    tags = {"namespace.resourcequota": quota}
    await accepted(
        shim,
        applications,
        application("made", tags={"namespace": "ns", **tags}),
        application("there", tags={"namespace": "a", **tags}),
    )
    await shim.ask(allocations, *(ask(f"{app}{i}", app) for i in range(4) for app in ("made", "there")))
    placed = await new_allocations(allocations, 6)
    assert set(placed) == {"made0", "made1", "there0", "there1", "there2", "there3"}
    assert (await read_books(server.grpc_address, "rm")).pending == {"made2", "made3"}


@pytest.mark.row(84)
async def test_a_forced_application_is_recovered(shim: Shim, server: Server, calls: Streams) -> None:
    """With the tag an application without a queue is accepted, and without the tag it is rejected."""
    forced = application("forced", "root.none", tags={"application.create.force": "true"})
    answer = await shim.applications(calls[1], forced, application("plain", "root.none"))
    assert [item.applicationID for item in answer.accepted] == ["forced"]
    assert [item.applicationID for item in answer.rejected] == ["plain"]
    books = await read_books(server.grpc_address, "rm")
    assert books.applications["forced"] == ("root.@recovery@", "tester")


@pytest.mark.row(111, 112)
async def test_asks_may_change_their_size_or_node(shim: Shim, server: Server, calls: Streams) -> None:
    """An allocation may grow beyond its queue's maximum, and the RM may place a pending ask itself."""
    allocations, _, _ = calls
    await shim.ask(allocations, ask("runs", vcore=4000), ask("waits", vcore=2000))
    assert await new_allocations(allocations, 1) == {"runs": "n0"}
    await shim.ask(allocations, ask("runs", vcore=6000), ask("waits", vcore=2000, nodeID="n0"))
    assert await new_allocations(allocations, 1) == {"waits": "n0"}
    books = await read_books(server.grpc_address, "rm")
    assert books.queues["root.a"] == ({"vcore": 8000}, {})
    assert books.nodes["n0"][2] == {"vcore": 8000}


@pytest.mark.row(113)
async def test_the_older_ask_is_placed_first(shim: Shim, calls: Streams) -> None:
    """Asks are in the order of their creation tags, and not of arrival."""
    allocations, applications, _ = calls
    await shim.ask(allocations, ask("first", vcore=5000))
    await new_allocations(allocations, 1)
    await accepted(shim, applications, application("old", "root.a"))
    aged = ask("aged", "old", vcore=3000, allocationTags={"creationTime": "1000"})
    await shim.ask(allocations, ask("young", vcore=3000), aged)
    gone = si.AllocationRelease(applicationID="app", allocationKey="first", terminationType=si.STOPPED_BY_RM)
    await allocations.send(si.AllocationRequest(rmID="rm", releases=releases(gone)))
    assert (await allocations.next()).released[0].allocationKey == "first"
    assert await new_allocations(allocations, 1) == {"aged": "n0"}


@pytest.mark.row(116)
async def test_a_drained_node_can_be_used_again(shim: Shim, server: Server, calls: Streams) -> None:
    """Allocations on a drained node continue, and asks wait until the node is schedulable."""
    allocations, _, nodes = calls
    await shim.ask(allocations, ask("stays"))
    await new_allocations(allocations, 1)
    # Draining is not answered, but the creation of another node after it is.
    drained = si.NodeInfo(nodeID="n0", action=si.NodeInfo.DRAIN_NODE)
    await shim.nodes(nodes, drained, node("beside", vcore=0))
    await shim.ask(allocations, ask("waits"), ask("bad", vcore=0))
    assert [item.allocationKey for item in (await allocations.next()).rejectedAllocations] == ["bad"]
    books = await read_books(server.grpc_address, "rm")
    assert (books.allocations, books.pending) == ({"stays": "n0"}, frozenset({"waits"}))
    assert not books.nodes["n0"][0]
    schedulable = si.NodeInfo(nodeID="n0", action=si.NodeInfo.DRAIN_TO_SCHEDULABLE)
    await nodes.send(si.NodeRequest(rmID="rm", nodes=[schedulable]))
    assert await new_allocations(allocations, 1) == {"waits": "n0"}


@pytest.mark.row(122)
async def test_foreign_allocations_only_use_room(shim: Shim, server: Server, calls: Streams) -> None:
    """A foreign allocation is not sent back, counts in no queue, and frees its amounts when it ends."""
    allocations, _, _ = calls
    foreign = si.Allocation(
        allocationKey="pod",
        nodeID="n0",
        allocationTags={"foreign": "default"},
        resourcePerAlloc=resource(vcore=8000),
    )
    await shim.ask(allocations, foreign, ask("waits", vcore=3000), ask("fits", vcore=1000))
    assert await new_allocations(allocations, 1) == {"fits": "n0"}
    books = await read_books(server.grpc_address, "rm")
    assert books.queues["root"] == ({"vcore": 1000}, {"vcore": 3000})
    gone = si.AllocationRelease(allocationKey="pod", terminationType=si.STOPPED_BY_RM)
    await allocations.send(si.AllocationRequest(rmID="rm", releases=releases(gone)))
    assert await new_allocations(allocations, 1) == {"waits": "n0"}


@pytest.mark.row(155, 156, 158)
async def test_users_and_groups_are_limited(shim: Shim, server: Server, calls: Streams) -> None:
    """The limit of Bob applies to all queues, and that of staff to Bob and Sue together."""
    allocations, applications, _ = calls
    of = {name: si.UserGroupInformation(user=name, groups=["staff"]) for name in ("bob", "sue")}
    await accepted(
        shim,
        applications,
        application("b1", "root.a", ugi=of["bob"]),
        application("b2", tags={"namespace": "ns"}, ugi=of["bob"]),
        application("s1", "root.a", ugi=of["sue"]),
    )
    await shim.ask(allocations, *(ask(f"{app}-{i}", app) for app in ("b1", "b2") for i in range(4)))
    assert len(await new_allocations(allocations, 5)) == 5
    await shim.ask(allocations, *(ask(f"s1-{i}", "s1") for i in range(4)))
    assert len(await new_allocations(allocations, 2)) == 2
    assert len((await read_books(server.grpc_address, "rm")).pending) == 5
