"""Ends of leases in Kubernetes: judged by each observer's own clock, and fenced before they count."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from licorne_server.store.coordination.kubernetes import KubernetesStore
from licorne_server.store.coordination.kubernetes.objects import ENDED
from licorne_server.store.coordination.kubernetes.sightings import Sightings
from licorne_server.store.coordination.store import LeaseLost, MemberId, Ownership
from licorne_server.store.documents.documents import Conflict, Document
from support.coordination.api_server import ApiServer
from support.coordination.backends import member, present, record, rm, until, watching
from support.coordination.kubernetes import HandClock, KubernetesBackend

A, B, C = member("a"), member("b"), member("c")
ONE = rm("one")
LEASE = 15.0
STEP = 5.0


@pytest.fixture
def clock() -> HandClock:
    """The clock of the observer `other`."""
    return HandClock()


@pytest.fixture
async def pair(
    kubernetes_backend: KubernetesBackend, clock: HandClock
) -> AsyncIterator[tuple[KubernetesStore, KubernetesStore]]:
    """The owner of an RM, and an observer with a clock of the test, both joined."""
    owner, other = kubernetes_backend.open(LEASE), kubernetes_backend.open(LEASE, clock)
    await owner.join(A)
    await other.join(B)
    yield owner, other
    await owner.close()
    await other.close()


async def refused(other: KubernetesStore, seen: Ownership) -> None:
    """The other member tries to claim the RM, and cannot."""
    with pytest.raises(Conflict):
        await other.claim(ONE, B.id, seen, 0)


async def goes_by(clock: HandClock, seconds: float, look: Callable[[], Awaitable[None]]) -> None:
    """Advance the time of an observer who looks repeatedly."""
    end = clock.now + seconds
    while clock.now < end:
        clock.now = min(end, clock.now + STEP)
        await look()


async def test_an_observer_waits_for_a_whole_lease_of_its_own_clock(
    pair: tuple[KubernetesStore, KubernetesStore], clock: HandClock
) -> None:
    """A Lease is over once its version has not changed for the lease since the observer first saw it."""
    owner, other = pair
    claimed = await owner.claim(ONE, A.id, None, 0)
    await refused(other, claimed)
    await goes_by(clock, LEASE - 1, lambda: refused(other, claimed))
    clock.now += 1
    taken = await other.claim(ONE, B.id, claimed, 0)
    assert (taken.owner, taken.epoch) == (B.id, 2)
    with pytest.raises(LeaseLost):
        await owner.renew(A)


async def test_wall_clocks_do_not_matter(
    pair: tuple[KubernetesStore, KubernetesStore], clock: HandClock, api: ApiServer
) -> None:
    """A renewal time of another century neither ends a lease nor keeps it."""
    owner, other = pair
    claimed = await owner.claim(ONE, A.id, None, 0)
    for year in ("1970", "2190"):

        def set_clock(lease: dict[str, object], year: str = year) -> None:
            spec = lease["spec"]
            assert isinstance(spec, dict)
            spec["renewTime"] = f"{year}-01-01T00:00:00.000000Z"

        api.cluster.edit("leases", "member.a.", set_clock)
        await refused(other, claimed)
        await goes_by(clock, LEASE - 1, lambda: refused(other, claimed))
    clock.now += 1
    assert (await other.claim(ONE, B.id, claimed, 0)).owner == B.id


async def test_a_renewal_counts_though_the_wall_clock_stands_still(
    pair: tuple[KubernetesStore, KubernetesStore], api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every renewal gives the Lease another version, unlike an update without a change."""
    owner, _ = pair
    monkeypatch.setattr(
        "licorne_server.store.coordination.kubernetes.store.time.time", lambda: 1_700_000_000.0
    )
    versions = set()
    for _ in range(3):
        await owner.renew(A)
        versions.add(api.cluster.named("leases", "member.a.")["metadata"]["resourceVersion"])
    assert len(versions) == 3


