"""Revisions in the store of a deployment, whose writes may be late and whose answers may be lost."""

import pytest

from licorne_core.values.ids import RmId
from licorne_server.store.configurations.shared import SharedKeeper
from licorne_server.store.coordination.store import Document, StoreError
from support.peers.members import Documents
from support.state import revisions_of

RM = RmId("rm")
KEY = "configurations/rm"
ONE = "partitions: [{name: default, queues: [{name: one}]}]"
TWO = "partitions: [{name: default, queues: [{name: two}]}]"


class Lossy(Documents):
    """A store that loses the answers to some writes."""

    losses = 0

    async def compare_and_set(self, key: str, value: bytes | None, revision: int) -> int:
        """Carry the write out, and perhaps do not say so."""
        written = await super().compare_and_set(key, value, revision)
        if self.losses:
            self.losses -= 1
            raise StoreError("no answer")
        return written


class Owner:
    """A member that keeps revisions while it owns the RM."""

    def __init__(self, store: Documents, epoch: int) -> None:
        """Own the RM under that epoch."""
        self.epoch = epoch
        self.keeper = SharedKeeper(store, lambda rm_id: self.epoch if rm_id == RM else 0)

    async def stores(self, *configs: str) -> bool:
        """Apply configurations as an operator does."""
        revisions = revisions_of(RM, *configs)
        await self.keeper.prepare(revisions)
        return await self.keeper.commit(revisions)


async def count(owner: Owner) -> int:
    """Number of revisions that an owner finds."""
    found = await owner.keeper.fetch(RM)
    return 0 if found is None else len(found.kept)


async def test_nothing_is_stored_for_an_rm_that_only_knocks() -> None:
    """The first look at an RM leaves no document: ids that never register fill no store."""
    store = Documents()
    assert await Owner(store, 5).keeper.fetch(RM) is None
    assert await store.read(KEY) == Document()


async def test_a_lost_answer_does_not_end_the_storing() -> None:
    """A write that was carried out without an answer is this owner's own: the next one replaces it."""
    store = Lossy()
    owner = Owner(store, 5)
    await owner.keeper.fetch(RM)
    store.losses = 1
    assert not await owner.stores(ONE)
    assert await owner.stores(ONE, TWO)
    assert await count(Owner(store, 6)) == 2


async def test_an_earlier_owner_replaces_nothing() -> None:
    """Once another member owns the RM an earlier owner's write fails, and its operator reads it."""
    store = Documents()
    first, second = Owner(store, 5), Owner(store, 6)
    await first.keeper.fetch(RM)
    assert await first.stores(ONE)
    assert await count(second) == 1
    for epoch in (5, 0):
        first.epoch = epoch
        with pytest.raises(OSError, match="another owner"):
            await first.stores(ONE, TWO)
    first.keeper.drop(RM)
    await first.keeper.close()
    assert first.keeper.failures == 2
    assert await count(second) == 1


async def test_a_late_write_of_an_earlier_owner_is_replaced() -> None:
    """A document that an earlier owner made after the RM was fetched keeps nobody from storing."""
    store = Documents()
    first, second = Owner(store, 5), Owner(store, 6)
    for owner in (first, second):
        await owner.keeper.fetch(RM)
    first.keeper.save(revisions_of(RM, ONE))
    await first.keeper.close()
    assert (await store.read(KEY)).revision
    second.keeper.save(revisions_of(RM, ONE, TWO))
    await second.keeper.close()
    assert await count(Owner(store, 7)) == 2


@pytest.mark.parametrize("head", [b"", b"{}", b"[1]", b'{"epoch": "9"}', b"[" * 300])
async def test_a_spoilt_document_keeps_nobody_from_storing(head: bytes) -> None:
    """A document without an epoch is told, and replaced by what the RM registers with."""
    store = Documents()
    await store.compare_and_set(KEY, head + b"\nspoilt", 0)
    owner = Owner(store, 5)
    assert await owner.keeper.fetch(RM) is None
    await store.compare_and_set(KEY, head + b"\nagain", (await store.read(KEY)).revision)
    assert await owner.stores(ONE)
    assert await count(Owner(store, 6)) == 1
