"""The contract of documents, for every backend."""

import asyncio
from collections.abc import Callable

import pytest

from licorne_server.store.documents.documents import Conflict, Document, Documents, StoreError, TooLarge

KEYS = ("shared/budget", "configurations/rm", "members/a", "rms/one")


@pytest.mark.parametrize("key", KEYS)
async def test_replacing_a_document_needs_its_revision(
    documents: Documents, others: Documents, key: str
) -> None:
    """Only the present revision is replaced or removed, and zero stands for no document."""
    assert await documents.read(key) == Document()
    first = await documents.compare_and_set(key, b"one", 0)
    assert await others.read(key) == Document(value=b"one", revision=first)
    for wrong in (0, first + 1000):
        with pytest.raises(Conflict):
            await others.compare_and_set(key, b"two", wrong)
    second = await others.compare_and_set(key, b"", first)
    assert await documents.read(key) == Document(value=b"", revision=second)
    assert second not in {0, first}
    with pytest.raises(Conflict):
        await documents.compare_and_set(key, None, first)
    assert await documents.compare_and_set(key, None, second) == 0
    assert await others.read(key) == Document()
    with pytest.raises(Conflict):
        await documents.compare_and_set(key, b"three", second)
    assert await documents.compare_and_set(key, b"three", 0) not in {0, first, second}


async def test_one_of_many_writers_wins(documents: Documents, others: Documents) -> None:
    """Of writers that have read the same revision exactly one writes."""
    revision = await documents.compare_and_set("shared/one", b"0", 0)
    for turn in range(10):
        writes = [
            one.compare_and_set("shared/one", f"{turn} {n}".encode(), revision)
            for n, one in enumerate((documents, others, documents, others))
        ]
        answers = await asyncio.gather(*writes, return_exceptions=True)
        [revision] = [answer for answer in answers if isinstance(answer, int)]
        assert sum(isinstance(answer, Conflict) for answer in answers) == 3
    assert (await others.read("shared/one")).revision == revision


async def test_preparing_a_document_needs_its_revision(documents: Documents, others: Documents) -> None:
    """Preparing a write changes nothing, and is refused if the write would be refused."""
    key = "configurations/rm"
    await documents.prepare(key, b"one", 0)
    assert await others.read(key) == Document()
    first = await documents.compare_and_set(key, b"one", 0)
    for wrong in (0, first + 1000):
        with pytest.raises(Conflict):
            await others.prepare(key, b"two", wrong)
    await others.prepare(key, b"two", first)
    await others.discard(key)
    assert await documents.read(key) == Document(value=b"one", revision=first)
    await documents.prepare(key, b"three", first)
    second = await documents.compare_and_set(key, b"four", first)
    assert await others.read(key) == Document(value=b"four", revision=second)


async def test_the_largest_document_is_stored(documents: Documents, others: Documents) -> None:
    """The largest document is stored unchanged, and a larger one is refused before it is sent."""
    value = bytes(range(256)) * (documents.largest // 256)
    revision = await documents.compare_and_set("shared/large", value, 0)
    with pytest.raises(TooLarge, match="shared/large"):
        await documents.compare_and_set("shared/large", value + b"x", revision)
    with pytest.raises(TooLarge, match="shared/large"):
        await documents.prepare("shared/large", value + b"x", revision)
    assert await others.read("shared/large") == Document(value=value, revision=revision)


async def test_concurrent_updates_are_merged(documents: Documents, others: Documents) -> None:
    """Each of many concurrent updates is included in the end, and one without a change writes nothing."""

    def adding(mark: bytes) -> Callable[[Document], bytes]:
        return lambda before: before.value + mark

    marks = [bytes((65 + number,)) for number in range(8)]
    tries = len(marks) + 1
    assert all(
        await asyncio.gather(
            *(
                (documents, others)[number % 2].update("shared/marks", adding(mark), tries)
                for number, mark in enumerate(marks)
            )
        )
    )
    stored = await documents.read("shared/marks")
    assert sorted(stored.value) == sorted(b"".join(marks))
    assert not await others.update("shared/marks", lambda before: before.value)
    assert await documents.read("shared/marks") == stored
    assert await others.update("shared/marks", lambda _: None)
    assert not await others.update("shared/marks", lambda _: None)


async def test_a_cancelled_write_is_carried_out_or_not(documents: Documents, others: Documents) -> None:
    """A caller that cancels a write reads the old or the new document, and can continue from it."""
    revision = await documents.compare_and_set("shared/one", b"old", 0)
    writing = asyncio.create_task(documents.compare_and_set("shared/one", b"new", revision))
    await asyncio.sleep(0)
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    found = await others.read("shared/one")
    assert found.value in {b"old", b"new"}

    def shout(before: Document) -> bytes:
        return before.value.upper()

    await documents.update("shared/one", shout)
    assert (await others.read("shared/one")).value in {b"OLD", b"NEW"}


async def test_closed_documents_refuse_calls(documents: Documents) -> None:
    """A write in progress is finished, and later calls fail as for a lost store."""
    await documents.compare_and_set("shared/one", b"1", 0)
    await documents.close()
    await documents.close()
    for call in (
        documents.read("shared/one"),
        documents.compare_and_set("shared/two", b"2", 0),
        documents.prepare("shared/two", b"2", 0),
    ):
        with pytest.raises(StoreError):
            await call