async def test_a_member_that_comes_back_between_look_and_write_keeps_its_rms(
    pair: tuple[KubernetesStore, KubernetesStore], clock: HandClock, api: ApiServer
) -> None:
    """A claim that hangs after its look at the old owner's Lease is too late after a renewal."""
    owner, other = pair
    claimed = await owner.claim(ONE, A.id, None, 0)
    await refused(other, claimed)
    await goes_by(clock, LEASE - 1, lambda: refused(other, claimed))
    clock.now += 1
    pause = asyncio.Event()
    marking = api.fail("update", "leases", hold=pause)
    claim = asyncio.create_task(other.claim(ONE, B.id, claimed, 0))
    await api.until(lambda: bool(marking.seen))
    await owner.renew(A)
    pause.set()
    with pytest.raises(Conflict):
        await claim
    assert await record(owner, ONE) == claimed
    await owner.renew(A)


async def test_a_claim_that_was_paused_after_the_mark_does_not_take_the_rm_from_its_new_owner(
    pair: tuple[KubernetesStore, KubernetesStore],
    kubernetes_backend: KubernetesBackend,
    clock: HandClock,
    api: ApiServer,
) -> None:
    """Between the mark and the write of the record anybody else may claim; the write is a conflict then."""
    owner, other = pair
    third = kubernetes_backend.open(LEASE)
    await third.join(C)
    claimed = await owner.claim(ONE, A.id, None, 0)
    await owner.leave()
    pause = asyncio.Event()
    writing = api.fail("update", "leases", hold=pause)
    claim = asyncio.create_task(other.claim(ONE, B.id, claimed, 0))
    await api.until(lambda: bool(writing.seen))
    taken = await third.claim(ONE, C.id, claimed, 0)
    pause.set()
    with pytest.raises(Conflict):
        await claim
    assert await record(other, ONE) == taken
    await third.close()


async def test_a_lease_deleted_by_hand_holds_for_its_time(
    pair: tuple[KubernetesStore, KubernetesStore], clock: HandClock, api: ApiServer
) -> None:
    """Its member may continue until it notices, so its RMs are not claimed for a lease; then they are."""
    owner, other = pair
    claimed = await owner.claim(ONE, A.id, None, 0)
    api.cluster.remove("leases", "member.a.")
    assert A.id not in (await present(other)).members
    await refused(other, claimed)
    await goes_by(clock, LEASE - 1, lambda: refused(other, claimed))
    clock.now += 1
    assert (await other.claim(ONE, B.id, claimed, 0)).owner == B.id
    with pytest.raises(LeaseLost):
        await owner.renew(A)
    await other.renew(B)
    assert set((await present(other)).members) == {B.id}


@pytest.mark.parametrize("write", ["renew", "leave", "claim", "release"])
async def test_no_update_brings_a_deleted_lease_back(
    pair: tuple[KubernetesStore, KubernetesStore], api: ApiServer, write: str
) -> None:
    """Kubernetes creates an absent Lease on update; ours must be the same object or none."""
    owner, _ = pair
    claimed = await owner.claim(ONE, A.id, None, 0)
    part = "rm.one." if write in ("claim", "release") else "member.a."
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "renew": lambda: owner.renew(A),
        "leave": owner.leave,
        "claim": lambda: owner.claim(ONE, A.id, claimed, 0),
        "release": lambda: owner.release(claimed),
    }
    pause = asyncio.Event()
    writing = api.fail("update", "leases", hold=pause)
    update = asyncio.ensure_future(calls[write]())
    await api.until(lambda: bool(writing.seen))
    api.cluster.remove("leases", part)
    pause.set()
    [failure] = await asyncio.gather(update, return_exceptions=True)
    assert isinstance(failure, Conflict if part == "rm.one." else LeaseLost) or write == "leave"
    assert not [name for _, name in api.cluster.objects if part in name]


async def test_a_record_deleted_by_hand_comes_back_above_what_the_rm_knows(
    pair: tuple[KubernetesStore, KubernetesStore], api: ApiServer
) -> None:
    """The epoch of the RM is enough to continue."""
    owner, other = pair
    claimed = await owner.claim(ONE, A.id, None, 30)
    api.cluster.remove("leases", "rm.one.")
    with pytest.raises(Conflict):
        await owner.release(claimed)
    assert (await other.claim(ONE, B.id, None, claimed.epoch)).epoch == 32


