"""The end of a member, and its last writes to the store."""

import asyncio

import pytest

from support.members import Documents
from support.peers.members import members
from support.peers.shim import Shim, connected


async def test_the_store_is_closed_after_the_last_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that stops completes its writes, and then closes the store."""
    replace = Documents.compare_and_set

    async def late(store: Documents, key: str, value: bytes | None, revision: int) -> int:
        await asyncio.sleep(0.2)
        return await replace(store, key, value, revision)

    monkeypatch.setattr(Documents, "compare_and_set", late)
    async with members("a") as deployment:
        server = deployment.servers["a"]
        async with connected(server) as channel:
            await Shim(channel).register()
        store = server.ownership.store
        assert isinstance(store, Documents)
    assert "configurations/rm" in store.documents
    assert not store.last
