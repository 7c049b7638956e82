"""The contract of a store about members, owners, snapshots and watches, for every backend.

A backend joins by a name in `BACKENDS` of conftest.py and a fixture of that name.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from licorne_server.store.coordination.store import LeaseLost, MemberId, Ownership, Store
from licorne_server.store.documents.documents import MAX_DOCUMENT, Conflict, Document
from support.coordination.backends import (
    SHORT,
    claimed_at_last,
    insisted,
    member,
    present,
    record,
    rm,
    until,
    watching,
)
from support.patience import PATIENCE

A, B = member("a"), member("b")
ODD = (
    "a/b",
    "..",
    "a%2Fb",
    "Ü ber",
    "a\\b",
    'quote"',
    "new\nline",
    "x" * 200,
    "UPPER",
    "upper",
    "-a-",
    "a.b_c",
)
"""Ids and keys that a backend must escape, or that differ only slightly."""


async def test_a_member_is_published_completely(store: Store, other: Store) -> None:
    """All published fields of a member reach the others unchanged."""
    published = replace(
        A,
        http="https://a.example:9080",
        version="1.2.3",
        protocols=(1, 2),
        started=1_700_000_000.25,
        draining=True,
        load={rm("one"): 0.25, rm("a/b"): 1.5},
    )
    await store.join(published)
    assert (await present(other)).members == {A.id: published}


async def test_a_renewal_publishes_changes(store: Store, other: Store) -> None:
    """A renewal publishes that a member drains."""
    await store.join(A)
    await store.renew(replace(A, draining=True))
    async with watching(other) as snapshots:
        await until(snapshots, lambda seen: seen.members[A.id].draining)


async def test_a_renewal_without_a_change_keeps_the_member(store: Store, other: Store) -> None:
    """Renewals alone change nothing in snapshots."""
    await store.join(A)
    await store.renew(A)
    await store.renew(A)
    assert (await present(other)).members == {A.id: A}


async def test_a_member_that_leaves_is_removed(store: Store, other: Store) -> None:
    """A member that has left is missing from snapshots; leaving twice, or before joining, has no effect."""
    await other.leave()
    await store.join(A)
    await store.leave()
    await store.leave()
    assert (await present(other)).members == {}
    with pytest.raises(LeaseLost):
        await store.renew(A)


async def test_a_member_returns_under_another_id(store: Store, other: Store) -> None:
    """One store serves consecutive runs of a member."""
    await store.join(A)
    await other.join(B)
    await other.evict(A.id)
    with pytest.raises(LeaseLost):
        await store.renew(A)
    again = member("a-again")
    await store.join(again)
    await store.renew(again)
    assert set((await present(other)).members) == {again.id, B.id}


async def test_evicting_an_absent_member_has_no_effect(store: Store) -> None:
    """Evicting a worker that has left already has no effect."""
    await store.join(A)
    await store.evict(MemberId("nobody"))
    assert set((await present(store)).members) == {A.id}


async def test_an_unclaimed_rm_is_claimed(store: Store, other: Store) -> None:
    """The first owner gets the first epoch, and all members read it."""
    await store.join(A)
    claimed = await store.claim(rm("one"), A.id, None, 0)
    assert claimed == Ownership(rm_id=rm("one"), owner=A.id, epoch=1, revision=claimed.revision)
    assert claimed.revision > 0
    assert (await present(other)).rms == {rm("one"): claimed}


async def test_an_epoch_is_above_what_the_rm_knows(store: Store) -> None:
    """A wiped store continues above the epoch of the RM."""
    await store.join(A)
    claimed = await store.claim(rm("one"), A.id, None, 41)
    assert claimed.epoch == 42
    assert (await store.claim(rm("one"), A.id, claimed, 7)).epoch == 43


async def test_an_rm_of_a_living_member_cannot_be_claimed(store: Store, other: Store) -> None:
    """While the owner's lease lasts no other member becomes the owner."""
    await store.join(A)
    await other.join(B)
    claimed = await store.claim(rm("one"), A.id, None, 0)
    with pytest.raises(Conflict):
        await other.claim(rm("one"), B.id, claimed, 0)
    assert await record(other, rm("one")) == claimed


@pytest.mark.parametrize("seen", ["none", "older"])
async def test_a_claim_upon_another_record_is_refused(store: Store, seen: str) -> None:
    """A claim names the record that it replaces; any other record is a conflict, even an own one."""
    await store.join(A)
    first = await store.claim(rm("one"), A.id, None, 0)
    second = await store.claim(rm("one"), A.id, first, 0)
    with pytest.raises(Conflict):
        await store.claim(rm("one"), A.id, None if seen == "none" else first, 0)
    assert await record(store, rm("one")) == second


async def test_a_claim_upon_a_missing_record_is_refused(store: Store) -> None:
    """A claim of a record that the store does not have is a conflict."""
    await store.join(A)
    imagined = Ownership(rm_id=rm("one"), owner=MemberId(""), epoch=5, revision=12345)
    with pytest.raises(Conflict):
        await store.claim(rm("one"), A.id, imagined, 0)
    assert await record(store, rm("one")) is None


