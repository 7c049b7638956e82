"""The store in etcd while its servers die, hang, lose data, or are unreachable."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from etcd3aio import AlarmType, Etcd3Client
from structlog.testing import capture_logs

from licorne_server.process.coordination import Coordination
from licorne_server.store.coordination import etcd as etcd_module
from licorne_server.store.coordination.etcd import EtcdStore
from licorne_server.store.coordination.etcd_connection import Refused
from licorne_server.store.coordination.store import LeaseLost
from licorne_server.store.documents.documents import Conflict, StoreError
from licorne_server.testing.proxy import Proxy
from support.coordination.backends import (
    claimed_at_last,
    insisted,
    member,
    present,
    record,
    rm,
    until,
    watching,
)
from support.coordination.etcd import EtcdServer
from support.coordination.transport import KEEP_ALIVE, Tap
from support.patience import PATIENCE
from support.peers.shim import eventually
from support.surroundings import CLOSED

pytestmark = pytest.mark.needs("etcd")

A, B = member("a"), member("b")

HASTY = 0.5
"""Seconds of a try at a server that does not answer."""


@pytest.fixture(scope="module")
def fragile() -> Iterator[EtcdServer]:
    """An etcd that each test may break, but leaves running."""
    with EtcdServer() as server:
        yield server


@pytest.fixture
def options(fragile: EtcdServer) -> Coordination:
    """The options of a member of a new deployment there."""
    return fragile.options()


@asynccontextmanager
async def opened(
    options: Coordination, *, reread: float = 0.2, patience: float = PATIENCE / 4, tap: Tap | None = None
) -> AsyncIterator[EtcdStore]:
    """A member's store, closed at the end."""
    store = EtcdStore(options, connect=tap, reread=reread, patience=patience)
    try:
        yield store
    finally:
        await store.close()


async def test_a_watch_continues_after_a_crash_of_etcd(fragile: EtcdServer, options: Coordination) -> None:
    """Records and leases survive etcd's restart; a watch gets later changes, and the log has both."""
    async with opened(options) as store, opened(options) as other, watching(other) as snapshots:
        await store.join(A)
        claimed = await store.claim(rm("one"), A.id, None, 0)
        await until(snapshots, lambda seen: seen.rms == {rm("one"): claimed})
        with capture_logs() as lines:
            fragile.kill()
            waiting = asyncio.ensure_future(until(snapshots, lambda seen: rm("two") in seen.rms))
            await eventually(lambda: lines)
            fragile.start()
            await insisted(lambda: store.renew(A))
            second = await store.claim(rm("two"), A.id, None, 0)
            seen = await waiting
        assert seen.rms == {rm("one"): claimed, rm("two"): second}
        assert seen.members == {A.id: A}
        assert [line["event"] for line in lines] == ["etcd cannot be read", "etcd can be read again"]
        await store.leave()
        await until(snapshots, lambda seen: not seen.members)


async def test_calls_to_a_dead_etcd_fail_in_time(fragile: EtcdServer, options: Coordination) -> None:
    """Without a server calls fail as unanswered, and the member joins again when etcd is back."""
    async with opened(options, patience=HASTY) as store:
        await insisted(lambda: store.join(A))
        fragile.kill()
        for call in (
            lambda: store.renew(A),
            lambda: store.claim(rm("one"), A.id, None, 0),
            lambda: store.compare_and_set("shared/one", b"1", 0),
            lambda: store.read("shared/one"),
            lambda: store.evict(B.id),
            store.leave,
        ):
            with pytest.raises(StoreError) as failed:
                await call()
            assert not isinstance(failed.value, Conflict | LeaseLost)
            assert options.hosts[0] in str(failed.value)
        fragile.start()
        await insisted(lambda: store.renew(A))
        await insisted(store.leave)
        assert (await present(store)).members == {}


async def test_calls_to_a_hanging_etcd_fail_in_time(fragile: EtcdServer, options: Coordination) -> None:
    """A suspended process keeps its connections; calls fail in time, and the lease survives."""
    async with opened(options, patience=HASTY) as store:
        await insisted(lambda: store.join(A))
        fragile.pause()
        try:
            with pytest.raises(StoreError):
                await store.renew(A)
            with pytest.raises(StoreError):
                await store.read("shared/one")
        finally:
            fragile.resume()
        await insisted(lambda: store.renew(A))
        assert set((await present(store)).members) == {A.id}


