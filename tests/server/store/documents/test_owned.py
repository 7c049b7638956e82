"""Documents of RMs: consecutive owners, late writes, lost answers, and failing disks."""

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from licorne_core.values.ids import RmId
from licorne_server.process.settings import SettingsError
from licorne_server.store.documents.disk import Disk
from licorne_server.store.documents.documents import Conflict, Document, Documents, StoreError, TooLarge
from licorne_server.store.documents.encoding import Newer
from licorne_server.store.documents.kept import Kept
from licorne_server.store.documents.owned import (
    Damaged,
    DocumentForm,
    Owned,
    content_of,
    epoch_of,
    headed,
    pack,
    unpack,
)

RM = RmId("rm/1")
KEY = "texts/rm%2F1"
LONGEST = 100


class Texts(DocumentForm[list[str]]):
    """A text for each RM, in a list, so that each value is one object."""

    prefix = "texts/"
    what = "text"

    def encode(self, rm_id: RmId, value: list[str], largest: int) -> bytes:
        """The text as bytes."""
        content = value[0].encode()
        if len(content) > min(largest, LONGEST):
            raise TooLarge(f"the text of RM {rm_id} has {len(content)} bytes")
        return content

    def decode(self, rm_id: RmId, content: bytes) -> list[str]:
        """The text."""
        if content.startswith(b"spoilt"):
            raise Damaged(f"the text of RM {rm_id} is spoilt")
        if content.startswith(b"newer"):
            raise Newer("format 2 is newer than 1")
        return [content.decode()]


class Lossy(Kept):
    """A store of members that loses the answers to some writes, or all of them."""

    exclusive = False
    losses = 0

    async def compare_and_set(self, key: str, value: bytes | None, revision: int) -> int:
        """Carry the write out, and perhaps lose the answer."""
        written = await super().compare_and_set(key, value, revision)
        if self.losses:
            self.losses -= 1
            raise StoreError("no answer")
        return written


class Owner(Owned[list[str]]):
    """A member that stores texts while it owns the RM."""

    def __init__(self, documents: Documents, epoch: int) -> None:
        """Own the RM under that epoch."""
        super().__init__(documents, Texts(), lambda rm_id: self.epoch if rm_id == RM else 0)
        self.epoch = epoch

    async def stores(self, text: str) -> bool:
        """Store a text like an operator's change."""
        await self.prepare(RM, [text])
        return await self.commit(RM)


@pytest.fixture
def store() -> Lossy:
    """A store of members."""
    store = Lossy()
    store.persistent = True
    return store


async def test_nothing_is_stored_for_an_rm_that_never_registers(store: Lossy) -> None:
    """The first access to an RM leaves no document, so that ids that never register do not fill the store."""
    assert await Owner(store, 5).fetch(RM) is None
    assert await store.read(KEY) == Document()


async def test_a_document_follows_its_rm(store: Lossy) -> None:
    """The next owner reads the last stored document, and marks it as its own at once."""
    first = Owner(store, 5)
    assert await first.fetch(RM) is None
    assert await first.stores("one")
    assert await Owner(store, 6).fetch(RM) == ["one"]
    document = await store.read(KEY)
    assert (epoch_of(document), content_of(document.value)) == (6, b"one")


async def test_changes_in_memory_are_not_persistent(store: Lossy) -> None:
    """An operator is informed if a stored change does not survive a restart of all servers."""
    store.persistent = False
    owner = Owner(store, 5)
    await owner.fetch(RM)
    assert not await owner.stores("one")
    assert await Owner(store, 6).fetch(RM) == ["one"]


async def test_a_lost_answer_does_not_prevent_later_writes(store: Lossy) -> None:
    """A write that was carried out without an answer counts as this owner's, and can be replaced."""
    owner = Owner(store, 5)
    await owner.fetch(RM)
    store.losses = 1
    assert not await owner.stores("one")
    assert await owner.stores("two")
    assert await Owner(store, 6).fetch(RM) == ["two"]


async def test_a_previous_owner_writes_nothing(store: Lossy) -> None:
    """Once another member owns the RM, the previous owner's writes fail, and its operator gets the reason."""
    first, second = Owner(store, 5), Owner(store, 6)
    await first.fetch(RM)
    assert await first.stores("one")
    assert await second.fetch(RM) == ["one"]
    for epoch in (5, 0):
        first.epoch = epoch
        with pytest.raises(Conflict, match="another owner"):
            await first.stores("two")
    with capture_logs() as logs:
        first.save(RM, ["three"])
        assert not await first.write(RM, ["four"])
        first.drop(RM)
        await first.close()
    assert not logs
    assert await second.fetch(RM) == ["one"]


async def test_a_late_write_of_a_previous_owner_is_replaced(store: Lossy) -> None:
    """A document that a previous owner wrote after the RM was fetched does not prevent storing."""
    first, second = Owner(store, 5), Owner(store, 6)
    for owner in (first, second):
        await owner.fetch(RM)
    assert await first.write(RM, ["one"])
    assert await second.write(RM, ["two"])
    assert await Owner(store, 7).fetch(RM) == ["two"]