@pytest.mark.parametrize("end", ["leave", "evict"])
async def test_an_rm_of_an_ended_member_is_claimed(store: Store, other: Store, end: str) -> None:
    """The record outlives its owner, and the next epoch is higher."""
    await store.join(A)
    await other.join(B)
    claimed = await store.claim(rm("one"), A.id, None, 9)
    await (store.leave() if end == "leave" else other.evict(A.id))
    assert await record(other, rm("one")) == claimed
    taken = await other.claim(rm("one"), B.id, claimed, 0)
    assert (taken.owner, taken.epoch) == (B.id, 11)


async def test_a_lease_ends_by_itself_and_not_before_its_time(opened: Callable[..., Store]) -> None:
    """An owner that has stopped is replaced once its lease has ended, and never earlier."""
    store, other = opened(SHORT), opened()
    await insisted(lambda: store.join(A))
    await other.join(B)
    # It claims for the member that will stop, whose lease is short.
    own = await other.claim(rm("one"), B.id, None, 0)
    await other.claim(rm("one"), A.id, own, 0)
    renewed = time.monotonic()
    await store.renew(A)
    taken = await claimed_at_last(other, rm("one"), B.id)
    assert time.monotonic() - renewed >= store.lease >= SHORT
    assert (taken.owner, taken.epoch) == (B.id, 3)
    with pytest.raises(LeaseLost):
        await insisted(lambda: store.renew(A))


async def test_a_renewed_lease_does_not_end(opened: Callable[..., Store]) -> None:
    """A member that renews keeps its RMs for longer than its lease."""
    store, other = opened(3 * SHORT), opened()
    await insisted(lambda: store.join(A))
    await other.join(B)
    own = await other.claim(rm("one"), B.id, None, 0)
    claimed = await other.claim(rm("one"), A.id, own, 0)
    begun = time.monotonic()
    while time.monotonic() - begun < 4 * SHORT:
        with pytest.raises(Conflict):
            await other.claim(rm("one"), B.id, claimed, 0)
        await insisted(lambda: store.renew(A))
        await asyncio.sleep(0.1)
    assert A.id in (await present(other)).members


async def test_a_released_rm_keeps_its_epoch(store: Store, other: Store) -> None:
    """A released RM has no owner, and anybody may claim it under the next epoch."""
    await store.join(A)
    await other.join(B)
    claimed = await store.claim(rm("one"), A.id, None, 6)
    released = await store.release(claimed)
    assert released == replace(claimed, owner=MemberId(""), revision=released.revision)
    assert await record(other, rm("one")) == released
    assert (await other.claim(rm("one"), B.id, released, 0)).epoch == 8


async def test_only_the_owner_releases_and_only_the_present_record(store: Store, other: Store) -> None:
    """A release by another member, or of an older record, changes nothing."""
    await store.join(A)
    await other.join(B)
    first = await store.claim(rm("one"), A.id, None, 0)
    with pytest.raises(Conflict):
        await other.release(first)
    second = await store.claim(rm("one"), A.id, first, 0)
    with pytest.raises(Conflict):
        await store.release(first)
    assert await record(store, rm("one")) == second
    released = await store.release(second)
    with pytest.raises(Conflict):
        await store.release(released)


async def test_an_owner_hands_an_rm_over(store: Store, other: Store) -> None:
    """A living member that is handed an RM owns it at once, and the time of the move is kept."""
    await store.join(A)
    await other.join(B)
    claimed = await store.claim(rm("one"), A.id, None, 0)
    moved = await store.claim(rm("one"), B.id, claimed, 0)
    assert (moved.owner, moved.epoch) == (B.id, 2)
    assert claimed.moved == 0.0 < moved.moved
    with pytest.raises(Conflict):
        await store.claim(rm("one"), A.id, moved, 0)
    # The time of a move outlives releases and claims, because moves need a pause.
    assert (await other.release(moved)).moved == moved.moved
    seen = await record(other, rm("one"))
    assert (await store.claim(rm("one"), A.id, seen, 0)).moved == moved.moved


async def test_no_rm_is_handed_to_an_absent_member(store: Store, other: Store) -> None:
    """The new owner must have a living lease."""
    await store.join(A)
    await other.join(B)
    claimed = await store.claim(rm("one"), A.id, None, 0)
    await other.leave()
    with pytest.raises(Conflict):
        await store.claim(rm("one"), B.id, claimed, 0)
    with pytest.raises(Conflict):
        await store.claim(rm("two"), MemberId("nobody"), None, 0)
    assert (await present(store)).rms == {rm("one"): claimed}


async def test_a_member_without_a_lease_cannot_claim(store: Store, other: Store) -> None:
    """A member that has not joined, has left or was evicted cannot claim, not even for others."""
    await other.join(B)
    for owner in (A.id, B.id):
        with pytest.raises(Conflict):
            await store.claim(rm("one"), owner, None, 0)
    await store.join(A)
    await other.evict(A.id)
    for owner in (A.id, B.id):
        with pytest.raises(Conflict):
            await store.claim(rm("one"), owner, None, 0)
    assert (await present(other)).rms == {}


