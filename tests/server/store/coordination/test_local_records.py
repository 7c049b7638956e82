"""The records of the backend `local`, without a socket: effects of time and bounds."""

import pytest

from licorne_core.values.ids import RmId
from licorne_server.store.coordination import local_service
from licorne_server.store.coordination.local_service import Records
from licorne_server.store.coordination.store import LeaseLost, Member, MemberId
from licorne_server.store.documents.documents import Conflict, StoreError

LEASE = 6.0


def member(name: str, load: float = 0.0) -> Member:
    """A member with one RM of this load."""
    return Member(id=MemberId(name), name=name, address=f"unix:/{name}", load={RmId("rm"): load})


A, B = member("a"), member("b")
RM = RmId("rm")


def joined(*members: Member) -> Records:
    """Records with these members since time 0."""
    records = Records()
    for each in members:
        records.join(each, LEASE, 0.0)
    return records


def test_a_lease_ends_exactly_at_its_end() -> None:
    """Until the end of its lease the owner keeps its RM; from that moment on another may claim it."""
    records = joined(A)
    records.join(B, 100.0, 0.0)
    claimed = records.claim(A.id, RM, A.id, None, 0, 1.0)
    records.renew(A, 4.0)
    assert records.next_end() == 4.0 + LEASE
    with pytest.raises(Conflict):
        records.claim(B.id, RM, B.id, claimed, 0, 9.999)
    taken = records.claim(B.id, RM, B.id, claimed, 0, 10.0)
    assert (taken.owner, taken.epoch) == (B.id, 2)
    with pytest.raises(LeaseLost):
        records.renew(A, 10.0)


def test_an_evicted_member_owns_nothing() -> None:
    """The RMs of an evicted member can be claimed at once."""
    records = joined(A, B)
    claimed = records.claim(A.id, RM, A.id, None, 0, 1.0)
    records.end(A.id)
    assert set(records.snapshot(1.0).members) == {B.id}
    assert records.claim(B.id, RM, B.id, claimed, 0, 1.0).owner == B.id


def test_load_does_not_wake_watchers() -> None:
    """Renewals and load are no change for watchers; a drain and the end of a lease are."""
    records = joined(A)
    before = records.changes
    records.renew(member("a", load=0.5), 1.0)
    assert records.changes == before
    assert records.snapshot(1.0).members[A.id].load == {RM: 0.5}
    records.expire(1.0 + LEASE)
    assert records.changes == before + 1


def test_numbers_continue_above_the_start() -> None:
    """A restarted supervisor assigns no epoch and no revision of an earlier one."""
    records = Records()
    records.begin(1_000)
    records.join(A, LEASE, 0.0)
    claimed = records.claim(A.id, RM, A.id, None, 0, 0.0)
    assert (claimed.epoch, claimed.revision) == (1_001, 1_001)


def test_the_record_released_first_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of RMs are bounded. The epoch of a dropped record is not assigned again."""
    monkeypatch.setattr(local_service, "MAX_RECORDS", 2)
    records = joined(A)
    first = records.claim(A.id, RmId("first"), A.id, None, 70, 0.0)
    records.claim(A.id, RmId("second"), A.id, None, 0, 0.0)
    with pytest.raises(StoreError):
        records.claim(A.id, RmId("third"), A.id, None, 0, 0.0)
    records.release(A.id, first)
    records.claim(A.id, RmId("third"), A.id, None, 0, 0.0)
    assert set(records.snapshot(0.0).rms) == {"second", "third"}
    records.release(A.id, records.snapshot(0.0).rms[RmId("second")])
    assert records.claim(A.id, RmId("first"), A.id, None, 0, 0.0).epoch == 72


def test_members_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound new members are refused, and present ones remain."""
    monkeypatch.setattr(local_service, "MAX_MEMBERS", 1)
    records = joined(A)
    with pytest.raises(StoreError, match="1 members"):
        records.join(B, LEASE, 0.0)
    assert set(records.snapshot(0.0).members) == {A.id}