@pytest.mark.parametrize("head", [b"", b"epoch \n", b"epoch x\n", b"epoch " + b"9" * 300 + b"\n", b"\n"])
async def test_a_damaged_document_does_not_prevent_writes(store: Lossy, head: bytes) -> None:
    """An unreadable document without an epoch is logged and replaced."""
    await store.compare_and_set(KEY, head + b"spoilt", 0)
    owner = Owner(store, 5)
    if content_of(head + b"spoilt") == b"spoilt":
        with pytest.raises(Damaged, match="is spoilt"):
            await owner.fetch(RM)
    await store.compare_and_set(KEY, head + b"spoilt again", (await store.read(KEY)).revision)
    assert await owner.stores("one")
    assert await Owner(store, 6).fetch(RM) == ["one"]


async def test_the_last_of_many_values_is_stored(store: Lossy) -> None:
    """Values that arrive faster than they are written may be skipped, except for the last one."""
    owner = Owner(store, 5)
    for number in range(20):
        owner.save(RM, [str(number)])
    await owner.written(RM)
    document = await store.read(KEY)
    assert content_of(document.value) == b"19"
    await owner.write(RM, ["19"])
    assert await store.read(KEY) == document


async def test_a_dropped_document_is_not_found_again(store: Lossy) -> None:
    """An RM that is forgotten and registers at once finds no document, whatever is being written."""
    owner = Owner(store, 5)
    owner.save(RM, ["one"])
    owner.drop(RM)
    assert await owner.fetch(RM) is None
    assert await store.read(KEY) == Document()


async def test_a_refused_value_is_reported_once(store: Lossy) -> None:
    """A value that is too large is refused with the reason: each time for an operator, once in the log."""
    owner = Owner(store, 5)
    assert await owner.stores("one")
    large = "x" * (LONGEST + 1)
    with capture_logs() as logs:
        for _ in range(2):
            assert not await owner.write(RM, [large])
            with pytest.raises(TooLarge, match="has 101 bytes"):
                await owner.prepare(RM, [large])
    assert [(line["log_level"], line["event"], line["reason"]) for line in logs] == [
        ("error", "text not stored", f"the text of RM {RM} has 101 bytes")
    ]
    assert await Owner(store, 6).fetch(RM) == ["one"]


async def test_a_discarded_value_is_not_stored(tmp_path: Path) -> None:
    """A prepared and discarded value is not on the disk, and the next change is stored."""
    documents = Kept(Disk(tmp_path))
    documents.open()
    owner = Owner(documents, 5)
    assert await owner.stores("one")
    await owner.prepare(RM, ["given up"])
    owner.discard(RM)
    await owner.close()
    assert b"given up" not in (tmp_path / "state.sqlite").read_bytes()
    assert await owner.stores("two")
    await documents.close()
    documents = Kept(Disk(tmp_path))
    documents.open()
    # The clock was set back, so epochs are lower.
    owner = Owner(documents, 3)
    assert dict(owner.found()) == {RM: ["two"]}
    assert await owner.stores("three")
    await documents.close()


async def test_a_full_disk_lets_the_next_owner_serve(tmp_path: Path) -> None:
    """Marking a document needs no disk space; storing one fails with an error."""
    documents = Kept(Disk(tmp_path))
    documents.open()
    assert await Owner(documents, 5).stores("one")
    (tmp_path / "lock").unlink()
    owner = Owner(documents, 6)
    assert await owner.fetch(RM) == ["one"]
    with pytest.raises(StoreError, match="was removed or replaced"):
        await owner.stores("two")
    assert content_of((await documents.read(KEY)).value) == b"one"
    await documents.close()


async def test_closing_flushes_all_values(tmp_path: Path) -> None:
    """When the storage is closed all values are on the disk."""
    documents = Kept(Disk(tmp_path))
    documents.open()
    owner = Owner(documents, 5)
    for number in range(10):
        owner.save(RM, [str(number)])
    await owner.close()
    await documents.close()
    documents = Kept(Disk(tmp_path))
    documents.open()
    assert dict(Owner(documents, 6).found()) == {RM: ["9"]}
    await documents.close()


async def test_a_started_write_is_completed(store: Lossy) -> None:
    """A cancelled caller does not stop its write."""
    owner = Owner(store, 5)
    writing = asyncio.create_task(owner.write(RM, ["one"]))
    await asyncio.sleep(0)
    writing.cancel()
    await owner.close()
    assert content_of((await store.read(KEY)).value) == b"one"


def test_the_head_of_a_document_survives_encoding() -> None:
    """The epoch is that of the owner, and the content may have any bytes."""
    for content in (b"", b"\n", b"epoch 7\nx", bytes(range(256))):
        value = headed(content, 2**53)
        assert (epoch_of(Document(value=value)), content_of(value)) == (2**53, content)


@pytest.mark.parametrize("content", [b"", b"x", pack(b"x" * 100)[:-3]])
def test_damaged_content_is_refused(content: bytes) -> None:
    """Truncated or foreign content is refused."""
    assert unpack(pack(b"data")) == b"data"
    with pytest.raises(Damaged):
        unpack(content)


@pytest.mark.parametrize(("content", "what"), [(b"spoilt", "damaged"), (b"newer", "of a newer version")])
async def test_an_unreadable_document_stops_the_start(tmp_path: Path, content: bytes, what: str) -> None:
    """The error names the database, the RM and the remedy; no applied configuration is dropped silently."""
    documents = Kept(Disk(tmp_path))
    documents.open()
    await documents.compare_and_set(KEY, headed(content, 1), 0)
    with pytest.raises(SettingsError, match=rf"/state\.sqlite is {what}: of RM {RM}, .* Bring back"):
        dict(Owner(documents, 5).found())
    await documents.close()
