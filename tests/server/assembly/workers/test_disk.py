"""The documents of workers in a state directory, without processes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from licorne_core.values.ids import RmId
from licorne_server.assembly.workers.disk import CLAIMS, Disk
from licorne_server.process.clock import SystemClock
from licorne_server.process.coordination import Coordination
from licorne_server.store.configurations.revisions import Revisions
from licorne_server.store.configurations.shared import SharedKeeper, document_of, key_of
from licorne_server.store.configurations.state_dir import StateDir
from licorne_server.store.coordination.local import LocalStore
from licorne_server.store.coordination.local_records import Records
from licorne_server.store.coordination.local_service import LocalService, Storage
from licorne_server.store.coordination.store import Conflict, Document, StoreError
from support.server.configuring import A, B
from support.state import revisions_of


@asynccontextmanager
async def storing(storage: Storage) -> AsyncIterator[LocalStore]:
    """A member's access to a store with that storage."""
    records = Records()
    if isinstance(storage, Disk):
        records.load(storage.documents)
    service = LocalService(records, SystemClock(), storage)
    with TemporaryDirectory(prefix="licorne-") as name:
        await service.start(Path(name) / "store")
        store = LocalStore(Coordination(backend="local", hosts=(f"{name}/store",)))
        try:
            yield store
        finally:
            await store.close()
            await service.stop()


@asynccontextmanager
async def open_disk(folder: Path) -> AsyncIterator[Disk]:
    """The directory, opened by a supervisor."""
    disk = Disk(folder)
    yield disk
    await disk.close()


def keeper(store: LocalStore, epoch: int = 7) -> SharedKeeper:
    """What a worker stores revisions with."""
    return SharedKeeper(store, lambda rm_id: epoch)


def found_in(folder: Path) -> list[Revisions]:
    """What a single server finds in the directory."""
    directory = StateDir(folder)
    try:
        return directory.open()
    finally:
        directory.close()


async def test_epochs_rise_though_the_clock_goes_back(tmp_path: Path) -> None:
    """A later run starts above all epochs of an earlier one, and with the clock where that is higher."""
    for now, start in ((1_000, 1_000), (5, 1_000 + CLAIMS), (10**15, 10**15)):
        async with open_disk(tmp_path) as disk:
            assert disk.rising(now) == start


async def test_what_operators_said_is_stored_and_nothing_else(tmp_path: Path) -> None:
    """Budgets and drained workers are there after a restart; slices, moves and the secret are not."""
    kept = {"shared/budgets": b"1", "shared/drain/worker-1": b"2"}
    others = {"shared/budgets/company": b"3", "shared/moves": b"4", "secret": b"5"}
    async with open_disk(tmp_path) as disk, storing(disk) as store:
        for key, value in {**kept, **others, "shared/drain/worker-2": b"6"}.items():
            await store.compare_and_set(key, value, 0)
        again = await store.read("shared/drain/worker-2")
        await store.compare_and_set("shared/drain/worker-2", None, again.revision)
    async with open_disk(tmp_path) as disk, storing(disk) as store:
        assert {key: document.value for key, document in disk.documents.items()} == kept
        with pytest.raises(Conflict):
            await store.compare_and_set("shared/budgets", b"7", 0)
        await store.compare_and_set("shared/budgets", b"7", (await store.read("shared/budgets")).revision)
    async with open_disk(tmp_path) as disk:
        assert disk.documents["shared/budgets"].value == b"7"


