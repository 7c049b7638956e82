"""Ends of leases in Kubernetes: by each observer's own clock, and fenced before they count."""

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
    """The owner of an RM, and an observer with a clock that the test moves; both have joined."""
    owner, other = kubernetes_backend.open(LEASE), kubernetes_backend.open(LEASE, clock)
    await owner.join(A)
    await other.join(B)
    yield owner, other
    await owner.close()
    await other.close()


async def refused(other: KubernetesStore, seen: Ownership) -> None:
    """Check that the other member's claim of the RM is refused."""
    with pytest.raises(Conflict):
        await other.claim(ONE, B.id, seen, 0)


async def goes_by(clock: HandClock, seconds: float, look: Callable[[], Awaitable[None]]) -> None:
    """Advance the time of an observer that reads repeatedly."""
    end = clock.now + seconds
    while clock.now < end:
        clock.now = min(end, clock.now + STEP)
        await look()


async def test_an_observer_waits_for_a_whole_lease_of_its_own_clock(
    pair: tuple[KubernetesStore, KubernetesStore], clock: HandClock
) -> None:
    """A Lease has ended if its version has not changed for its duration in the observer's time."""
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
    """A renewal time in another century neither ends nor prolongs a lease."""
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


async def test_a_renewal_counts_with_a_stopped_wall_clock(
    pair: tuple[KubernetesStore, KubernetesStore], api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every renewal changes the version of the Lease, unlike an update without a change."""
    owner, _ = pair
    monkeypatch.setattr(
        "licorne_server.store.coordination.kubernetes.store.time.time", lambda: 1_700_000_000.0
    )
    versions = set()
    for _ in range(3):
        await owner.renew(A)
        versions.add(api.cluster.named("leases", "member.a.")["metadata"]["resourceVersion"])
    assert len(versions) == 3


async def test_a_member_that_renews_during_a_claim_keeps_its_rms(
    pair: tuple[KubernetesStore, KubernetesStore], clock: HandClock, api: ApiServer
) -> None:
    """A claim that hangs after it has read the old owner's Lease fails after a renewal."""
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


async def test_a_claim_paused_after_its_mark_is_a_conflict(
    pair: tuple[KubernetesStore, KubernetesStore],
    kubernetes_backend: KubernetesBackend,
    clock: HandClock,
    api: ApiServer,
) -> None:
    """If another member claims between the mark and the write of the record, the write is a conflict."""
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


async def test_a_deleted_lease_counts_for_its_time(
    pair: tuple[KubernetesStore, KubernetesStore], clock: HandClock, api: ApiServer
) -> None:
    """RMs of a deleted Lease are claimed only after a lease, because its member may not have noticed."""
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
async def test_an_update_does_not_create_a_deleted_lease(
    pair: tuple[KubernetesStore, KubernetesStore], api: ApiServer, write: str
) -> None:
    """Although Kubernetes creates an absent Lease on update, a renewal needs the same object."""
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


async def test_a_deleted_record_is_created_above_the_epoch_of_the_rm(
    pair: tuple[KubernetesStore, KubernetesStore], api: ApiServer
) -> None:
    """A record that was deleted is created again with an epoch above that of the RM."""
    owner, other = pair
    claimed = await owner.claim(ONE, A.id, None, 30)
    api.cluster.remove("leases", "rm.one.")
    with pytest.raises(Conflict):
        await owner.release(claimed)
    assert (await other.claim(ONE, B.id, None, claimed.epoch)).epoch == 32


async def test_time_without_reads_does_not_count(
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


async def test_a_stopped_member_leaves_the_snapshots(
    pair: tuple[KubernetesStore, KubernetesStore], clock: HandClock
) -> None:
    """A watch reports the end of a lease, for which Kubernetes has no event."""
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
        # It returns, because nobody has ended its lease.
        await owner.renew(A)
        await until(snapshots, lambda seen: A.id in seen.members)


async def test_a_stale_list_takes_no_rm_from_a_living_member(
    pair: tuple[KubernetesStore, KubernetesStore], clock: HandClock, api: ApiServer
) -> None:
    """If an observer considers a member gone by a stale list, its claim is a conflict."""
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
    """Neither a renewal nor a join under the same id renews an ended lease."""
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


async def test_ended_leases_without_a_record_are_removed(
    pair: tuple[KubernetesStore, KubernetesStore], clock: HandClock, api: ApiServer
) -> None:
    """Ended leases are removed, except those that a record names."""
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


async def test_a_join_without_an_answer_is_repeated(
    kubernetes_backend: KubernetesBackend, api: ApiServer
) -> None:
    """The second join finds the Lease of the first one, and renews it."""
    store = kubernetes_backend.open()
    api.fail("create", "leases", cut=True, carried_out=True)
    # The HTTP client repeats no request that may have been carried out.
    with pytest.raises(Exception, match="create leases"):
        await store.join(A)
    await store.join(A)
    await store.renew(A)
    assert api.count("update", "leases") == 1
    await store.close()


async def test_a_renewal_without_an_answer_keeps_the_lease(
    pair: tuple[KubernetesStore, KubernetesStore], api: ApiServer
) -> None:
    """The next renewal reads the version of the lost one, and continues from it."""
    owner, _ = pair
    api.fail("update", "leases", status=500, carried_out=True)
    with pytest.raises(Exception, match="update leases"):
        await owner.renew(A)
    await owner.renew(A)
    await owner.renew(A)


async def test_a_claim_without_an_answer_is_carried_out_once(
    pair: tuple[KubernetesStore, KubernetesStore], api: ApiServer
) -> None:
    """A second claim upon the same record is a conflict, and the record has the first epoch."""
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
async def test_a_write_repeated_by_http_is_no_conflict(
    pair: tuple[KubernetesStore, KubernetesStore], api: ApiServer, what: str
) -> None:
    """A PUT whose connection broke after it was carried out is repeated by the HTTP client."""
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


async def test_writes_depend_on_members_and_not_on_rms(
    pair: tuple[KubernetesStore, KubernetesStore], api: ApiServer
) -> None:
    """A renewal is one write, whatever the number of the member's RMs."""
    owner, _ = pair
    for number in range(20):
        await owner.claim(rm(f"rm-{number}"), A.id, None, 0)
    before = [verb for verb, _ in api.calls]
    await owner.renew(A)
    assert [verb for verb, _ in api.calls][len(before) :] == ["update"]


def test_the_duration_of_a_lease_is_that_of_its_member() -> None:
    """The duration of a lease is the one that its member has set, not the observer's."""
    sightings = Sightings(lease=4.0, reread=1.0)
    member_id = MemberId("a")
    for now in range(20):
        sightings.see(member_id, "1", 20.0, now)
        assert not sightings.is_over(member_id, now)
    sightings.see(member_id, "1", 20.0, 20)
    assert sightings.is_over(member_id, 20)
    # A member that is missing from the list still has its own duration.
    sightings.miss(member_id, 21)
    for now in range(22, 41):
        sightings.miss(member_id, now)
        assert not sightings.is_over(member_id, now)
    sightings.miss(member_id, 41)
    assert sightings.is_over(member_id, 41)


def test_the_next_end_is_that_of_the_earliest_lease() -> None:
    """Ended leases, and those of forgotten members, do not count for the next end."""
    sightings = Sightings(lease=4.0, reread=1.0)
    assert sightings.next_end(0) == float("inf")
    sightings.see(MemberId("a"), "1", 4.0, 0)
    sightings.see(MemberId("b"), "2", 10.0, 1)
    assert sightings.next_end(1) == 3
    assert sightings.next_end(4) == 7
    sightings.keep([MemberId("a")])
    assert sightings.next_end(4) == float("inf")
