"""The contract of a store about documents and watches, kept by every backend."""

import asyncio
from collections.abc import Callable

import pytest

from licorne_server.store.coordination.store import MAX_DOCUMENT, Conflict, Document, Store, StoreError
from support.coordination.backends import member, present, rm, until, watching
from support.patience import PATIENCE

A = member("a")


async def test_a_document_can_be_prepared_by_who_knows_it(store: Store, other: Store) -> None:
    """Preparing changes nothing, and is refused where the replacement would be."""
    key = "configurations/rm"
    await store.prepare(key, b"one", 0)
    assert await other.read(key) == Document()
    first = await store.compare_and_set(key, b"one", 0)
    for wrong in (0, first + 1000):
        with pytest.raises(Conflict):
            await other.prepare(key, b"two", wrong)
    await other.prepare(key, b"two", first)
    await other.discard(key)
    assert await store.read(key) == Document(value=b"one", revision=first)


@pytest.mark.parametrize("key", ["shared/budget", "configurations/rm", "members/a", "rms/one"])
async def test_a_document_is_replaced_by_who_knows_it(store: Store, other: Store, key: str) -> None:
    """Only the present revision is replaced or removed, and zero stands for no document."""
    assert await store.read(key) == Document()
    first = await store.compare_and_set(key, b"one", 0)
    assert await other.read(key) == Document(value=b"one", revision=first)
    for wrong in (0, first + 1000):
        with pytest.raises(Conflict):
            await other.compare_and_set(key, b"two", wrong)
    second = await other.compare_and_set(key, b"", first)
    assert await store.read(key) == Document(value=b"", revision=second)
    assert second not in {0, first}
    with pytest.raises(Conflict):
        await store.compare_and_set(key, None, first)
    await store.compare_and_set(key, None, second)
    assert await other.read(key) == Document()
    with pytest.raises(Conflict):
        await store.compare_and_set(key, b"three", second)
    await store.compare_and_set(key, b"three", 0)


async def test_one_of_many_writers_wins(store: Store, other: Store) -> None:
    """Of writers that have read the same revision exactly one writes."""
    revision = await store.compare_and_set("shared/one", b"0", 0)
    for turn in range(10):
        writes = [
            one.compare_and_set("shared/one", f"{turn} {n}".encode(), revision)
            for n, one in enumerate((store, other, store, other))
        ]
        answers = await asyncio.gather(*writes, return_exceptions=True)
        [revision] = [answer for answer in answers if isinstance(answer, int)]
        assert sum(isinstance(answer, Conflict) for answer in answers) == 3


async def test_a_document_of_any_bytes_up_to_the_largest(store: Store) -> None:
    """The largest document is stored as it is, and a larger one is refused before it is sent."""
    value = bytes(range(256)) * (MAX_DOCUMENT // 256)
    revision = await store.compare_and_set("shared/large", value, 0)
    assert (await store.read("shared/large")).value == value
    with pytest.raises(ValueError, match="shared/large"):
        await store.compare_and_set("shared/large", value + b"x", revision)
    assert (await present(store)).documents["shared/large"].value == value


async def test_only_shared_documents_are_in_snapshots(store: Store) -> None:
    """A snapshot has the documents whose keys say so, and no others."""
    await store.compare_and_set("configurations/one", b"large", 0)
    revision = await store.compare_and_set("shared/budgets/one", b"small", 0)
    assert (await present(store)).documents == {
        "shared/budgets/one": Document(value=b"small", revision=revision)
    }


async def test_a_watch_shows_each_kind_of_change(store: Store, other: Store) -> None:
    """Members, owners and documents that come, change and go are seen by who watches."""
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


async def test_a_watch_goes_on_without_changes(store: Store) -> None:
    """Everything is read anew every few seconds, whether anything has changed or not."""
    async with watching(store) as snapshots:
        for _ in range(3):
            await until(snapshots, lambda _: True)


async def test_a_slow_reader_gets_the_newest(store: Store, other: Store) -> None:
    """Who does not look for a while is not shown all that has happened since, but what is."""
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


async def test_watches_of_one_store_are_apart(store: Store) -> None:
    """One that ends leaves the other as it is."""
    await store.join(A)
    async with watching(store) as one:
        async with watching(store) as another:
            await until(another, lambda _: True)
            await until(one, lambda _: True)
        claimed = await store.claim(rm("one"), A.id, None, 0)
        await until(one, lambda seen: seen.rms == {rm("one"): claimed})


async def test_a_closed_store_answers_nobody(opened: Callable[..., Store], other: Store) -> None:
    """After `close` calls fail as those of a store that does not answer, and the lease lives on."""
    store = opened()
    await store.join(A)
    await store.close()
    await store.close()
    with pytest.raises(StoreError):
        await store.read("shared/one")
    assert A.id in (await present(other)).members