@pytest.mark.parametrize("first", ["dead", "hung"])
async def test_calls_go_to_another_server(options: Coordination, first: str) -> None:
    """A dead or hanging server costs one try; then calls use a server that answers."""
    [good] = options.hosts
    tap = Tap()
    async with Proxy(good) as proxy:
        bad = CLOSED if first == "dead" else proxy.target
        proxy.flowing.clear()
        both = replace(options, hosts=(bad, good))
        async with opened(both, patience=HASTY, tap=tap) as store:
            # The first call has to find out.
            await insisted(lambda: store.join(A))
            assert tap.tried[bad] >= 1
            before = tap.tried[bad]
            await insisted(lambda: store.renew(A))
            assert tap.tried[bad] == before
            assert (await claimed_at_last(store, rm("one"), A.id)).owner == A.id


async def test_one_renewal_passes_over_a_server_that_hangs(options: Coordination) -> None:
    """If the server in use hangs between two renewals, another server answers the next one in time."""
    [good] = options.hosts
    async with Proxy(good) as proxy:
        both = replace(options, hosts=(proxy.target, good))
        tap = Tap()
        async with opened(both, patience=3.0, tap=tap) as store:
            await store.join(A)
            await store.renew(A)
            assert tap.tried[good] == 0
            proxy.flowing.clear()
            await store.renew(A)
            assert tap.tried[good] >= 2
            assert tap.calls[KEEP_ALIVE] == 3


async def test_a_write_is_not_repeated_elsewhere(options: Coordination) -> None:
    """A claim without an answer may have been carried out, so the caller has to read the store."""
    [good] = options.hosts
    tap = Tap()
    async with Proxy(good) as proxy:
        both = replace(options, hosts=(proxy.target, good))
        async with opened(both, patience=3.0, tap=tap) as store:
            await store.join(A)
            proxy.flowing.clear()
            with pytest.raises(StoreError) as failed:
                await store.claim(rm("one"), A.id, None, 0)
            assert not isinstance(failed.value, Conflict)
            assert tap.tried[good] == 0
            # The next call uses the other server. The first write may still arrive.
            proxy.flowing.set()
            assert (await claimed_at_last(store, rm("one"), A.id)).epoch in {1, 2}
            assert tap.tried[good] >= 1


async def test_a_wiped_store_starts_over(fragile: EtcdServer, options: Coordination) -> None:
    """Leases and records are lost; epochs continue above those of the RMs, and watches use the new store."""
    async with opened(options) as store, watching(store) as snapshots:
        await insisted(lambda: store.join(A))
        for number in range(20):
            await store.compare_and_set(f"shared/{number}", b"", 0)
        claimed = await store.claim(rm("one"), A.id, None, 7)
        await until(snapshots, lambda seen: seen.rms == {rm("one"): claimed})
        fragile.wipe()
        with pytest.raises(LeaseLost):
            await insisted(lambda: store.renew(A))
        await until(snapshots, lambda seen: not seen.members and not seen.rms and not seen.documents)
        with pytest.raises(Conflict):
            await store.claim(rm("one"), A.id, claimed, claimed.epoch)
        await insisted(lambda: store.join(B))
        again = await store.claim(rm("one"), B.id, None, claimed.epoch)
        assert again.epoch == claimed.epoch + 1
        assert again.revision < claimed.revision
        seen = await until(snapshots, lambda seen: rm("one") in seen.rms)
        assert (seen.rms, set(seen.members)) == ({rm("one"): again}, {B.id})


async def test_values_of_a_wiped_store_are_not_confused(fragile: EtcdServer, options: Coordination) -> None:
    """After a wipe the same key at the same revision with another value is read correctly."""
    async with opened(options) as store, watching(store) as snapshots:
        fragile.wipe()
        old = await insisted(lambda: store.compare_and_set("shared/one", b"old", 0))
        await until(snapshots, lambda seen: seen.documents["shared/one"].value == b"old")
        fragile.wipe()
        new = await insisted(lambda: store.compare_and_set("shared/one", b"new", 0))
        assert new == old
        await until(snapshots, lambda seen: seen.documents["shared/one"].value == b"new")


