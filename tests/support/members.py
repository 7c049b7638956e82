"""Members of a deployment in one process: real servers over a table of owners in memory."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

from licorne_core.config import load
from licorne_core.values.ids import RmId
from licorne_server.assembly.server import Server
from licorne_server.process.clock import Clock
from licorne_server.process.settings import Settings
from licorne_server.store.coordination.ownership import Counts, Ownership
from licorne_server.store.coordination.secret import KEY
from licorne_server.store.coordination.store import Gone, Member, MemberId, Snapshot, Store
from licorne_server.store.coordination.store import Ownership as Record
from licorne_server.store.documents.documents import SHARED, Conflict, Document, StoreError
from support.peers.shim import LOOPBACK

TOKEN = "secretOfThisDeployment"
"""The secret that all members know."""


class Table(Store):
    """Members, owners and documents, without leases; all members read it at once."""

    lease = 6.0

    def __init__(self) -> None:
        """Create an empty deployment, whose store answers."""
        self.members: dict[MemberId, Member] = {}
        self.rms: dict[RmId, Record] = {}
        self.documents = {KEY: Document(value=TOKEN.encode(), revision=1)}
        self.answers = True
        self.gone: dict[MemberId, Gone] = {}
        self.lease_lives = True

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot read by every member."""
        shared = {key: one for key, one in self.documents.items() if key.startswith(SHARED)}
        return Snapshot(members=dict(self.members), rms=dict(self.rms), documents=shared)

    async def join(self, member: Member) -> None:
        """Add a member, or replace its published record."""
        self.members[member.id] = member

    renew = join

    async def leave(self) -> None:
        """Do nothing: a seat removes its own member."""

    async def claim(self, rm_id: RmId, owner: MemberId, seen: Record | None, at_least: int) -> Record:
        """Assign an RM to a member."""
        record = self.rms.get(rm_id)
        epoch = max(at_least, record.epoch if record else 0) + 1
        self.rms[rm_id] = Record(rm_id=rm_id, owner=owner, epoch=epoch)
        return self.rms[rm_id]

    async def release(self, owned: Record) -> Record:
        """Leave an RM without an owner."""
        self.rms[owned.rm_id] = replace(owned, owner=MemberId(""))
        return self.rms[owned.rm_id]

    async def watch(self) -> AsyncIterator[Snapshot]:
        """The present snapshot alone: seats read the table itself."""
        yield self.snapshot

    async def read(self, key: str) -> Document:
        """A document."""
        await self._answer()
        return self.documents.get(key, Document())

    async def compare_and_set(self, key: str, value: bytes | None, revision: int) -> int:
        """Replace a document of that revision."""
        await self._answer()
        before = self.documents.get(key, Document())
        if before.revision != revision:
            raise Conflict(key)
        if value is None:
            self.documents.pop(key, None)
            return 0
        self.documents[key] = Document(value=value, revision=revision + 1)
        return revision + 1

    async def close(self) -> None:
        """Nothing is open."""

    async def _answer(self) -> None:
        await asyncio.sleep(0)
        if not self.answers:
            raise StoreError("the store does not answer")


class Seat(Ownership):
    """One member's place at the table."""

    def __init__(self, table: Table, name: str, started: float) -> None:
        """Join at the start of the server, at `started` in unix seconds."""
        self.store = self._table = table
        self.gone = table.gone
        self._id = MemberId(f"id-of-{name}")
        self._name = name
        self._at = started
        self.counted = Counts()

    def may_decide(self) -> bool:
        """The value set by a test."""
        return self._table.lease_lives

    def me(self) -> MemberId:
        """The id, which never changes."""
        return self._id

    def counts(self) -> Counts:
        """What a test has set."""
        return self.counted

    def problem(self) -> str:
        """The problem of the store."""
        return "" if self._table.answers else "the store does not answer"

    async def take(self, rm_id: RmId, named: int = 0) -> int | Member:
        """Assign the RM to the first caller."""
        owner = self.owner_of(rm_id)
        if owner is not None:
            return owner
        if not self.epoch(rm_id):
            await self._table.claim(rm_id, self._id, None, named)
        return self.epoch(rm_id)

    def epoch(self, rm_id: RmId) -> int:
        """The epoch of an RM of this member."""
        record = self._table.rms.get(rm_id)
        return record.epoch if record is not None and record.owner == self._id else 0

    def owner_of(self, rm_id: RmId) -> Member | None:
        """The other member that has the RM."""
        record = self._table.rms.get(rm_id)
        if record is None or record.owner == self._id:
            return None
        return self._table.members.get(record.owner)

    def snapshot(self) -> Snapshot:
        """The table."""
        return self._table.snapshot

    def forget(self, rm_id: RmId) -> None:
        """Remove the record of an RM of this member."""
        if self.epoch(rm_id):
            del self._table.rms[rm_id]

    async def start(self, address: str, http: str) -> None:
        """Join."""
        await self._table.join(
            Member(id=self._id, name=self._name, address=address, http=http, version="1.2", started=self._at)
        )

    async def stop(self) -> None:
        """Leave."""
        self._table.members.pop(self._id, None)


@asynccontextmanager
async def deployment(*names: str, table: Table | None = None, **changes: Any) -> AsyncIterator[list[Server]]:
    """Servers of these names with HTTP on loopback, one after another, with changed settings."""
    table = table or Table()
    async with AsyncExitStack() as stack:
        servers = []
        for name in names:
            servers.append(await stack.enter_async_context(member(table, name, **changes)))
        yield servers


@asynccontextmanager
async def member(table: Table, name: str, clock: Clock | None = None, **more: Any) -> AsyncIterator[Server]:
    """One more member at a table."""
    usual = {"listen": LOOPBACK, "http": LOOPBACK, "drain": 1.0, "default_config": load("")}
    seat = Seat(table, name, clock.now() if clock else 1000.0)
    server = Server(Settings(**{**usual, **more}), clock=clock, ownership=seat)
    try:
        await server.start()
        yield server
    finally:
        await server.stop()


def table_of(servers: Sequence[Server]) -> Table:
    """The table at which servers sit."""
    store = servers[0].ownership.store
    assert isinstance(store, Table)
    return store