async def test_time_in_which_the_observer_read_nothing_does_not_count(
    pair: tuple[KubernetesStore, KubernetesStore], clock: HandClock
) -> None:
    """After an outage, or a pause of the observer, every member has a whole lease to renew."""
    owner, other = pair
    claimed = await owner.claim(ONE, A.id, None, 0)
    await refused(other, claimed)
    clock.now += 10 * LEASE
    await refused(other, claimed)
    assert A.id in (await present(other)).members
    await goes_by(clock, LEASE - 1, lambda: refused(other, claimed))
    clock.now += 1
    assert (await other.claim(ONE, B.id, claimed, 0)).owner == B.id


async def test_a_member_that_has_stopped_leaves_the_snapshots(
    pair: tuple[KubernetesStore, KubernetesStore], clock: HandClock
) -> None:
    """A watch reports the end of a lease, for which there is no event."""
    owner, other = pair
    await owner.claim(ONE, A.id, None, 0)
    async with watching(other) as snapshots:
        await until(snapshots, lambda seen: A.id in seen.members)

        async def look() -> None:
            for _ in range(2):
                await until(snapshots, lambda _: True)

        await goes_by(clock, LEASE - 1, look)
        assert A.id in (await until(snapshots, lambda _: True)).members
        clock.now += 1
        await until(snapshots, lambda seen: A.id not in seen.members)
        # It comes back, as nobody has taken its lease.
        await owner.renew(A)
        await until(snapshots, lambda seen: A.id in seen.members)


async def test_a_stale_list_takes_no_rm_from_a_living_member(
    pair: tuple[KubernetesStore, KubernetesStore], clock: HandClock, api: ApiServer
) -> None:
    """A stale observer considers a member gone, and its claim is a conflict."""
    owner, other = pair
    claimed = await owner.claim(ONE, A.id, None, 0)
    api.losing, api.stale = True, dict(api.cluster.objects)
    async with watching(other) as snapshots:

        async def look() -> None:
            await owner.renew(A)
            for _ in range(2):
                await until(snapshots, lambda _: True)

        await look()
        await goes_by(clock, LEASE, look)
        await until(snapshots, lambda seen: A.id not in seen.members)
        await refused(other, claimed)
        api.losing, api.stale = False, None
        await until(snapshots, lambda seen: A.id in seen.members)
    await owner.renew(A)


@pytest.mark.slow
async def test_an_ended_lease_is_never_renewed(
    pair: tuple[KubernetesStore, KubernetesStore], api: ApiServer
) -> None:
    """Neither a renewal nor a join under the same id makes it live again."""
    owner, other = pair
    await owner.claim(ONE, A.id, None, 0)
    await other.evict(A.id)
    marked = api.cluster.named("leases", "member.a.")
    assert marked["metadata"]["annotations"][ENDED] == "true"
    assert "holderIdentity" not in marked["spec"]
    for call in (owner.renew, owner.join):
        with pytest.raises(LeaseLost):
            await call(A)
    assert api.cluster.named("leases", "member.a.") == marked


async def test_leases_that_have_ended_are_removed_once_no_record_names_them(
    pair: tuple[KubernetesStore, KubernetesStore], clock: HandClock, api: ApiServer
) -> None:
    """Former members leave nothing behind; a Lease named by a record is kept."""
    owner, other = pair
    claimed = await owner.claim(ONE, A.id, None, 0)
    await owner.leave()

    async def look() -> None:
        await present(other)

    await goes_by(clock, 2 * LEASE, look)
    assert api.cluster.named("leases", "member.a.")
    await other.claim(ONE, B.id, claimed, 0)
    await goes_by(clock, 2 * LEASE, look)
    await other.renew(B)
    async with watching(other) as snapshots:
        await until(snapshots, lambda _: not [key for key in api.cluster.objects if "member.a." in key[1]])
    assert api.cluster.named("leases", "member.b.")


async def test_a_join_whose_answer_was_lost_is_repeated(
    kubernetes_backend: KubernetesBackend, api: ApiServer
) -> None:
    """The second try finds the Lease of the first, and renews it from then on."""
    store = kubernetes_backend.open()
    api.fail("create", "leases", cut=True, carried_out=True)
    # The client of HTTP repeats nothing that may have been carried out.
    with pytest.raises(Exception, match="create leases"):
        await store.join(A)
    await store.join(A)
    await store.renew(A)
    assert api.count("update", "leases") == 1
    await store.close()


