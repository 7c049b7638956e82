"""What a member knows of the others: the last snapshot, and reads that are newer than a question.

A snapshot may be old. So it decides nothing alone: a claim is refused by the store if what it
assumes does not hold, and before a member sends an RM elsewhere it reads afresh.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager

import structlog

from licorne_server.store.coordination.lease import Calls
from licorne_server.store.coordination.store import Member, Ownership, Snapshot, Store, StoreError

log = structlog.get_logger("core.members")

PAUSE = 1.0
"""Seconds before a watch that has ended is opened again."""


class Snapshots:
    """Follows the store, and reads it on demand."""

    def __init__(self, store: Store, read: Callable[[Snapshot], None]) -> None:
        """`read` is called with each snapshot, which is `latest` by then."""
        self._store = store
        self._call = Calls(store)
        self._read = read
        self._lock = asyncio.Lock()
        # Reads are numbered as they begin.
        self._begun = 0
        self._ended = 0
        self._outcome: Snapshot | StoreError = Snapshot()
        self.latest = Snapshot()
        """The snapshot that was read last."""

    async def run(self) -> None:
        """Follow the store. Never returns."""
        while True:
            try:
                async with closing(self._store.watch()) as snapshots:
                    async for snapshot in snapshots:
                        self._note(snapshot)
            except StoreError as error:
                log.warning("the watch has ended", error=str(error))
            await asyncio.sleep(PAUSE)

    async def afresh(self) -> Snapshot:
        """A snapshot whose read begins after this call. Those who wait share the next read.

        Raises:
            StoreError: the store did not answer.
        """
        wanted = self._begun + 1
        async with self._lock:
            if self._ended < wanted:
                await self._read_anew()
            if isinstance(self._outcome, StoreError):
                raise self._outcome
            return self._outcome

    async def _read_anew(self) -> None:
        number = self._begun = self._begun + 1
        try:
            self._outcome = await self._call(self._first())
        except StoreError as error:
            self._outcome = error
        else:
            self._note(self._outcome)
        self._ended = number

    async def _first(self) -> Snapshot:
        """The snapshot with which a watch begins."""
        async with closing(self._store.watch()) as snapshots:
            async for snapshot in snapshots:
                return snapshot
        raise StoreError("the watch has ended without a snapshot")

    def _note(self, snapshot: Snapshot) -> None:
        self.latest = snapshot
        self._read(snapshot)


@asynccontextmanager
async def closing(snapshots: AsyncIterator[Snapshot]) -> AsyncIterator[AsyncIterator[Snapshot]]:
    """A watch that is closed in the end. An iterator that is no generator has nothing to close."""
    try:
        yield snapshots
    finally:
        if isinstance(snapshots, AsyncGenerator):
            await snapshots.aclose()


def owner_in(snapshot: Snapshot, record: Ownership | None) -> Member | None:
    """The living owner of an RM, None if there is none."""
    return None if record is None else snapshot.members.get(record.owner)


def newer(first: Ownership | None, second: Ownership | None) -> Ownership | None:
    """The record with the higher epoch; the first one of equals."""
    if first is None or second is None:
        return first or second
    return second if second.epoch > first.epoch else first


def is_taken(served: Ownership, record: Ownership) -> bool:
    """True if the record has taken the RM away from the owner that serves it.

    A record of a lower epoch is older. One that names the same owner comes from its own claim.
    """
    return record.owner != served.owner and record.epoch >= served.epoch
