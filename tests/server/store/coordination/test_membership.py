"""Losses of RMs by a member, and its departure."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from licorne_core.values.ids import RmId
from licorne_server.store.coordination.store import Member, MemberId, Snapshot
from licorne_server.wire.errors import CallError
from support.coordination.deployment import Deployment, Node

Deploy = Callable[..., Deployment]
RMS = [f"rm{number}" for number in range(12)]


def served_by(node: Node) -> list[str]:
    """The RMs among the given ones that a node serves."""
    return [rm_id for rm_id in RMS if isinstance(node.take(rm_id), int)]


def show(node: Node, snapshot: Snapshot) -> None:
    """Let the node read a snapshot."""
    node.loop.post(node.member._heed, snapshot)


def test_a_newer_record_of_another_owner_ends_an_rm_at_once(deploy: Deploy) -> None:
    """If a replaced store names another owner, the RM ends before the lease is missed."""
    deployment = deploy("a:1")
    (node,) = deployment.nodes
    node.take("rm")
    record = deployment.record("rm")
    show(node, Snapshot(rms={RmId("rm"): replace(record, owner=MemberId("x"), epoch=record.epoch + 1)}))
    deployment.pass_time(0.1)
    assert node.lost == ["rm"]


def test_a_fault_of_the_member_itself_is_reported(deploy: Deploy) -> None:
    """A member whose renewals have ended for good reports that it needs a restart, and decides no more."""
    deployment = deploy("a:1")
    (node,) = deployment.nodes
    node.load_fails = True
    deployment.pass_time(6.0)
    assert node.failed == ["member failed: ZeroDivisionError"]
    assert not node.member.may_decide()


def test_an_old_snapshot_has_no_effect(deploy: Deploy) -> None:
    """Records of lower epochs, and unclaimed records that name this member, have no effect."""
    deployment = deploy("a:1")
    (node,) = deployment.nodes
    node.take("rm")
    record = deployment.record("rm")
    before = replace(record, owner=MemberId("x"), epoch=record.epoch - 1)
    mine = replace(record, rm_id=RmId("other"))
    show(node, Snapshot(rms={RmId("rm"): before, RmId("other"): mine}))
    deployment.pass_time(0.5)
    assert not node.lost
    assert node.member.epoch(RmId("rm")) == record.epoch
    assert node.member.epoch(RmId("other")) == 0


def test_an_rm_whose_record_was_removed_ends(deploy: Deploy) -> None:
    """If the record was deleted, so that any member may claim the RM, its owner stops."""
    deployment = deploy("a:1")
    (node,) = deployment.nodes
    node.take("rm")
    del deployment.store._rms[RmId("rm")]
    deployment.store._changed()
    deployment.pass_time(4.0)
    assert node.lost == ["rm"]


def test_a_snapshot_without_the_record_is_checked(deploy: Deploy) -> None:
    """A snapshot from before the claim does not end the RM."""
    deployment = deploy("a:1")
    (node,) = deployment.nodes
    node.take("rm")
    show(node, Snapshot())
    deployment.pass_time(1.0)
    assert not node.lost


def test_a_draining_member_hands_all_rms_over(deploy: Deploy) -> None:
    """A draining member hands its RMs over one by one, and accepts none any more."""
    deployment = deploy("a:1", "b:1", "c:1")
    first = deployment.nodes[0]
    mine = served_by(first)
    assert mine
    first.drain_seconds = 0.5
    deployment.store.drain("a:1", draining=True)
    deployment.pass_time(2.0 + 0.6 * len(mine))
    assert first.handed_over == sorted(mine)
    assert first.member.counts().moved == len(mine)
    for rm_id in RMS:
        assert deployment.record(rm_id).owner != first.member.me()
        assert isinstance(first.take(rm_id), Member)
    assert isinstance(first.take("another"), Member)


def test_a_draining_member_without_others_keeps_its_rms(deploy: Deploy) -> None:
    """Without others a draining member ends no RM and accepts none; another member gets them later."""
    deployment = deploy("a:1")
    (node,) = deployment.nodes
    epoch = node.take("rm")
    deployment.store.drain("a:1", draining=True)
    deployment.pass_time(4.0)
    assert node.take("rm") == epoch
    with pytest.raises(CallError, match="drains"):
        node.take("other")
    deployment.add("b:1")
    deployment.pass_time(3.0)
    assert isinstance(node.take("rm"), Member)


def test_a_drain_can_be_ended(deploy: Deploy) -> None:
    """A member publishes its drain as long as the document exists, in all of its runs."""
    deployment = deploy("a:1", "b:1")
    first, _ = deployment.nodes
    mine = served_by(first)
    deployment.store.drain("a:1", draining=True)
    deployment.pass_time(5.0)
    assert first.handed_over == sorted(mine)
    assert deployment.store.snapshot.members[first.member.me()].draining
    deployment.store.drain("a:1", draining=False)
    deployment.pass_time(4.0)
    assert not deployment.store.snapshot.members[first.member.me()].draining


def test_a_lost_lease_does_not_end_a_drain(deploy: Deploy) -> None:
    """A draining member that lost its lease drains under its next id, too."""
    deployment = deploy("a:1", "b:1")
    first, _ = deployment.nodes
    deployment.store.drain("a:1", draining=True)
    deployment.pass_time(2.0)
    deployment.store.leave(first.member.me())
    deployment.pass_time(4.0)
    assert first.member.counts().fenced == 1
    assert deployment.store.snapshot.members[first.member.me()].draining


def test_a_member_that_stops_leaves_nothing_behind(deploy: Deploy) -> None:
    """After `stop` its RMs have other owners or none, and its lease has ended."""
    deployment = deploy("a:1", "b:1")
    first, second = deployment.nodes
    mine = served_by(first)
    first.do(first.member.stop())
    assert sorted(first.handed_over) == sorted(mine)
    assert [*deployment.store.snapshot.members] == [second.member.me()]
    assert all(isinstance(second.take(rm_id), int) for rm_id in RMS)
    others = served_by(second)
    second.do(second.member.stop())
    assert {deployment.record(rm_id).owner for rm_id in others} == {""}


def test_a_member_stops_without_the_store(deploy: Deploy) -> None:
    """The member ends its RMs, and waits for the store no longer than a lease."""
    deployment = deploy("a:1")
    (node,) = deployment.nodes
    node.take("rm")
    deployment.store.is_down = True
    before = deployment.time.now
    node.do(node.member.stop())
    assert node.handed_over == ["rm"]
    assert not node.member.may_decide()
    assert deployment.time.now - before < 9.0