async def test_a_record_of_another_store_is_not_replaced_by_its_revision(
    fragile: EtcdServer, options: Coordination
) -> None:
    """A foreign record with the revision of an own record from before a wipe is not replaced."""
    async with opened(options) as store, opened(options) as other:
        fragile.wipe()
        await insisted(lambda: store.join(A))
        old = await store.claim(rm("one"), A.id, None, 0)
        fragile.wipe()
        await insisted(lambda: other.join(B))
        new = await other.claim(rm("one"), B.id, None, 7)
        assert new.revision == old.revision
        await insisted(lambda: store.join(A))
        with pytest.raises(Conflict):
            await store.release(old)
        with pytest.raises(Conflict):
            await store.claim(rm("one"), A.id, old, 9)
        assert await record(store, rm("one")) == new


async def test_compacted_events_are_read(fragile: EtcdServer, options: Coordination) -> None:
    """Changes that were made and compacted while the watch was cut are seen after its return."""
    async with Proxy(fragile.target) as proxy:
        behind = replace(options, hosts=(proxy.target,))
        async with (
            opened(options) as store,
            opened(behind, reread=10 * PATIENCE, patience=2.0) as reader,
            watching(reader) as snapshots,
        ):
            await store.join(A)
            first = await store.claim(rm("one"), A.id, None, 0)
            await until(snapshots, lambda seen: seen.rms == {rm("one"): first})
            proxy.upstream = ""
            await proxy.cut()
            # A release and a deletion, for which no watch will have an event.
            released = await store.release(first)
            await store.leave()
            async with Etcd3Client([fragile.target]) as client:
                assert client.kv is not None
                revision = await store.compare_and_set("documents", b"", 0)
                await client.kv.compact(revision, physical=True)
            proxy.upstream = fragile.target
            seen = await until(snapshots, lambda seen: not seen.members)
            assert seen.rms == {rm("one"): released}


async def test_a_lease_ends_later_after_a_restart_of_etcd(fragile: EtcdServer, options: Coordination) -> None:
    """etcd prolongs leases at its start, so another member claims later, and never earlier."""
    short = replace(options, lease=3.0)
    async with opened(short) as store, opened(options) as other:
        await other.join(B)
        await store.join(A)
        own = await other.claim(rm("one"), B.id, None, 0)
        await other.claim(rm("one"), A.id, own, 0)
        renewed = time.monotonic()
        await store.renew(A)
        fragile.restart()
        taken = await insisted(lambda: claimed_at_last(other, rm("one"), B.id))
        assert time.monotonic() - renewed >= short.lease
        assert taken.epoch == 3
        assert await record(other, rm("one")) == taken


async def filled(store: EtcdStore) -> int:
    """Write until etcd is full; return the revision of the last write."""
    revision = 0
    while True:
        try:
            revision = await store.compare_and_set("k", bytes(100_000), revision)
        except Refused:
            return revision


async def test_a_full_etcd_keeps_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publications and claims fail; both are written once there is room."""
    monkeypatch.setattr(etcd_module, "LOAD_EVERY", 0.0)
    with EtcdServer(flags=("--quota-backend-bytes=500000",)) as server:
        async with opened(server.options()) as store, Etcd3Client([server.target]) as admin:
            await store.join(A)
            revision = await filled(store)
            loaded = replace(A, load={rm("one"): 0.5})
            with capture_logs() as lines:
                for _ in range(3):
                    await store.renew(loaded)
                assert store.trouble.startswith("the store cannot be written, and decisions continue: etcd")
                assert "space exceeded" in store.trouble
                with pytest.raises(StoreError):
                    await store.claim(rm("one"), A.id, None, 0)
                assert (await present(store)).members == {A.id: A}
                assert admin.kv is not None
                assert admin.maintenance is not None
                await admin.kv.compact(revision, physical=True)
                await admin.maintenance.defragment()
                for alarm in (await admin.maintenance.alarms()).alarms:
                    await admin.maintenance.alarm_deactivate(AlarmType.NOSPACE, member_id=alarm.memberID)
                await store.renew(loaded)
                assert (await present(store)).members == {A.id: loaded}
            assert store.trouble == ""
            assert (await store.claim(rm("one"), A.id, None, 0)).owner == A.id
            told = ["the store cannot be written", "the store can be written again"]
            assert [line["event"] for line in lines] == told
