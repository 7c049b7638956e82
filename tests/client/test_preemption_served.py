"""Preemption as seen by a resource manager, with the fake RM on a real server."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from licorne import PreemptionCheck, ReleaseRequested, Termination
from licorne_server.testing import FakeRM, VirtualClock, serve
from support.peers.shim import eventually

OWNER = "{name: owner, resources: {guaranteed: {vcore: 2}}, properties: {preemption.delay: 10s}}"
QUEUES = f"""
partitions:
  - name: default
    queues: [{{name: root, submitacl: "*", queues: [{OWNER}, {{name: guest}}]}}]
"""
DELAY = 10.0


@asynccontextmanager
async def occupied(nodes: int = 1, **options: Any) -> AsyncIterator[tuple[FakeRM, VirtualClock]]:
    """Nodes of two cores that guests occupy, and an ask of an owner."""
    clock = VirtualClock()
    async with (
        serve(QUEUES, clock=clock) as server,
        FakeRM(server.target, clock=clock, **options) as rm,
    ):
        await rm.add_nodes(nodes, vcore=2000)
        await rm.submit("guest", queue="root.guest")
        await rm.ask("guest", vcore=1000, originator=True, allow_preempt_self=True)
        await rm.ask("guest", 2 * nodes - 1, vcore=1000, allow_preempt_self=True)
        await rm.allocated(2 * nodes)
        await rm.submit("owner", queue="root.owner")
        await rm.ask("owner", vcore=1000, allow_preempt_other=True)
        await eventually(lambda: server.views.partitions()[0].pending_asks == 1)
        yield rm, clock


def stopped(rm: FakeRM) -> list[str]:
    """The keys of all that was preempted so far."""
    requests = [event for event in rm.events if isinstance(event, ReleaseRequested)]
    assert all(event.termination is Termination.PREEMPTED for event in requests)
    return [event.key for event in requests]


async def test_a_preempted_allocation_is_stopped_and_makes_room() -> None:
    """The originator is spared; the owner runs when the victim has stopped, and not before."""
    async with occupied(stop_after=30) as (rm, clock):
        await clock.advance(DELAY)
        await rm.until(lambda: "guest-2" in rm.containers.stopping, "the preemption")
        await clock.advance(29)
        assert "owner-1" not in rm.allocations
        await clock.advance(1)
        await rm.until(lambda: "owner-1" in rm.allocations, "the owner")
        assert rm.allocations.keys() == {"guest-1", "owner-1"}
        assert stopped(rm) == ["guest-2"]


async def test_the_rm_says_which_victims_have_to_go() -> None:
    """A node that the RM leaves out keeps its allocations; on the other both victims are stopped."""

    def judge(check: PreemptionCheck) -> Mapping[str, int]:
        return {node.node_id: 1 for node in check.nodes if node.node_id == "node-2"}

    async with occupied(nodes=2, predicates=lambda _, node: None, judge_victims=judge) as (
        rm,
        clock,
    ):
        there = {key for key, node in rm.allocations.items() if node == "node-2"}
        await clock.advance(DELAY)
        await rm.until(lambda: "owner-1" in rm.allocations, "the owner")
        assert rm.allocations["owner-1"] == "node-2"
        assert set(stopped(rm)) == there
        [check] = rm.preemption_checks
        assert check.ask is not None
        assert check.ask.key == "owner-1"
        assert {node.node_id for node in check.nodes} == {"node-1", "node-2"}
        assert all(node.start_index == 0 for node in check.nodes)
