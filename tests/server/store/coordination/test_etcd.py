"""The store in etcd: keys and values as read by another client, renewals, and large stores."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from etcd3aio import Etcd3Client
from etcd3aio.kv import KVService
from google.protobuf.message import Message
from structlog.testing import capture_logs

from licorne_server.store.coordination import etcd as etcd_module
from licorne_server.store.coordination import etcd_snapshots
from licorne_server.store.coordination.etcd import EtcdStore
from licorne_server.store.coordination.pb import etcd_pb2 as pb
from licorne_server.store.coordination.store import LeaseLost, Ownership
from licorne_server.store.documents.documents import Conflict, StoreError
from support.coordination.backends import member, present, rm, until, watching
from support.coordination.etcd import EtcdBackend
from support.coordination.transport import KEEP_ALIVE, WATCH, Tap
from support.patience import PATIENCE
from support.peers.shim import eventually

pytestmark = pytest.mark.needs("etcd")

A, B = member("a"), member("b")


@pytest.fixture
async def foreign(etcd_backend: EtcdBackend) -> AsyncIterator[Etcd3Client]:
    """Another client of the same etcd, independent of ours."""
    async with Etcd3Client([etcd_backend.server.target]) as client:
        yield client


@pytest.fixture
def prefix(etcd_backend: EtcdBackend) -> str:
    """Prefix of the keys of this test."""
    return etcd_backend.options.prefix


@asynccontextmanager
async def open_store(
    backend: EtcdBackend, tap: Tap | None = None, reread: float = 0.2
) -> AsyncIterator[EtcdStore]:
    """A member's store with a short interval of reads."""
    store = EtcdStore(backend.options, connect=tap, reread=reread, patience=PATIENCE / 4)
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
async def store(etcd_backend: EtcdBackend) -> AsyncIterator[EtcdStore]:
    """A member's store."""
    async with open_store(etcd_backend) as store:
        yield store


async def test_another_client_reads_what_is_written(
    store: EtcdStore, foreign: Etcd3Client, prefix: str
) -> None:
    """Keys, values, leases and revisions are those of the page on coordination."""
    assert foreign.kv is not None
    assert foreign.lease is not None
    await store.join(replace(A, load={rm("r/1"): 0.5}))
    claimed = await store.claim(rm("r/1"), A.id, None, 41)
    shared = await store.compare_and_set("shared/budgets/one", b"\x00\xff", 0)
    other = await store.compare_and_set("configurations/r/1", b"yaml", 0)
    [own] = (await foreign.kv.get(f"{prefix}/members/a")).kvs
    assert json.loads(own.value) == {
        "format": 1,
        "name": "name of a",
        "address": "a.example:7070",
        "http": "",
        "version": "",
        "protocols": [1],
        "started": 0.0,
        "draining": False,
        "load": {"r/1": 0.5},
    }
    left = await foreign.lease.time_to_live(own.lease, keys=True)
    assert (left.grantedTTL, list(left.keys)) == (60, [f"{prefix}/members/a".encode()])
    [owner] = (await foreign.kv.get(f"{prefix}/rms/r%2F1")).kvs
    assert json.loads(owner.value) == {"format": 1, "owner": "a", "epoch": 42, "moved": 0.0}
    assert (owner.lease, owner.create_revision, owner.mod_revision) == (0, claimed.revision, claimed.revision)
    [document] = (await foreign.kv.get(f"{prefix}/shared/budgets%2Fone")).kvs
    assert (document.value, document.mod_revision) == (b"\x00\xff", shared)
    [document] = (await foreign.kv.get(f"{prefix}/documents/configurations%2Fr%2F1")).kvs
    assert (document.value, document.mod_revision) == (b"yaml", other)


