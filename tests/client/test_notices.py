"""Notices of preemption, and victims chosen by an RM, on a real server."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from licorne import Client, PreemptionCheck, ReleaseRequested, Termination
from licorne_server.testing import FakeRM, VirtualClock, serve
from support.peers.shim import eventually

QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: owner
            resources: {guaranteed: {vcore: 2}}
            properties: {preemption.delay: 10s, preemption.victim.order: cost}
          - name: guest
            properties: {preemption.notice: 60s}
"""


@asynccontextmanager
async def noticed() -> AsyncIterator[tuple[FakeRM, VirtualClock]]:
    """A node full of guests, the second of which has just saved its work, and an ask of an owner."""
    clock = VirtualClock()
    async with (
        serve(QUEUES, clock=clock) as server,
        FakeRM(server.target, clock=clock) as rm,
    ):
        await rm.add_nodes(1, vcore=2000)
        await rm.submit("guest", queue="root.guest")
        await rm.ask("guest", 2, vcore=1000, allow_preempt_self=True)
        await rm.allocated(2)
        await clock.advance(100)
        await rm.client.preemption.checkpoint("guest-2", int(clock.now()) - 5)
        await rm.client.preemption.checkpoint("guest-1", int(clock.now()) - 50)
        await rm.submit("owner", queue="root.owner")
        await rm.ask("owner", vcore=1000, allow_preempt_other=True)
        await eventually(lambda: server.views.partitions()[0].pending_asks == 1)
        await clock.advance(10)
        await rm.until(lambda: bool(rm.notices), "a notice")
        yield rm, clock


async def test_the_victim_with_the_least_loss_gets_a_notice() -> None:
    """The notice has victim, beneficiary, deadline and loss; nothing is stopped before the deadline."""
    async with noticed() as (rm, clock):
        [notice] = rm.notices
        assert (notice.key, notice.beneficiary_key, notice.queue) == ("guest-2", "owner-1", "root.owner")
        assert (notice.deadline - clock.now(), notice.lost_seconds) == (60, 15)
        await clock.advance(59)
        assert "owner-1" not in rm.allocations
        await clock.advance(1)
        await rm.until(lambda: "owner-1" in rm.allocations, "the owner")
        assert rm.allocations.keys() == {"guest-1", "owner-1"}


async def test_a_checkpoint_counts_before_the_following_answer() -> None:
    """An RM that saves its work and then answers that it is ready loses nothing."""
    async with noticed() as (rm, clock):
        await rm.client.preemption.checkpoint("guest-2", int(clock.now()))
        await rm.client.preemption.ready("guest-2")
        await rm.until(lambda: "owner-1" in rm.allocations, "the owner")
        [victim] = await rm.client.state.preemptions()
        assert victim.lost < 1


async def test_a_victim_may_be_ready_after_a_while() -> None:
    """The victim is stopped at the time in the RM's answer."""
    async with noticed() as (rm, clock):
        await rm.client.preemption.ready("guest-2", after=20)
        await clock.advance(30)
        await rm.until(lambda: "owner-1" in rm.allocations, "the owner")


async def test_an_unnecessary_notice_is_withdrawn() -> None:
    """When the beneficiary is released, the RM is notified, and the victim continues."""
    async with noticed() as (rm, clock):
        await rm.release(["owner-1"])
        await rm.until(lambda: len(rm.notices) > 1, "the withdrawal")
        assert (rm.notices[1].key, rm.notices[1].withdrawn) == ("guest-2", True)
        await clock.advance(100)
        assert rm.allocations.keys() == {"guest-1", "guest-2"}


async def test_answers_are_checked_before_they_are_sent() -> None:
    """A time that cannot be sent is refused; an unknown key has no answer."""
    client = Client("127.0.0.1:1", rm_id="rm1")
    with pytest.raises(ValueError, match="after is -1"):
        await client.preemption.ready("k", after=-1)
    with pytest.raises(ValueError, match="time is -5"):
        await client.preemption.checkpoint("k", -5)
    await client.preemption.ready("k")
    await client.preemption.checkpoint("k", 5)


OWNER = "{name: owner, resources: {guaranteed: {vcore: 2}}, properties: {preemption.delay: 10s}}"
UNNOTICED = f"""
partitions:
  - name: default
    queues: [{{name: root, submitacl: "*", queues: [{OWNER}, {{name: guest}}]}}]
"""


async def test_the_rm_chooses_the_victims() -> None:
    """A node that the RM leaves out keeps its allocations; on the other node both victims are stopped."""

    def judge(check: PreemptionCheck) -> Mapping[str, int]:
        return {node.node_id: 1 for node in check.nodes if node.node_id == "node-2"}

    clock = VirtualClock()
    judging: dict[str, Any] = {"predicates": lambda _, node: None, "judge_victims": judge}
    async with serve(UNNOTICED, clock=clock) as server, FakeRM(server.target, clock=clock, **judging) as rm:
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
