"""Preemption as seen by a resource manager, with the fake RM on a real server."""

from collections.abc import Mapping
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


async def test_the_rm_says_which_victims_have_to_go() -> None:
    """A node that the RM leaves out keeps its allocations; on the other both victims are stopped."""

    def judge(check: PreemptionCheck) -> Mapping[str, int]:
        return {node.node_id: 1 for node in check.nodes if node.node_id == "node-2"}

    clock = VirtualClock()
    judging: dict[str, Any] = {"predicates": lambda _, node: None, "judge_victims": judge}
    async with serve(QUEUES, clock=clock) as server, FakeRM(server.target, clock=clock, **judging) as rm:
        await rm.add_nodes(2, vcore=2000)
        await rm.submit("guest", queue="root.guest")
        await rm.ask("guest", 4, vcore=1000, allow_preempt_self=True)
        await rm.allocated(4)
        await rm.submit("owner", queue="root.owner")
        await rm.ask("owner", vcore=1000, allow_preempt_other=True)
        await eventually(lambda: server.views.partitions()[0].pending_asks == 1)
        there = {key for key, node in rm.allocations.items() if node == "node-2"}
        await clock.advance(10.0)
        await rm.until(lambda: "owner-1" in rm.allocations, "the owner")
        assert rm.allocations["owner-1"] == "node-2"
        requests = [event for event in rm.events if isinstance(event, ReleaseRequested)]
        assert all(event.termination is Termination.PREEMPTED for event in requests)
        assert {event.key for event in requests} == there
        [check] = rm.preemption_checks
        assert check.ask is not None
        assert check.ask.key == "owner-1"
        assert {node.node_id for node in check.nodes} == {"node-1", "node-2"}
        assert all(node.start_index == 0 for node in check.nodes)