async def test_one_of_two_concurrent_claims_succeeds(store: Store, other: Store) -> None:
    """Of two concurrent claims exactly one is carried out, each under a higher epoch."""
    await store.join(A)
    await other.join(B)
    sides = ((store, A.id), (other, B.id))
    seen: Ownership | None = None
    epochs = []
    for _ in range(20):
        claims = [one.claim(rm("one"), owner, seen, 0) for one, owner in sides]
        won = [
            answer
            for answer in await asyncio.gather(*claims, return_exceptions=True)
            if not isinstance(answer, Conflict)
        ]
        [winner] = won
        assert isinstance(winner, Ownership)
        assert await record(store, rm("one")) == winner
        epochs.append(winner.epoch)
        seen = await {owner: one for one, owner in sides}[winner.owner].release(winner)
    assert epochs == list(range(1, 21))


async def test_unusual_ids_are_kept_apart(store: Store, other: Store) -> None:
    """Whatever characters ids and keys have, they do not affect other keys."""
    await store.join(A)
    claimed = {rm(name): await store.claim(rm(name), A.id, None, n) for n, name in enumerate(ODD)}
    for name in ODD:
        await store.compare_and_set(f"shared/{name}", name.encode(), 0)
        await store.compare_and_set(name, b"other " + name.encode(), 0)
    seen = await present(other)
    assert seen.rms == claimed
    assert {key: document.value for key, document in seen.documents.items()} == {
        f"shared/{name}": name.encode() for name in ODD
    }
    for name in ODD:
        assert (await other.read(name)).value == b"other " + name.encode()
    assert set(seen.members) == {A.id}


A = member("a")


async def test_only_shared_documents_are_in_snapshots(store: Store) -> None:
    """A snapshot has exactly the documents with shared keys, including those of the largest size."""
    await store.compare_and_set("configurations/one", b"large", 0)
    small = await store.compare_and_set("shared/budgets/one", b"small", 0)
    value = bytes(range(256)) * (MAX_DOCUMENT // 256)
    large = await store.compare_and_set("shared/large", value, 0)
    assert (await present(store)).documents == {
        "shared/budgets/one": Document(value=b"small", revision=small),
        "shared/large": Document(value=value, revision=large),
    }


async def test_a_watch_shows_each_kind_of_change(store: Store, other: Store) -> None:
    """A watch has additions, changes and removals of members, owners and documents."""
    async with watching(other) as snapshots:
        seen = await until(snapshots, lambda _: True)
        assert (seen.members, seen.rms, seen.documents) == ({}, {}, {})
        await store.join(A)
        await until(snapshots, lambda seen: A.id in seen.members)
        claimed = await store.claim(rm("one"), A.id, None, 0)
        await until(snapshots, lambda seen: seen.rms.get(rm("one")) == claimed)
        await store.release(claimed)
        await until(snapshots, lambda seen: seen.rms[rm("one")].owner == "")
        revision = await store.compare_and_set("shared/one", b"1", 0)
        await until(
            snapshots, lambda seen: seen.documents == {"shared/one": Document(value=b"1", revision=revision)}
        )
        await store.compare_and_set("shared/one", None, revision)
        await until(snapshots, lambda seen: not seen.documents)
        await store.leave()
        await until(snapshots, lambda seen: not seen.members)


async def test_a_watch_continues_without_changes(store: Store) -> None:
    """A watch yields snapshots every few seconds, with or without changes."""
    async with watching(store) as snapshots:
        for _ in range(3):
            await until(snapshots, lambda _: True)


async def test_a_slow_reader_gets_the_newest_snapshot(store: Store, other: Store) -> None:
    """A reader that pauses gets the present state, and not all changes since."""
    await store.join(A)
    async with watching(other) as snapshots:
        await until(snapshots, lambda _: True)
        claimed = None
        for _ in range(100):
            claimed = await store.claim(rm("one"), A.id, claimed, 0)
        shown = 0
        async with asyncio.timeout(PATIENCE):
            async for seen in snapshots:
                shown += 1
                if seen.rms.get(rm("one")) == claimed:
                    break
        assert shown <= 3


async def test_watches_of_one_store_are_independent(store: Store) -> None:
    """The end of a watch does not affect another one."""
    await store.join(A)
    async with watching(store) as one:
        async with watching(store) as another:
            await until(another, lambda _: True)
            await until(one, lambda _: True)
        claimed = await store.claim(rm("one"), A.id, None, 0)
        await until(one, lambda seen: seen.rms == {rm("one"): claimed})


async def test_a_closed_store_keeps_its_lease(opened: Callable[..., Store], other: Store) -> None:
    """A member whose access was closed lives until its lease ends."""
    store = opened()
    await store.join(A)
    await store.close()
    assert A.id in (await present(other)).members
