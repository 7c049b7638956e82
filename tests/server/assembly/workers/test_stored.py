"""The documents of workers in a state directory, tested without processes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from licorne_core.values.ids import RmId
from licorne_server.assembly.workers.supervisor import CLAIMS, documents_of_workers, rising
from licorne_server.store.configurations.revisions import Revisions, RevisionsForm
from licorne_server.store.coordination.store import Store
from licorne_server.store.documents.disk import Disk
from licorne_server.store.documents.documents import Conflict
from licorne_server.store.documents.kept import Kept
from licorne_server.store.documents.owned import Owned
from support.coordination.local_store import serving
from support.server.configuring import A, B
from support.state import revisions_of


@asynccontextmanager
async def workers(folder: Path) -> AsyncIterator[Store]:
    """The access of a worker to the documents in a directory."""
    documents = documents_of_workers(folder)
    documents.open()
    async with serving(documents) as backend:
        store = backend.open()
        yield store
        await store.close()


def stored(store: Store, epoch: int = 7) -> Owned[Revisions]:
    """The storage of revisions in a worker."""
    return Owned(store, RevisionsForm(), lambda rm_id: epoch)


def found_in(folder: Path) -> dict[RmId, Revisions]:
    """The state that a single server reads from the directory."""
    disk = Disk(folder)
    documents = Kept(disk)
    documents.open()
    try:
        return dict(Owned(documents, RevisionsForm(), lambda rm_id: 1).found())
    finally:
        disk.close()


async def test_epochs_rise_when_the_clock_is_set_back(tmp_path: Path) -> None:
    """A later run starts above all epochs of an earlier one, and with the clock where that is higher."""
    for now, start in ((1_000, 1_000), (5, 1_000 + CLAIMS), (10**15, 10**15)):
        documents = documents_of_workers(tmp_path)
        documents.open()
        assert await rising(documents, now) == start
        await documents.close()


async def test_a_failing_disk_does_not_prevent_the_start(tmp_path: Path) -> None:
    """Epochs begin with the clock instead, and the log has the other consequences."""
    documents = documents_of_workers(tmp_path)
    documents.open()
    (tmp_path / "lock").unlink()
    with capture_logs() as logs:
        assert await rising(documents, 1_000) == 1_000
    assert [line["event"] for line in logs] == ["epochs not stored"]
    await documents.close()


async def test_acts_of_operators_are_stored_and_transient_state_is_not(tmp_path: Path) -> None:
    """Budgets, log levels and drained workers survive a restart; slices, moves and the secret do not."""
    kept = {"shared/budgets": b"1", "shared/drain/worker-1": b"2", "shared/log-levels": b"3"}
    others = {"shared/budgets/company": b"4", "shared/moves": b"5", "shared/workers": b"6", "secret": b"7"}
    async with workers(tmp_path) as store:
        for key, value in {**kept, **others, "shared/drain/worker-2": b"8"}.items():
            await store.compare_and_set(key, value, 0)
        again = await store.read("shared/drain/worker-2")
        await store.compare_and_set("shared/drain/worker-2", None, again.revision)
    async with workers(tmp_path) as store:
        found = {
            key: (await store.read(key)).value for key in {**kept, **others, "shared/drain/worker-2": b""}
        }
        assert {key: value for key, value in found.items() if value} == kept
        with pytest.raises(Conflict):
            await store.compare_and_set("shared/budgets", b"7", 0)
        await store.compare_and_set("shared/budgets", b"7", (await store.read("shared/budgets")).revision)
    async with workers(tmp_path) as store:
        assert (await store.read("shared/budgets")).value == b"7"


async def test_workers_and_a_single_server_read_the_same_revisions(tmp_path: Path) -> None:
    """A single server reads the revisions of a worker, and a worker those of a single server."""
    first, second = revisions_of("rm/1", A), revisions_of("rm/1", A, B)
    rm_id = first.rm_id
    async with workers(tmp_path) as store:
        writing = stored(store)
        assert await writing.fetch(rm_id) is None
        await writing.prepare(rm_id, first)
        await writing.commit(rm_id)
    assert found_in(tmp_path) == {rm_id: first}
    async with workers(tmp_path) as store:
        writing = stored(store, 8)
        assert await writing.fetch(rm_id) == first
        writing.save(rm_id, second)
        await writing.close()
    assert found_in(tmp_path) == {rm_id: second}
    async with workers(tmp_path) as store:
        writing = stored(store, 9)
        await writing.fetch(rm_id)
        writing.drop(rm_id)
        await writing.close()
    assert found_in(tmp_path) == {}


async def test_a_worker_that_lost_the_rm_writes_nothing(tmp_path: Path) -> None:
    """A former owner is refused when it prepares a change, before the disk is written."""
    before, after = revisions_of("rm", A), revisions_of("rm", A, B)
    async with workers(tmp_path) as store:
        former, present = stored(store), stored(store, 8)
        await former.fetch(before.rm_id)
        await former.prepare(before.rm_id, before)
        await former.commit(before.rm_id)
        assert await present.fetch(before.rm_id) == before
        content = (tmp_path / "state.sqlite").read_bytes()
        with pytest.raises(Conflict, match="has another owner"):
            await former.prepare(after.rm_id, after)
        assert (tmp_path / "state.sqlite").read_bytes() == content
    assert found_in(tmp_path) == {before.rm_id: before}
