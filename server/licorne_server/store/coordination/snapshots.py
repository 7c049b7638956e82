"""Snapshots of the store: the last one, and snapshots that are read on request.

A snapshot may be outdated, so no decision depends on it alone: the store refuses a claim whose assumptions
do not hold, and a member reads a new snapshot before it redirects an RM.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import structlog

from licorne_server.store.coordination.lease import StoreCalls
from licorne_server.store.coordination.store import Gone, Member, MemberId, Ownership, Snapshot, Store
from licorne_server.store.documents.documents import StoreError

log = structlog.get_logger("core.members")

PAUSE = 1.0
"""Seconds after which a watch that has ended is opened again."""

GONE_SECONDS = 600.0
"""Seconds for which a member that has departed without leaving normally is missed."""


class Snapshots:
    """Follows the store, and reads it on demand."""

    def __init__(self, store: Store, read: Callable[[Snapshot], None], unix: Callable[[], float]) -> None:
        """`read` is called with each snapshot, after `latest` is set; `unix` returns unix seconds."""
        self._store = store
        self._call = StoreCalls(store)
        self._read = read
        self._lock = asyncio.Lock()
        # Reads are numbered in the order in which they begin.
        self._begun = 0
        self._ended = 0
        self._outcome: Snapshot | StoreError = Snapshot()
        self.latest = Snapshot()
        """The snapshot that was read last."""
        self.gone: dict[MemberId, Gone] = {}
        """Members without a lease: members that are missed, and members that still own RMs."""
        self._unix = unix

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
        """A snapshot whose read begins after this call. Waiting callers share the next read.

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
        """The first snapshot of a new watch."""
        async with closing(self._store.watch()) as snapshots:
            async for snapshot in snapshots:
                return snapshot
        raise StoreError("the watch has ended without a snapshot")

    def _note(self, snapshot: Snapshot) -> None:
        self._miss(self.latest, snapshot)
        self.latest = snapshot
        self._read(snapshot)

    def _miss(self, before: Snapshot, snapshot: Snapshot) -> None:
        """Record which members have departed, and which of them are missed."""
        now, owners = self._unix(), {record.owner for record in snapshot.rms.values() if record.owner}
        back = {member.name for member in snapshot.members.values()}
        was = dict(self.gone)
        self.gone.clear()
        for member_id in {*was, *before.members, *owners} - snapshot.members.keys():
            unknown = Member(id=member_id, name=member_id, address="")
            one = was.get(member_id) or Gone(before.members.get(member_id, unknown), now)
            is_missed = one.member.address and not one.member.draining and one.member.name not in back
            is_over = not is_missed or now - one.since >= GONE_SECONDS
            if not is_over or member_id in owners:
                self.gone[member_id] = replace(one, is_over=is_over)


@asynccontextmanager
async def closing(snapshots: AsyncIterator[Snapshot]) -> AsyncIterator[AsyncIterator[Snapshot]]:
    """Close a watch at the end of the block; an iterator that is no generator has nothing to close."""
    try:
        yield snapshots
    finally:
        if isinstance(snapshots, AsyncGenerator):
            await snapshots.aclose()


def owner_in(snapshot: Snapshot, record: Ownership | None) -> Member | None:
    """The owner of an RM, if it has a valid lease; else None."""
    return None if record is None else snapshot.members.get(record.owner)


def newer(first: Ownership | None, second: Ownership | None) -> Ownership | None:
    """The record with the higher epoch; `first` if the epochs are equal."""
    if first is None or second is None:
        return first or second
    return second if second.epoch > first.epoch else first


def is_taken(served: Ownership, record: Ownership) -> bool:
    """True if `record` has transferred the RM from the owner of `served` to another owner.

    A record of a lower epoch is older. A record with the same owner is from the owner's own claim.
    """
    return record.owner != served.owner and record.epoch >= served.epoch
