"""The lease of a member: renewals, the self-stop, and the consequences of a lost lease."""

from collections.abc import Callable

import pytest

from licorne_core.values.ids import RmId
from licorne_server.store.coordination.lease import MOST_LOADS, RATE_ERROR, SystemMemberClock, stop_after
from licorne_server.store.coordination.store import Snapshot
from licorne_server.wire.errors import CallError
from support.coordination.deployment import LEASE, Deployment

Deploy = Callable[..., Deployment]


@pytest.mark.parametrize("lease", [2.0, 6.0, 15.0, 600.0])
def test_the_self_stop_is_before_any_claim(lease: float) -> None:
    """With a slow clock of the member and a fast one elsewhere, a margin remains for the last decisions."""
    last_decision = stop_after(lease) / (1 - RATE_ERROR)
    first_claim = lease / (1 + RATE_ERROR)
    assert last_decision + lease / 6 <= first_claim
    assert stop_after(lease) > 0.8 * lease


def test_a_paused_process_may_not_decide(deploy: Deploy) -> None:
    """The clock stops a paused member, although none of its timers has run."""
    deployment = deploy("a:1")
    (node,) = deployment.nodes
    node.take("rm")
    node.loop.pause()
    deployment.pass_time(stop_after(LEASE) - 1.2)
    assert node.member.may_decide()
    deployment.pass_time(1.3)
    assert not node.member.may_decide()
    assert not node.lost


def test_the_self_stop_counts_from_the_sending_of_a_renewal(deploy: Deploy) -> None:
    """The time until the answer to a renewal is not available for decisions."""
    deployment = deploy("a:1")
    (node,) = deployment.nodes
    node.weather.slow = 1.0
    deployment.pass_time(5.0)
    renewals = node.member.counts().renewals
    while node.member.counts().renewals == renewals:
        deployment.pass_time(0.01)
    node.network.is_cut_from_store = True
    # Slow answers take 0.9 s at least.
    deployment.pass_time(stop_after(LEASE) - 0.9)
    assert not node.member.may_decide()


def test_a_suspended_machine_may_not_decide(deploy: Deploy) -> None:
    """The time of a suspended machine counts, so an answer from before does not undo the self-stop."""
    deployment = deploy("a:1")
    (node,) = deployment.nodes
    node.take("rm")
    run = node.member.me()
    node.loop.pause(is_suspended=True)
    deployment.pass_time(20.0)
    assert not node.member.may_decide()
    node.loop.resume()
    deployment.pass_time(2.0)
    assert node.lost == ["rm"]
    assert node.member.me() != run


def test_a_member_that_cannot_renew_joins_again(deploy: Deploy) -> None:
    """The member stops in time, ends all RMs once, and joins under a new id when the store is back."""
    deployment = deploy("a:1")
    (node,) = deployment.nodes
    first = node.take("rm")
    run = node.member.me()
    node.network.is_cut_from_store = True
    deployment.pass_time(LEASE)
    assert node.lost == ["rm"]
    assert node.member.epoch(RmId("rm")) == 0
    with pytest.raises(CallError, match="has no lease"):
        node.take("rm")
    node.network.is_cut_from_store = False
    deployment.pass_time(3.0)
    assert node.member.me() != run
    assert node.member.problem() == ""
    assert [*deployment.store.snapshot.members] == [node.member.me()]
    again = node.take("rm")
    assert isinstance(first, int)
    assert isinstance(again, int)
    assert again > first
    assert node.member.counts().fenced == 1


def test_a_removed_lease_is_noticed_within_a_renewal(deploy: Deploy) -> None:
    """A member whose lease was removed ends its RMs with the next renewal."""
    deployment = deploy("a:1")
    (node,) = deployment.nodes
    node.take("rm")
    deployment.store.leave(node.member.me())
    deployment.pass_time(1.2)
    assert node.lost == ["rm"]


def test_a_member_joins_after_all_its_rms_have_ended(deploy: Deploy) -> None:
    """A member neither joins nor decides while an RM of its last run may still be sent something."""
    deployment = deploy("a:1")
    (node,) = deployment.nodes
    node.take("rm")
    node.drain_seconds, node.failures = 2.0, 2
    deployment.store.wipe(Snapshot())
    deployment.pass_time(7.0)
    assert not node.member.may_decide()
    assert not deployment.store.snapshot.members
    assert not node.lost
    deployment.pass_time(3.0)
    assert node.lost == ["rm"]
    assert node.member.may_decide()


def test_a_restart_of_the_store_keeps_the_lease(deploy: Deploy) -> None:
    """A member survives an outage of the store that is shorter than its margin."""
    deployment = deploy("a:1")
    (node,) = deployment.nodes
    epoch = node.take("rm")
    deployment.store.is_down = True
    deployment.pass_time(2.5)
    deployment.store.restart()
    deployment.pass_time(5.0)
    assert node.take("rm") == epoch
    assert not node.lost
    assert node.member.counts().failures > 0
    assert node.member.problem() == ""


def test_an_error_of_the_backend_ends_no_task(deploy: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected exception of the backend counts as a failed renewal."""
    deployment = deploy("a:1")
    (node,) = deployment.nodes
    run = node.member.me()

    async def renew(member: object) -> None:
        raise KeyError(member)

    with monkeypatch.context() as patch:
        patch.setattr(node.store, "renew", renew)
        deployment.pass_time(2.0)
        assert "failed" in node.member.problem()
    deployment.pass_time(2.0)
    assert node.member.problem() == ""
    assert node.member.me() == run


def test_a_full_store_is_reported(deploy: Deploy) -> None:
    """With a full store a member continues to decide, and reports the problem until it is over."""
    deployment = deploy("a:1")
    (node,) = deployment.nodes
    for trouble in ("the store is full", ""):
        node.member.store.trouble = trouble
        deployment.pass_time(2 * LEASE)
        assert node.member.may_decide()
        assert node.member.problem() == trouble


def test_the_load_is_published_and_bounded(deploy: Deploy) -> None:
    """Others get the load of this member with its next renewal, limited to the RMs of highest load."""
    deployment = deploy("a:1")
    (node,) = deployment.nodes
    node.load = {RmId(f"rm{number}"): float(number) for number in range(MOST_LOADS + 5)}
    deployment.pass_time(1.2)
    (member,) = deployment.store.snapshot.members.values()
    assert len(member.load) == MOST_LOADS
    assert min(member.load.values()) == 5.0


def test_the_clock_of_a_machine() -> None:
    """Elapsed time never falls, and the wall clock is Unix time."""
    clock = SystemMemberClock()
    assert clock.elapsed() <= clock.elapsed()
    assert clock.unix() > 1.7e9
