"""Servers that share their RMs as members of one deployment, whose store is in the memory of the test."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from licorne_core.values.ids import RmId
from licorne_server.assembly.server import Server, running
from licorne_server.process.coordination import Coordination
from licorne_server.process.settings import Settings
from licorne_server.store.coordination import store
from licorne_server.store.coordination.ownership import Ownership
from licorne_server.store.coordination.secret import KEY
from licorne_server.store.coordination.store import Member, MemberId, Snapshot, Store
from licorne_server.store.documents.documents import Conflict, Document
from licorne_server.wire.errors import unavailable
from support.patience import PATIENCE
from support.peers.shim import FREE_PLANS, LOOPBACK

SECRET = "ofTheTest"


class Deployment:
    """Members and owners. `home` gets the RMs that have no owner."""

    def __init__(self) -> None:
        """Start without members."""
        self.snapshot = Snapshot()
        self.home = ""
        """Name of the member that gets RMs without an owner; empty for the one that takes them."""
        self.stores: dict[str, Documents] = {}
        """Documents by the secret of the members that share them."""
        self.servers: dict[str, Server] = {}
        """Running servers by the names of their members."""

    def member(self, name: str) -> Member:
        """The living member of that name."""
        return self.snapshot.members[MemberId(name)]

    def join(self, member: Member) -> None:
        """Add a member."""
        members = {**self.snapshot.members, member.id: member}
        self.snapshot = dataclasses.replace(self.snapshot, members=members)

    def leave(self, name: str) -> None:
        """Remove a member, as if its lease had ended."""
        members = {key: value for key, value in self.snapshot.members.items() if key != name}
        self.snapshot = dataclasses.replace(self.snapshot, members=members)

    def record(self, rm_id: RmId) -> store.Ownership | None:
        """The record of an RM, if its owner lives."""
        found = self.snapshot.rms.get(rm_id)
        return found if found and found.owner in self.snapshot.members else None

    def give(self, rm_id: str, name: str) -> store.Ownership:
        """Make a member the owner of an RM, under the next epoch."""
        before = self.snapshot.rms.get(RmId(rm_id))
        epoch = before.epoch + 1 if before else 1
        made = store.Ownership(rm_id=RmId(rm_id), owner=MemberId(name), epoch=epoch)
        self.snapshot = dataclasses.replace(self.snapshot, rms={**self.snapshot.rms, made.rm_id: made})
        return made

    async def kill(self, name: str) -> None:
        """End a server without a word; its lease lives on."""
        member = self.member(name)
        await self.servers.pop(name).stop(at_once=True)
        self.join(member)


class Documents(Store):
    """The documents of a store; ownership is not affected."""

    def __init__(self, secret: str = "") -> None:
        """Start with a secret, or without."""
        self.documents = {KEY: Document(value=secret.encode(), revision=1)} if secret else {}
        self.last = ""
        """Key of the last write; empty again once a member has closed its access."""
        self.writable = asyncio.Event()
        """Writes wait for it."""
        self.writable.set()
        self.waiting = asyncio.Event()
        """Set once a write waits."""

    async def read(self, key: str) -> Document:
        """The document of the key."""
        return self.documents.get(key, Document())

    async def compare_and_set(self, key: str, value: bytes | None, revision: int) -> int:
        """Replace a document, once writes may continue."""
        if not self.writable.is_set():
            self.waiting.set()
            await self.writable.wait()
        if self.documents.get(key, Document()).revision != revision:
            raise Conflict
        self.last = key
        if value is None:
            del self.documents[key]
            return 0
        self.documents[key] = Document(value=value, revision=revision + 1)
        return revision + 1

    async def join(self, member: Member) -> None:
        """Nothing."""

    async def renew(self, member: Member) -> None:
        """Nothing."""

    async def leave(self) -> None:
        """Nothing."""

    async def claim(
        self, rm_id: RmId, owner: MemberId, seen: store.Ownership | None, at_least: int
    ) -> store.Ownership:
        """Claim nothing."""
        raise NotImplementedError

    async def release(self, owned: store.Ownership) -> store.Ownership:
        """Release nothing."""
        raise NotImplementedError

    def watch(self) -> AsyncIterator[Snapshot]:
        """Watch nothing."""
        raise NotImplementedError

    async def close(self) -> None:
        """Record the call. Other members continue."""
        self.last = ""


class OwnershipInMemory(Ownership):
    """Ownership of one member of a deployment."""

    def __init__(self, deployment: Deployment, name: str, secret: str, address: str = "") -> None:
        """The member has not joined yet. Others reach it where it listens, or at the address."""
        self._address = address
        self.deployment = deployment
        # A store of its own, which it closes, with the documents of all.
        self.store = Documents(secret)
        self.store.documents = deployment.stores.setdefault(secret, self.store).documents
        self._me = MemberId(name)

    def me(self) -> MemberId:
        """Its name."""
        return self._me

    def may_decide(self) -> bool:
        """True while the member's lease lives."""
        return self._me in self.deployment.snapshot.members

    async def take(self, rm_id: RmId, named: int = 0) -> int | Member:
        """Serve the RM here, unless it has an owner or another home."""
        if not self.may_decide():
            raise unavailable("this member has no lease")
        record = self.deployment.record(rm_id)
        if record is None:
            record = self.deployment.give(rm_id, self.deployment.home or self._me)
        return record.epoch if record.owner == self._me else self.deployment.member(record.owner)

    def epoch(self, rm_id: RmId) -> int:
        """The epoch of an RM of this member, or 0."""
        record = self.deployment.record(rm_id)
        return record.epoch if record and record.owner == self._me else 0

    def owner_of(self, rm_id: RmId) -> Member | None:
        """The other member that owns the RM."""
        record = self.deployment.record(rm_id)
        if record is None or record.owner == self._me:
            return None
        return self.deployment.member(record.owner)

    def snapshot(self) -> Snapshot:
        """The deployment as it is."""
        return self.deployment.snapshot

    def forget(self, rm_id: RmId) -> None:
        """Drop the record of an RM of this member."""
        if self.epoch(rm_id):
            rms = {key: value for key, value in self.deployment.snapshot.rms.items() if key != rm_id}
            self.deployment.snapshot = dataclasses.replace(self.deployment.snapshot, rms=rms)

    async def start(self, address: str, http: str) -> None:
        """Join."""
        self.deployment.join(Member(id=self._me, name=self._me, address=self._address or address, http=http))

    async def stop(self) -> None:
        """Leave."""
        self.deployment.leave(self._me)


@asynccontextmanager
async def members(
    *names: str, secrets: dict[str, str] | None = None, sockets: Path | None = None, **changes: Any
) -> AsyncIterator[Deployment]:
    """A deployment of servers on loopback without HTTP, each a member of that name.

    `secrets` has those of members with another secret. With `sockets`, a folder, the members are workers of
    one host, which connect by sockets in it. Settings are changed as wanted.
    """
    deployment = Deployment()
    settings = {"listen": LOOPBACK, "http": None, "drain": 1.0, "rms": FREE_PLANS, **changes}
    async with AsyncExitStack() as stack:
        for name in names:
            address = f"unix:{sockets / name}" if sockets else ""
            if sockets:
                settings["coordination"] = Coordination(backend="local", hosts=("none",), advertise=address)
            ownership = OwnershipInMemory(deployment, name, (secrets or {}).get(name, SECRET), address)
            server = running(Settings(**{"heartbeat": PATIENCE, **settings}), ownership=ownership)
            deployment.servers[name] = await stack.enter_async_context(server)
        yield deployment
