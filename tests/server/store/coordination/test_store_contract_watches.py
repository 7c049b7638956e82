"""The contract of a store about snapshots and watches, for every backend."""

import asyncio
from collections.abc import Callable

from licorne_server.store.coordination.store import Store
from licorne_server.store.documents.documents import MAX_DOCUMENT, Document
from support.coordination.backends import member, present, rm, until, watching
from support.patience import PATIENCE

A = member("a")


async def test_only_shared_documents_are_in_snapshots(store: Store) -> None:
    """A snapshot has the documents whose keys say so, up to the largest, and no others."""
    await store.compare_and_set("configurations/one", b"large", 0)
    small = await store.compare_and_set("shared/budgets/one", b"small", 0)
    value = bytes(range(256)) * (MAX_DOCUMENT // 256)
    large = await store.compare_and_set("shared/large", value, 0)
    assert (await present(store)).documents == {
        "shared/budgets/one": Document(value=b"small", revision=small),
        "shared/large": Document(value=value, revision=large),
    }


async def test_a_watch_shows_each_kind_of_change(store: Store, other: Store) -> None:
    """Additions, changes and removals of members, owners and documents are observed by a watch."""
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
    """All records are read again every few seconds, with or without changes."""
    async with watching(store) as snapshots:
        for _ in range(3):
            await until(snapshots, lambda _: True)


async def test_a_slow_reader_gets_the_newest(store: Store, other: Store) -> None:
    """A reader that pauses gets the present state, and not all changes since."""
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


async def test_a_closed_store_keeps_its_lease(opened: Callable[..., Store], other: Store) -> None:
    """A member whose access was closed lives until its lease ends."""
    store = opened()
    await store.join(A)
    await store.close()
    assert A.id in (await present(other)).members
