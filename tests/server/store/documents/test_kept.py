"""Documents of one process: their bounds, their disk, and concurrent readers."""

import asyncio
import threading
from pathlib import Path

import pytest

from licorne_server.process.settings import SettingsError
from licorne_server.store.documents import kept
from licorne_server.store.documents.disk import Disk
from licorne_server.store.documents.documents import Conflict, Document, StoreError, TooLarge
from licorne_server.store.documents.kept import LARGEST, Kept
from support.patience import PATIENCE


async def test_documents_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bounds a write is refused with the reason, and existing documents remain."""
    monkeypatch.setattr(kept, "MAX_BYTES", 8)
    documents = Kept()
    revision = await documents.compare_and_set("key", b"12345", 0)
    with pytest.raises(StoreError, match="8 bytes"):
        await documents.compare_and_set("key", b"123456", revision)
    with pytest.raises(StoreError, match="8 bytes"):
        await documents.compare_and_set("other", b"", 0)
    with pytest.raises(TooLarge, match="'key'"):
        await documents.compare_and_set("key", bytes(LARGEST + 1), revision)
    with pytest.raises(TooLarge, match="1024 characters"):
        await documents.compare_and_set("k" * 1_025, b"", 0)
    assert documents.get("key").value == b"12345"
    monkeypatch.setattr(kept, "MAX_BYTES", 100)
    monkeypatch.setattr(kept, "MAX_DOCUMENTS", 1)
    with pytest.raises(StoreError, match="1 documents"):
        await documents.compare_and_set("k", b"", 0)
    await documents.compare_and_set("key", None, revision)
    await documents.compare_and_set("k", b"1234567", 0)


async def test_a_directory_above_the_bounds_stops_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the database and the bound, and leaves the directory to others."""
    documents = opened(tmp_path)
    await documents.compare_and_set("key", b"12345", 0)
    await documents.close()
    monkeypatch.setattr(kept, "MAX_BYTES", 7)
    with pytest.raises(SettingsError, match=r"state\.sqlite cannot be read: .* more than 7 bytes"):
        opened(tmp_path)
    monkeypatch.undo()
    await opened(tmp_path).close()


def opened(folder: Path, *passing: str, disk: Disk | None = None) -> Kept:
    """The documents of a directory."""
    documents = Kept(disk or Disk(folder), passing)
    documents.open()
    return documents


async def test_a_restart_has_all_answered_writes(tmp_path: Path) -> None:
    """Documents and revisions are restored, except for those of one run only."""
    documents = opened(tmp_path, "shared/moves", "secret")
    for key in ("shared/budgets", "shared/moves", "secret", "gone"):
        await documents.compare_and_set(key, key.encode(), 0)
    await documents.compare_and_set("gone", None, documents.get("gone").revision)
    before = documents.get("shared/budgets")
    await documents.close()
    documents = opened(tmp_path, "shared/moves", "secret")
    assert documents.found("") == {"shared/budgets": before}
    assert await documents.compare_and_set("shared/new", b"", 0) > before.revision
    await documents.close()


class SlowDisk(Disk):
    """A disk whose writes hang."""

    def __init__(self, path: Path) -> None:
        """Hang until `goes_on` is set."""
        super().__init__(path)
        self.begun = threading.Event()
        self.goes_on = threading.Event()

    def write(self, name: str, document: Document | None) -> None:
        """Wait."""
        self.wait()
        super().write(name, document)

    def prepare(self, name: str, value: bytes) -> None:
        """Wait."""
        self.wait()
        super().prepare(name, value)

    def wait(self) -> None:
        """Wait until it continues."""
        self.begun.set()
        assert self.goes_on.wait(PATIENCE)


async def test_reads_have_durable_documents_only(tmp_path: Path) -> None:
    """Others read the previous document until the disk has the new one; reads do not wait for it."""
    disk = SlowDisk(tmp_path)
    documents = opened(tmp_path, "shared/moves", disk=disk)
    writing = asyncio.create_task(documents.compare_and_set("shared/budgets", b"new", 0))
    await asyncio.to_thread(disk.begun.wait)
    assert await documents.read("shared/budgets") == Document()
    assert await documents.compare_and_set("shared/moves", b"other", 0)
    second = asyncio.create_task(documents.compare_and_set("shared/budgets", b"late", 0))
    # The caller is cancelled, and the write continues.
    writing.cancel()
    disk.goes_on.set()
    with pytest.raises(Conflict):
        await second
    late = await documents.read("shared/budgets")
    assert late.value == b"new"
    # Watchers are woken for documents that are newer than all that they have read.
    assert late.revision > documents.get("shared/moves").revision
    await documents.close()


async def test_a_cancelled_preparation_ends_before_the_next_write(tmp_path: Path) -> None:
    """The space on the disk is reserved for the last prepared value, even after a cancelled preparation."""
    disk = SlowDisk(tmp_path)
    documents = opened(tmp_path, disk=disk)
    preparing = asyncio.create_task(documents.prepare("shared/budgets", b"given up", 0))
    await asyncio.to_thread(disk.begun.wait)
    preparing.cancel()
    writing = asyncio.create_task(documents.compare_and_set("shared/budgets", b"new", 0))
    _, waiting = await asyncio.wait([preparing, writing], timeout=0)
    assert waiting == {preparing, writing}
    disk.goes_on.set()
    await writing
    assert preparing.cancelled()
    assert documents.get("shared/budgets").value == b"new"
    await documents.close()


async def test_a_refusing_disk_keeps_the_document(tmp_path: Path) -> None:
    """A failed write raises the reason; readers and the next start have the previous document."""
    documents = opened(tmp_path)
    revision = await documents.compare_and_set("shared/budgets", b"old", 0)
    lock = tmp_path / "lock"
    lock.rename(tmp_path / "elsewhere")
    for write in (
        documents.compare_and_set("shared/budgets", b"new", revision),
        documents.compare_and_set("shared/budgets", None, revision),
        documents.prepare("shared/budgets", b"new", revision),
        documents.discard("shared/budgets"),
    ):
        with pytest.raises(StoreError, match="was removed or replaced"):
            await write
    assert documents.get("shared/budgets") == Document(value=b"old", revision=revision)
    (tmp_path / "elsewhere").rename(lock)
    assert await documents.compare_and_set("shared/budgets", b"new", revision)
    await documents.close()


async def test_watchers_are_woken_by_shared_documents_only() -> None:
    """Watchers are woken only by documents that snapshots have."""
    documents = Kept()
    await documents.compare_and_set("usage/rm", b"", 0)
    before = documents.changes
    revision = await documents.compare_and_set("shared/one", b"", 0)
    await documents.compare_and_set("shared/one", None, revision)
    assert documents.changes == before + 2
