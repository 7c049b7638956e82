"""`Membership.take`: an RM has one owner, which serves it."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from licorne_core.values.ids import RmId
from licorne_server.store.coordination.ownership import MAX_EPOCH
from licorne_server.store.coordination.store import Member, MemberId
from licorne_server.wire.errors import CallError
from support.coordination.deployment import LEASE, Deployment, Node

Deploy = Callable[..., Deployment]
RMS = [f"rm{number}" for number in range(12)]


def owner(deployment: Deployment, rm_id: str) -> Node:
    """The node that serves an RM that may have been claimed at any node."""
    for node in deployment.nodes:
        if deployment.record(rm_id).owner == node.member.me():
            return node
    raise AssertionError(f"nobody owns {rm_id}")


def test_a_resume_does_not_raise_the_epoch(deploy: Deploy) -> None:
    """An RM that names its epoch or a lower one is served under the present one."""
    (node,) = deploy("a:1").nodes
    epoch = node.take("rm")
    assert isinstance(epoch, int)
    assert node.take("rm", epoch) == node.take("rm", epoch - 1) == node.take("rm") == epoch


def test_an_epoch_is_above_the_one_that_the_rm_names(deploy: Deploy) -> None:
    """If a store counts from a lower number, it still assigns no epoch that the RM has seen."""
    (node,) = deploy("a:1").nodes
    first = node.take("rm")
    assert isinstance(first, int)
    second = node.take("rm", first + 10**9)
    assert isinstance(second, int)
    assert second > first + 10**9
    assert not node.lost


def test_an_unassigned_epoch_is_refused(deploy: Deploy) -> None:
    """An RM that names an unassigned epoch is refused, so that it cannot use up the numbers."""
    (node,) = deploy("a:1").nodes
    with pytest.raises(CallError, match="given by no server"):
        node.take("rm", MAX_EPOCH + 1)


def test_a_redirect_leads_to_the_owner(deploy: Deploy) -> None:
    """A member claims an RM for the member that it chooses, which serves the RM at once."""
    deployment = deploy("a:1", "b:1", "c:1")
    served = set()
    for number, rm_id in enumerate(RMS):
        answer = deployment.nodes[number % 3].take(rm_id)
        target = owner(deployment, rm_id)
        if isinstance(answer, Member):
            assert answer.address == target.address
            assert isinstance(target.take(rm_id), int)
        for node in deployment.nodes:
            found = node.take(rm_id)
            assert (
                isinstance(found, int)
                if node is target
                else isinstance(found, Member) and found.id == target.member.me()
            )
        served.add(target.address)
    assert served == {"a:1", "b:1", "c:1"}


def test_a_member_reads_the_store_before_it_redirects(deploy: Deploy) -> None:
    """An RM that was claimed for a member is served there, even before the member gets an event."""
    deployment = deploy("a:1", "b:1")
    deployment.store.rereads = False
    first, second = deployment.nodes
    mine = [rm_id for rm_id in RMS if isinstance(first.take(rm_id), int)]
    second.network.is_cut_from_store = True
    handed = deployment.store.claim(
        first.member.me(), RmId(mine[0]), second.member.me(), deployment.record(mine[0]), 0
    )
    deployment.pass_time(0.2)
    second.network.is_cut_from_store = False
    assert isinstance(second.take(mine[0], handed.epoch), int)
    answer = first.take(mine[0])
    assert isinstance(answer, Member)
    assert answer.id == second.member.me()


def test_a_living_owner_keeps_its_rms(deploy: Deploy) -> None:
    """No other member claims the RM before the lease of its owner has ended."""
    deployment = deploy("a:1", "b:1")
    first, second = deployment.nodes
    mine = next(rm_id for rm_id in RMS if isinstance(first.take(rm_id), int))
    first.loop.pause()
    deployment.pass_time(LEASE - 1.1)
    assert isinstance(second.take(mine), Member)
    deployment.pass_time(1.7)
    epoch = second.take(mine)
    assert isinstance(epoch, int)
    assert epoch == deployment.record(mine).epoch


def test_concurrent_requests_for_an_rm_share_a_claim(deploy: Deploy) -> None:
    """Concurrent streams of an RM lead to one claim."""
    deployment = deploy("a:1")
    (node,) = deployment.nodes

    async def both() -> list[int | Member]:
        return await asyncio.gather(*(node.member.take(RmId("rm")) for _ in range(5)))

    assert len(set(node.do(both()))) == 1
    assert deployment.record("rm").revision == 1


def test_one_slow_rm_delays_no_other(deploy: Deploy) -> None:
    """While one RM takes long to end, other RMs are served."""
    (node,) = deploy("a:1").nodes
    node.take("slow")
    node.drain_seconds = 5.0
    record = replace(node.store._model.snapshot.rms[RmId("slow")], owner=MemberId("other"), epoch=2**52)

    async def both() -> tuple[bool, int | Member]:
        snapshot = replace(node.member.snapshot(), rms={RmId("slow"): record})
        node.member._heed(snapshot)
        waiting = asyncio.ensure_future(node.member.take(RmId("slow")))
        answer = await node.member.take(RmId("other"))
        was_done = waiting.done()
        waiting.cancel()
        return was_done, answer

    was_done, answer = node.do(both())
    assert not was_done
    assert isinstance(answer, int)


def test_without_the_store_no_rm_is_claimed(deploy: Deploy) -> None:
    """Without the store RMs are refused for a while, the problem is named, and old data can be read."""
    deployment = deploy("a:1")
    (node,) = deployment.nodes
    epoch = node.take("rm")
    deployment.store.is_down = True
    deployment.pass_time(3.0)
    assert node.take("rm") == epoch
    assert "does not answer" in node.member.problem()
    with pytest.raises(CallError, match="store does not answer"):
        node.take("other")
    assert RmId("rm") in node.member.snapshot().rms


def test_the_lease_of_a_previous_run_is_waited_for(deploy: Deploy) -> None:
    """A restarted member does not redirect to its own address, and claims its RMs after the old lease."""
    deployment = deploy("a:1")
    deployment.nodes[0].take("rm")
    deployment.nodes[0].loop.pause()
    again = deployment.add("a:1")
    with pytest.raises(CallError, match="former run"):
        again.take("rm")
    deployment.pass_time(LEASE + 0.6)
    assert isinstance(again.take("rm"), int)


@pytest.mark.parametrize(("first", "second"), [((1,), (1, 2)), ((1, 2), (1,)), ((1, 2), (2, 3))])
def test_members_with_a_common_version_share_rms(
    deploy: Deploy, first: tuple[int, ...], second: tuple[int, ...]
) -> None:
    """Members with a common version of their protocol hand RMs over to each other."""
    deployment = deploy()
    deployment.nodes = [deployment.add("a:1", first), deployment.add("b:1", second)]
    answers = [deployment.nodes[0].take(rm_id) for rm_id in RMS]
    assert any(isinstance(answer, Member) for answer in answers)
    assert any(isinstance(answer, int) for answer in answers)


def test_members_without_a_common_version_are_left_out(deploy: Deploy) -> None:
    """A member that is too old or too new gets no RM, but its RMs are found."""
    deployment = deploy()
    old, new = deployment.add("a:1", (1,)), deployment.add("b:1", (2,))
    assert all(isinstance(old.take(rm_id), int) for rm_id in RMS[:6])
    assert all(isinstance(new.take(rm_id), int) for rm_id in RMS[6:])
    assert isinstance(new.take(RMS[0]), Member)


def test_the_owner_is_read_from_the_last_snapshot(deploy: Deploy) -> None:
    """`owner_of` returns the other member that serves an RM, by the last snapshot."""
    deployment = deploy("a:1", "b:1")
    first, second = deployment.nodes
    mine = next(rm_id for rm_id in RMS if isinstance(first.take(rm_id), int))
    deployment.pass_time(1.0)
    assert first.member.owner_of(RmId(mine)) is None
    assert first.member.owner_of(RmId("stranger")) is None
    found = second.member.owner_of(RmId(mine))
    assert found is not None
    assert found.id == first.member.me()


def test_a_forgotten_rm_keeps_its_epoch(deploy: Deploy) -> None:
    """An unregistered RM has no owner, and its next epoch is higher."""
    deployment = deploy("a:1")
    (node,) = deployment.nodes
    epoch = node.take("rm")
    node.loop.post(node.member.forget, RmId("rm"))
    deployment.pass_time(0.2)
    assert deployment.record("rm").owner == ""
    assert deployment.record("rm").epoch == epoch
    assert not node.lost
    again = node.take("rm")
    assert isinstance(again, int)
    assert isinstance(epoch, int)
    assert again > epoch


def test_an_rm_that_returns_at_once_is_claimed_again(deploy: Deploy) -> None:
    """An RM that is claimed while it is being forgotten keeps its new registration."""
    deployment = deploy("a:1")
    (node,) = deployment.nodes
    first = node.take("rm")

    async def both() -> int | Member:
        node.member.forget(RmId("rm"))
        return await node.member.take(RmId("rm"))

    again = node.do(both())
    deployment.pass_time(1.0)
    assert again != first
    assert deployment.record("rm").epoch == again
    assert deployment.record("rm").owner == node.member.me()
