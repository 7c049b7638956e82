"""Members of a deployment in one process: real servers, with a table of owners in memory."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
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
from licorne_server.wire.errors import unavailable
from support.peers.shim import LOOPBACK

TOKEN = "secretOfThisDeployment"
"""The secret that all members know."""


class Documents(Store):
    """The documents of a store, without members and ownership."""

    lease = 6.0

    def __init__(self, secret: str = "") -> None:
        """Start an available store, whose deployment may have a secret."""
        self.documents = {KEY: Document(value=secret.encode(), revision=1)} if secret else {}
        self.answers = True
        self.last = ""
        """The key of the last write; empty after a member has closed its access."""
        self.writable = asyncio.Event()
        """Set while writes are possible; writes wait for it."""
        self.writable.set()
        self.waiting = asyncio.Event()
        """Set once a write waits."""

    async def read(self, key: str) -> Document:
        """A document."""
        await self._answer()
        return self.documents.get(key, Document())

    async def compare_and_set(self, key: str, value: bytes | None, revision: int) -> int:
        """Replace a document if its revision is the given one, once writes are possible."""
        await self._answer()
        if not self.writable.is_set():
            self.waiting.set()
            await self.writable.wait()
        if self.documents.get(key, Document()).revision != revision:
            raise Conflict(key)
        self.last = key
        if value is None:
            self.documents.pop(key, None)
            return 0
        self.documents[key] = Document(value=value, revision=revision + 1)
        return revision + 1

    async def join(self, member: Member) -> None:
        """Do nothing."""

    renew = join

    async def leave(self) -> None:
        """Do nothing: a seat removes its own member."""

    async def claim(self, rm_id: RmId, owner: MemberId, seen: Record | None, at_least: int) -> Record:
        """Claim nothing."""
        raise NotImplementedError

    async def release(self, owned: Record) -> Record:
        """Release nothing."""
        raise NotImplementedError

    def watch(self) -> AsyncIterator[Snapshot]:
        """Watch nothing: seats read the table itself."""
        raise NotImplementedError

    async def close(self) -> None:
        """Count the call; the store remains open for other members."""
        self.last = ""

    async def _answer(self) -> None:
        await asyncio.sleep(0)
        if not self.answers:
            raise StoreError("the store does not answer")


class Table(Documents):
    """Members, owners and documents, without leases; members see every change at once."""

    def __init__(self, secret: str = TOKEN) -> None:
        """Create an empty deployment."""
        super().__init__(secret)
        self.members: dict[MemberId, Member] = {}
        self.rms: dict[RmId, Record] = {}
        self.home = ""
        """The id of the member that gets RMs without an owner; empty for the member that is called."""
        self.gone: dict[MemberId, Gone] = {}
        self.lease_lives = True

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot read by every member."""
        shared = {key: one for key, one in self.documents.items() if key.startswith(SHARED)}
        return Snapshot(members=dict(self.members), rms=dict(self.rms), documents=shared)

    def record(self, rm_id: RmId) -> Record | None:
        """The record of an RM, or None if its owner does not live."""
        found = self.rms.get(rm_id)
        return found if found and found.owner in self.members else None

    def give(self, rm_id: str, owner: str, at_least: int = 0) -> Record:
        """Make a member the owner of an RM, under the next epoch."""
        before = self.rms.get(RmId(rm_id))
        epoch = max(at_least, before.epoch if before else 0) + 1
        made = Record(rm_id=RmId(rm_id), owner=MemberId(owner), epoch=epoch)
        self.rms[made.rm_id] = made
        return made


class Seat(Ownership):
    """One member's access to the table."""

    def __init__(
        self,
        table: Table,
        member_id: str,
        name: str,
        *,
        started: float = 0.0,
        store: Documents | None = None,
        address: str = "",
    ) -> None:
        """Create it; the server joins at its start, `started` is in Unix seconds.

        The member may have a store of its own, and an address other than the one on which it listens.
        """
        self.table = table
        self.store: Documents = store or table
        self.gone = table.gone
        self.counted = Counts()
        self._id = MemberId(member_id)
        self._name = name
        self._at = started
        self._address = address

    def may_decide(self) -> bool:
        """True while the member's lease lives."""
        return self.table.lease_lives and self._id in self.table.members

    def me(self) -> MemberId:
        """The id, which never changes."""
        return self._id

    def counts(self) -> Counts:
        """The counts set by a test."""
        return self.counted

    def problem(self) -> str:
        """The problem of the store."""
        return "" if self.store.answers else "the store does not answer"

    async def take(self, rm_id: RmId, named: int = 0) -> int | Member:
        """Claim the RM, unless it has an owner or another member is its home."""
        if not self.may_decide():
            raise unavailable("this member has no lease")
        record = self.table.record(rm_id) or self.table.give(rm_id, self.table.home or self._id, named)
        return record.epoch if record.owner == self._id else self.table.members[record.owner]

    def epoch(self, rm_id: RmId) -> int:
        """The epoch of an RM of this member, or 0."""
        record = self.table.record(rm_id)
        return record.epoch if record and record.owner == self._id else 0

    def owner_of(self, rm_id: RmId) -> Member | None:
        """The other member that owns the RM; None without one."""
        record = self.table.record(rm_id)
        return None if record is None or record.owner == self._id else self.table.members[record.owner]

    def snapshot(self) -> Snapshot:
        """The table."""
        return self.table.snapshot

    def forget(self, rm_id: RmId) -> None:
        """Remove the record of an RM of this member."""
        if self.epoch(rm_id):
            del self.table.rms[rm_id]

    async def start(self, address: str, http: str) -> None:
        """Join."""
        address = self._address or address
        self.table.members[self._id] = Member(
            id=self._id, name=self._name, address=address, http=http, version="1.2", started=self._at
        )

    async def stop(self) -> None:
        """Leave."""
        self.table.members.pop(self._id, None)


@asynccontextmanager
async def deployment(*names: str, table: Table | None = None, **changes: Any) -> AsyncIterator[list[Server]]:
    """Servers of these names with HTTP on loopback, started in order, with changed settings."""
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
    seat = Seat(table, f"id-of-{name}", name, started=clock.now() if clock else 1000.0)
    server = Server(Settings(**{**usual, **more}), clock=clock, ownership=seat)
    try:
        await server.start()
        yield server
    finally:
        await server.stop()


def table_of(servers: Sequence[Server]) -> Table:
    """The table that servers share."""
    store = servers[0].ownership.store
    assert isinstance(store, Table)
    return store