async def test_revisions_of_workers_are_those_of_a_single_server(tmp_path: Path) -> None:
    """What a worker writes a single server finds, and a worker what a single server wrote."""
    first, second = revisions_of("rm/1", A), revisions_of("rm/1", A, B)
    async with open_disk(tmp_path) as disk, storing(disk) as store:
        writing = keeper(store)
        assert await writing.fetch(first.rm_id) is None
        await writing.prepare(first)
        assert await writing.commit(first)
    assert found_in(tmp_path) == [first]
    async with open_disk(tmp_path) as disk, storing(disk) as store:
        writing = keeper(store, 8)
        assert await writing.fetch(first.rm_id) == first
        writing.save(second)
        await writing.close()
    assert found_in(tmp_path) == [second]
    async with open_disk(tmp_path) as disk, storing(disk) as store:
        writing = keeper(store, 9)
        await writing.fetch(first.rm_id)
        writing.drop(first.rm_id)
        await writing.close()
    assert found_in(tmp_path) == []


async def test_refused_revisions_leave_nothing_on_the_disk(tmp_path: Path) -> None:
    """What was prepared and given up is neither there after the next start nor mentioned."""
    before, after = revisions_of("rm", A), revisions_of("rm", A, B)
    async with open_disk(tmp_path) as disk, storing(disk) as store:
        writing = keeper(store)
        await writing.fetch(before.rm_id)
        await writing.prepare(before)
        await writing.commit(before)
        await writing.prepare(after)
        assert (await store.read(key_of(before.rm_id))).revision
        size = (tmp_path / "state.sqlite").read_bytes()
        writing.discard(before.rm_id)
        await writing.close()
        assert (tmp_path / "state.sqlite").read_bytes() != size
    assert found_in(tmp_path) == [before]


async def test_a_worker_without_the_rm_writes_nothing(tmp_path: Path) -> None:
    """A former owner is refused when it prepares, before the disk has anything of it."""
    before, after = revisions_of("rm", A), revisions_of("rm", A, B)
    async with open_disk(tmp_path) as disk, storing(disk) as store:
        former, present = keeper(store), keeper(store, 8)
        await former.fetch(before.rm_id)
        await former.prepare(before)
        await former.commit(before)
        assert await present.fetch(before.rm_id) == before
        content = (tmp_path / "state.sqlite").read_bytes()
        with pytest.raises(OSError, match="has another owner"):
            await former.prepare(after)
        assert (tmp_path / "state.sqlite").read_bytes() == content
    assert found_in(tmp_path) == [before]


async def test_a_document_that_is_no_configuration_is_refused(tmp_path: Path) -> None:
    """What the directory could not give back is not taken."""
    async with open_disk(tmp_path) as disk, storing(disk) as store:
        with pytest.raises(StoreError, match="it cannot be read"):
            await store.compare_and_set(key_of(RmId("rm")), document_of(b"nonsense", 1), 0)
        assert (await store.read(key_of(RmId("rm")))) == Document()


class SlowStorage(Storage):
    """A disk that takes its time."""

    def __init__(self) -> None:
        """Writes wait for `goes_on`."""
        self.begun = asyncio.Event()
        self.goes_on = asyncio.Event()

    def keeps(self, key: str) -> bool:
        """Keeps one document."""
        return key == "shared/budgets"

    async def write(self, key: str, before: Document, value: bytes | None) -> None:
        """Wait."""
        self.begun.set()
        await self.goes_on.wait()

    async def prepare(self, key: str, value: bytes) -> None:
        """Nothing to do."""

    async def discard(self, key: str) -> None:
        """Nothing to do."""


async def test_nobody_reads_what_is_not_durable_yet() -> None:
    """Others see the former document until the disk has the new one; other documents do not wait."""
    disk = SlowStorage()
    async with storing(disk) as store:
        writing = asyncio.create_task(store.compare_and_set("shared/budgets", b"new", 0))
        await disk.begun.wait()
        assert await store.read("shared/budgets") == Document()
        assert await store.compare_and_set("shared/moves", b"other", 0)
        second = asyncio.create_task(store.compare_and_set("shared/budgets", b"late", 0))
        # The caller goes, the write goes on.
        writing.cancel()
        disk.goes_on.set()
        with pytest.raises(Conflict):
            await second
        assert (await store.read("shared/budgets")).value == b"new"