async def test_another_client_and_ours_agree(store: EtcdStore, foreign: Etcd3Client, prefix: str) -> None:
    """A lease and a transaction of another client are valid for our store, and the reverse."""
    assert foreign.kv is not None
    assert foreign.lease is not None
    await store.join(A)
    lease = await foreign.lease.grant(60)
    written = {"format": 1, "name": "b", "address": "b:1", "of-a-later-version": [1]}
    await foreign.kv.put(f"{prefix}/members/b", json.dumps(written), lease=lease.ID)
    key = f"{prefix}/rms/one"
    put = await foreign.kv.txn(
        compare=[KVService.txn_compare_create_revision(key, 0)],
        success=[KVService.txn_op_put(key, '{"format":1,"owner":"b","epoch":7}')],
    )
    assert put.succeeded
    seen = await present(store)
    assert (seen.members[B.id].name, seen.members[B.id].address) == ("b", "b:1")
    there = Ownership(rm_id=rm("one"), owner=B.id, epoch=7, revision=put.header.revision)
    assert seen.rms == {rm("one"): there}
    with pytest.raises(Conflict):
        await store.claim(rm("one"), A.id, there, 0)
    await foreign.lease.revoke(lease.ID)
    taken = await store.claim(rm("one"), A.id, there, 0)
    assert taken.epoch == 8
    put = await foreign.kv.txn(
        compare=[KVService.txn_compare_create_revision(key, 0)], success=[KVService.txn_op_put(key, "{}")]
    )
    assert not put.succeeded


async def test_foreign_values_are_left_out_and_logged_once(
    store: EtcdStore, foreign: Etcd3Client, prefix: str
) -> None:
    """Foreign values below the prefix hide no others, and the log names each once."""
    assert foreign.kv is not None
    assert foreign.lease is not None
    await store.join(A)
    lease = await foreign.lease.grant(60)
    garbage: dict[str, bytes] = {
        "members/no-json": b"\xff\x00",
        "members/%zz": b'{"format":1,"name":"x","address":"y"}',
        "members/a/b": b"{}",
        "members/deep": b"[" * 100_000,
        "rms/negative": b'{"format":1,"owner":"","epoch":-1}',
        "rms/newer": b'{"format":2,"owner":"","epoch":1}',
        "rules/of": b"somebody else",
        "shared/\udcff": b"no such key",
    }
    for key, value in garbage.items():
        whole = f"{prefix}/{key}".encode(errors="surrogateescape")
        await foreign.kv.put(whole, value, lease=lease.ID)
    await foreign.kv.put(f"{prefix}/members/without-lease", '{"format":1,"name":"x","address":"y"}')
    claimed = await store.claim(rm("one"), A.id, None, 0)
    with capture_logs() as lines:
        async with watching(store) as snapshots:
            for _ in range(3):
                seen = await until(snapshots, lambda _: True)
                assert (seen.members, seen.rms, seen.documents) == ({A.id: A}, {rm("one"): claimed}, {})
    told = [line for line in lines if line["event"] == "a key of etcd is left out"]
    assert len(told) == len(garbage) + 1
    assert {line["log_level"] for line in told} == {"warning"}
    with pytest.raises(Conflict):
        await store.claim(rm("newer"), A.id, None, 0)


async def test_much_garbage_has_few_log_lines(store: EtcdStore, foreign: Etcd3Client, prefix: str) -> None:
    """The log names some of many unreadable keys, and counts the others."""
    assert foreign.kv is not None
    for number in range(25):
        await foreign.kv.put(f"{prefix}/rms/{number}" + "x" * 1000, "garbage")
    with capture_logs() as lines:
        assert (await present(store)).rms == {}
    assert len(lines) == etcd_snapshots.MOST_TOLD + 1
    assert lines[-1]["keys"] == 25 - etcd_snapshots.MOST_TOLD
    assert all(len(str(line)) < 500 for line in lines)