async def test_a_renewal_whose_answer_was_lost_does_not_end_the_lease(
    pair: tuple[KubernetesStore, KubernetesStore], api: ApiServer
) -> None:
    """The next renewal finds the version of the lost one, and continues from it."""
    owner, _ = pair
    api.fail("update", "leases", status=500, carried_out=True)
    with pytest.raises(Exception, match="update leases"):
        await owner.renew(A)
    await owner.renew(A)
    await owner.renew(A)


async def test_a_claim_whose_answer_was_lost_is_carried_out_once(
    pair: tuple[KubernetesStore, KubernetesStore], api: ApiServer
) -> None:
    """A second try upon the same record is a conflict, and the record has the first epoch."""
    owner, _ = pair
    released = await owner.release(await owner.claim(ONE, A.id, None, 0))
    api.fail("update", "leases", status=504, carried_out=True)
    with pytest.raises(Exception, match="update leases"):
        await owner.claim(ONE, A.id, released, 0)
    with pytest.raises(Conflict):
        await owner.claim(ONE, A.id, released, 0)
    seen = await record(owner, ONE)
    assert seen is not None
    assert (seen.owner, seen.epoch) == (A.id, 2)


@pytest.mark.parametrize("what", ["record", "document"])
async def test_a_write_that_http_repeats_is_no_conflict_with_itself(
    pair: tuple[KubernetesStore, KubernetesStore], api: ApiServer, what: str
) -> None:
    """A PUT whose connection broke after it was carried out is sent again below us."""
    owner, _ = pair
    if what == "record":
        released = await owner.release(await owner.claim(ONE, A.id, None, 0))
        api.fail("update", "leases", cut=True, carried_out=True)
        taken = await owner.claim(ONE, A.id, released, 0)
        assert await record(owner, ONE) == taken
    else:
        first = await owner.compare_and_set("shared/one", b"1", 0)
        api.fail("update", "configmaps", cut=True, carried_out=True)
        second = await owner.compare_and_set("shared/one", b"2", first)
        assert await owner.read("shared/one") == Document(value=b"2", revision=second)


async def test_writes_grow_with_members_and_not_with_rms(
    pair: tuple[KubernetesStore, KubernetesStore], api: ApiServer
) -> None:
    """A renewal is one write, whatever the number of the member's RMs."""
    owner, _ = pair
    for number in range(20):
        await owner.claim(rm(f"rm-{number}"), A.id, None, 0)
    before = [verb for verb, _ in api.calls]
    await owner.renew(A)
    assert [verb for verb, _ in api.calls][len(before) :] == ["update"]


def test_the_duration_is_that_of_the_holder() -> None:
    """A member with a longer lease than the observer's own is given its time."""
    sightings = Sightings(lease=4.0, reread=1.0)
    member_id = MemberId("a")
    for now in range(20):
        sightings.see(member_id, "1", 20.0, now)
        assert not sightings.is_over(member_id, now)
    sightings.see(member_id, "1", 20.0, 20)
    assert sightings.is_over(member_id, 20)
    # Gone from the list: it still has its own time, not that of the observer.
    sightings.miss(member_id, 21)
    for now in range(22, 41):
        sightings.miss(member_id, now)
        assert not sightings.is_over(member_id, now)
    sightings.miss(member_id, 41)
    assert sightings.is_over(member_id, 41)


def test_the_next_end_is_that_of_the_lease_that_ends_first() -> None:
    """Ended leases, and those of forgotten members, do not count."""
    sightings = Sightings(lease=4.0, reread=1.0)
    assert sightings.next_end(0) == float("inf")
    sightings.see(MemberId("a"), "1", 4.0, 0)
    sightings.see(MemberId("b"), "2", 10.0, 1)
    assert sightings.next_end(1) == 3
    assert sightings.next_end(4) == 7
    sightings.keep([MemberId("a")])
    assert sightings.next_end(4) == float("inf")
