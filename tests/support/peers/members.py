"""Servers that share RMs as members of one deployment, whose store is in the memory of the test."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from licorne_server.assembly.server import Server, running
from licorne_server.process.coordination import Coordination
from licorne_server.process.settings import Settings
from licorne_server.store.coordination.store import Member, MemberId
from support.members import Documents, Seat, Table
from support.patience import PATIENCE
from support.peers.shim import FREE_PLANS, LOOPBACK

SECRET = "ofTheTest"


class Deployment(Table):
    """Members and owners. The id of a member is its name."""

    def __init__(self) -> None:
        """Start without members."""
        super().__init__("")
        self.stores: dict[str, Documents] = {}
        """Documents by the secret of the members that share them."""
        self.servers: dict[str, Server] = {}
        """Running servers by the names of their members."""

    def member(self, name: str) -> Member:
        """The living member of that name."""
        return self.members[MemberId(name)]

    def add(self, member: Member) -> None:
        """Add a member."""
        self.members[member.id] = member

    def lose(self, name: str) -> None:
        """Remove a member, as if its lease had ended."""
        del self.members[MemberId(name)]

    async def kill(self, name: str) -> None:
        """Kill a server; its lease remains."""
        member = self.member(name)
        await self.servers.pop(name).stop(at_once=True)
        self.add(member)

    def seat(self, name: str, secret: str, address: str) -> Seat:
        """The place of a member; the documents of members with the same secret are shared."""
        store = Documents(secret)
        store.documents = self.stores.setdefault(secret, store).documents
        return Seat(self, name, name, store=store, address=address)


@asynccontextmanager
async def members(
    *names: str, secrets: dict[str, str] | None = None, sockets: Path | None = None, **changes: Any
) -> AsyncIterator[Deployment]:
    """A deployment of servers on loopback without HTTP, each a member of that name.

    `secrets` has the secrets of members that differ from the others. With `sockets`, a folder, the members
    are workers of one host, which connect by sockets in it. `changes` are settings.
    """
    deployment = Deployment()
    settings = {"listen": LOOPBACK, "http": None, "drain": 1.0, "rms": FREE_PLANS, **changes}
    async with AsyncExitStack() as stack:
        for name in names:
            address = f"unix:{sockets / name}" if sockets else ""
            if sockets:
                settings["coordination"] = Coordination(backend="local", hosts=("none",), advertise=address)
            ownership = deployment.seat(name, (secrets or {}).get(name, SECRET), address)
            server = running(Settings(**{"heartbeat": PATIENCE, **settings}), ownership=ownership)
            deployment.servers[name] = await stack.enter_async_context(server)
        yield deployment
