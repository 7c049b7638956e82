"""The interface of a backend for contract tests: running servers, and stores for any number of members."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

from licorne_core.values.ids import RmId
from licorne_server.store.coordination.store import LeaseLost, Member, MemberId, Ownership, Snapshot, Store
from licorne_server.store.documents.documents import Conflict, StoreError
from support.patience import PATIENCE

LONG = 60.0
"""Seconds of a lease that does not end within a test."""

SHORT = 2.0
"""Seconds of a lease that a test waits for."""

R = TypeVar("R")


class Backend(Protocol):
    """A running store, empty at first, which its fixture ends or empties."""

    def open(self, lease: float = LONG) -> Store:
        """The access of one more member, which has not joined. Its calls have time-outs that suit a
        busy machine. Tests close it."""
        ...


def member(name: str) -> Member:
    """A member of that id."""
    return Member(id=MemberId(name), name=f"name of {name}", address=f"{name}.example:7070")


def rm(name: str) -> RmId:
    """An RM id."""
    return RmId(name)


@asynccontextmanager
async def watching(store: Store) -> AsyncIterator[AsyncIterator[Snapshot]]:
    """A watch of the store, which is closed at the end."""
    snapshots = store.watch()
    try:
        yield snapshots
    finally:
        # A watch is a generator; whatever it holds would outlive the loop if it were not closed.
        close: Callable[[], Awaitable[None]] | None = getattr(snapshots, "aclose", None)
        if close is not None:
            await close()


async def until(snapshots: AsyncIterator[Snapshot], holds: Callable[[Snapshot], bool]) -> Snapshot:
    """The first of these snapshots that meets the condition."""
    async with asyncio.timeout(PATIENCE):
        async for snapshot in snapshots:
            if holds(snapshot):
                return snapshot
    raise AssertionError("the watch has ended")


async def present(store: Store) -> Snapshot:
    """The present contents of the store."""
    async with watching(store) as snapshots:
        return await until(snapshots, lambda _: True)


async def record(store: Store, rm_id: RmId) -> Ownership | None:
    """The present record of an RM."""
    return (await present(store)).rms.get(rm_id)


async def claimed_at_last(store: Store, rm_id: RmId, owner: MemberId) -> Ownership:
    """The RM's record, claimed as soon as its present owner has lost its lease."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await store.claim(rm_id, owner, await record(store, rm_id), 0)
            except Conflict:
                await asyncio.sleep(0.05)


async def insisted(call: Callable[[], Awaitable[R]]) -> R:
    """The answer of an idempotent call, which is repeated until the store answers."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await call()
            except (Conflict, LeaseLost):
                raise
            except StoreError:
                await asyncio.sleep(0.05)