@pytest.mark.slow
async def test_two_thousand_rms_are_read_as_one_snapshot(store: EtcdStore, etcd_backend: EtcdBackend) -> None:
    """Everything is read in pages at one revision, while others write."""
    await store.join(A)
    for first in range(0, 2000, 100):
        names = [rm(f"rm-{number}") for number in range(first, first + 100)]
        await asyncio.gather(*(store.claim(name, A.id, None, 0) for name in names))
    tap = Tap()
    written = 0

    async def write() -> None:
        nonlocal written
        last, one = None, None
        while True:
            # The first and the last key change in one transaction: a snapshot has both changes or none.
            one = await store.compare_and_set("shared/z", str(written).encode(), one or 0)
            last = await store.claim(rm("first"), A.id, last, written)
            written += 1

    async with open_store(etcd_backend, tap) as reader:
        writing = asyncio.create_task(write())
        async with watching(reader) as snapshots:
            for _ in range(5):
                seen = await until(snapshots, lambda seen: rm("first") in seen.rms)
                assert len(seen.rms) == 2001
                assert {f"rm-{number}" for number in range(2000)} < set(seen.rms)
                epoch = seen.rms[rm("first")].epoch
                assert epoch - 1 <= int(seen.documents["shared/z"].value) <= epoch
        writing.cancel()
    assert tap.calls["/etcdserverpb.KV/Range"] >= 5 * 8


async def test_large_documents_are_read(store: EtcdStore) -> None:
    """Pages shrink where values are large."""
    values = {f"shared/{number}": bytes([number]) * 700_000 for number in range(40)}
    for key, value in values.items():
        await store.compare_and_set(key, value, 0)
    seen = await present(store)
    assert {key: document.value for key, document in seen.documents.items()} == values


async def test_a_store_that_is_too_large_is_reported(
    store: EtcdStore, etcd_backend: EtcdBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no snapshot beyond the bound, the log has the reason, and there is one again below it."""
    revision = await store.compare_and_set("shared/one", b"x" * 2000, 0)
    monkeypatch.setattr(etcd_snapshots, "MAX_BYTES", 1000)
    with capture_logs() as lines:
        async with watching(store) as snapshots:
            reading = asyncio.ensure_future(until(snapshots, lambda _: True))
            await eventually(lambda: lines)
            assert "1000 bytes" in lines[0]["error"]
            assert not reading.done()
            await store.compare_and_set("shared/one", None, revision)
            assert (await reading).documents == {}
    assert [line["event"] for line in lines] == ["etcd cannot be read", "etcd can be read again"]


async def version_of(client: Etcd3Client, key: str) -> int:
    """The number of writes of a key since its creation."""
    assert client.kv is not None
    [found] = (await client.kv.get(key)).kvs
    return int(found.version)


async def test_renewals_write_necessary_changes_only(
    store: EtcdStore, foreign: Etcd3Client, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change of load alone is written later; any other change is written at once, with the load."""
    key = f"{prefix}/members/a"
    await store.join(A)
    for load in (0.1, 0.2, 0.3):
        await store.renew(replace(A, load={rm("one"): load}))
    assert await version_of(foreign, key) == 1
    drained = replace(A, draining=True, load={rm("one"): 0.4})
    await store.renew(drained)
    await store.renew(drained)
    assert await version_of(foreign, key) == 2
    assert (await present(store)).members == {A.id: drained}
    # From here on the load is due with each renewal.
    monkeypatch.setattr(etcd_module, "LOAD_EVERY", 0.0)
    await store.renew(replace(drained, name="again"))
    assert await version_of(foreign, key) == 3
    await store.renew(replace(drained, name="again", load={rm("one"): 0.5}))
    await store.renew(replace(drained, name="again", load={rm("one"): 0.5}))
    assert await version_of(foreign, key) == 4


@pytest.mark.parametrize("how", ["deleted", "written"])
async def test_a_member_whose_key_was_changed_has_lost_its_lease(
    store: EtcdStore, foreign: Etcd3Client, prefix: str, how: str
) -> None:
    """An operator who deletes or overwrites the key of a member ends its lease."""
    assert foreign.kv is not None
    await store.join(A)
    if how == "deleted":
        await foreign.kv.delete(f"{prefix}/members/a")
    else:
        await foreign.kv.put(f"{prefix}/members/a", "{}")
    with pytest.raises(LeaseLost):
        await store.renew(replace(A, draining=True))
    with pytest.raises(Conflict):
        await store.claim(rm("one"), A.id, None, 0)


async def test_a_renewal_by_a_deposed_leader_is_repeated(etcd_backend: EtcdBackend) -> None:
    """A lease counts as renewed only if one leader has renewed it and answered the following read."""
    tap = Tap()

    def deposed(path: str, answer: Message) -> None:
        if isinstance(answer, pb.LeaseKeepAliveResponse) and tap.calls[KEEP_ALIVE] <= 2:
            answer.header.raft_term -= 1

    tap.change = deposed
    async with open_store(etcd_backend, tap) as store:
        await store.join(A)
        await store.renew(A)
        assert tap.calls[KEEP_ALIVE] == 3
        await store.renew(A)
        assert tap.calls[KEEP_ALIVE] == 4


async def test_events_missed_by_a_watch_are_read(etcd_backend: EtcdBackend, store: EtcdStore) -> None:
    """A silent watch delays changes, and hides none."""
    tap = Tap()
    tap.swallowed.add(WATCH)
    async with open_store(etcd_backend, tap) as reader, watching(reader) as snapshots:
        await until(snapshots, lambda _: True)
        await store.join(A)
        claimed = await store.claim(rm("one"), A.id, None, 0)
        await until(snapshots, lambda seen: seen.rms == {rm("one"): claimed} and A.id in seen.members)
        await store.leave()
        await until(snapshots, lambda seen: not seen.members)
    assert tap.calls[WATCH] == 1


async def test_a_watch_accelerates_reads(etcd_backend: EtcdBackend, store: EtcdStore) -> None:
    """With a watch a change is seen long before the next regular read."""
    async with open_store(etcd_backend, reread=10 * PATIENCE) as reader, watching(reader) as snapshots:
        await until(snapshots, lambda _: True)
        await store.join(A)
        await until(snapshots, lambda seen: A.id in seen.members)
        await store.leave()
        await until(snapshots, lambda seen: not seen.members)


async def test_deployments_in_one_etcd_are_separate(store: EtcdStore, etcd_backend: EtcdBackend) -> None:
    """Deployments whose prefixes begin alike share nothing."""
    near = replace(etcd_backend.options, prefix=etcd_backend.options.prefix + "0")
    neighbour = EtcdStore(near, patience=PATIENCE / 4)
    await store.join(A)
    await neighbour.join(B)
    await neighbour.claim(rm("one"), B.id, None, 0)
    await neighbour.compare_and_set("shared/one", b"1", 0)
    seen, their = await present(store), await present(neighbour)
    assert (set(seen.members), seen.rms, seen.documents) == ({A.id}, {}, {})
    assert (set(their.members), set(their.rms)) == ({B.id}, {rm("one")})
    assert (await store.claim(rm("one"), A.id, None, 0)).epoch == 1
    await neighbour.close()


async def test_closing_ends_calls(etcd_backend: EtcdBackend) -> None:
    """A call in progress when the store is closed fails as unanswered."""
    async with open_store(etcd_backend) as store:
        etcd_backend.server.pause()
        try:
            waiting = asyncio.create_task(store.read("one"))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await store.close()
            with pytest.raises(StoreError):
                await waiting
        finally:
            etcd_backend.server.resume()


async def test_the_oldest_records_without_an_owner_are_dropped(
    store: EtcdStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids that are claimed and released repeatedly do not fill etcd; records of owned RMs remain."""
    monkeypatch.setattr(etcd_snapshots, "MOST_FREE", 2)
    monkeypatch.setattr(etcd_snapshots, "SWEPT", 3)
    await store.join(A)
    owned = await store.claim(rm("owned"), A.id, None, 0)
    for number in range(9):
        await store.release(await store.claim(rm(f"rm-{number}"), A.id, None, 0))
    async with watching(store) as snapshots:
        seen = await until(snapshots, lambda seen: len(seen.rms) == 3)
    assert set(seen.rms) == {"owned", "rm-7", "rm-8"}
    assert seen.rms[rm("owned")] == owned
    assert (await store.claim(rm("rm-0"), A.id, None, 41)).epoch == 42
