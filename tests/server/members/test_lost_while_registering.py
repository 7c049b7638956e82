"""RMs that register at a member while its claim of them ends."""

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest

from licorne.si.v1 import si_pb2 as si
from licorne_core.values.ids import RmId
from licorne_server.assembly.server import Server
from licorne_server.rms.registry import is_owned
from licorne_server.store.documents.documents import Document
from support.peers.members import Deployment
from support.peers.shim import RawSession, Shim, connected, eventually

RM = RmId("rm")


@pytest.fixture
async def session(server: Server) -> AsyncIterator[RawSession]:
    """An RM over `Session.Update` at its owner."""
    async with connected(server) as channel:
        yield RawSession(channel)


async def waiting(server: Server, count: int) -> None:
    """Wait until this number of calls wait for the RM's lock, which the test holds."""
    lock = server.rms.lock(RM)
    await eventually(lambda: lock.waiting >= count)


async def lost(two: Deployment, server: Server) -> None:
    """Give the RM to the other member, and notify this one."""
    two.give(RM, "a")
    await server.ownership.on_lost(RM, "it belongs to another member")


async def test_an_rm_lost_before_its_registration_begins_is_not_served(
    two: Deployment, server: Server, session: RawSession
) -> None:
    """A claim that ended while the registration waited for its turn does not count."""
    async with server.rms.lock(RM):
        call = await session.hello()
        await waiting(server, 1)
        two.give(RM, "a")
    assert (await call.ending())[0] is grpc.StatusCode.UNAVAILABLE
    assert server.rms.find(RM) is None


async def test_an_rm_lost_during_its_registration_is_dropped(
    two: Deployment, server: Server, session: RawSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """State that was created while the claim ended is dropped, and no caller is served from it."""
    store, answered, asked = server.ownership.store, asyncio.Event(), asyncio.Event()
    assert store is not None
    read = store.read

    async def slow(key: str) -> Document:
        asked.set()
        await answered.wait()
        return await read(key)

    monkeypatch.setattr(store, "read", slow)
    call = await session.hello()
    await asked.wait()
    losing = asyncio.create_task(lost(two, server))
    await waiting(server, 1)
    answered.set()
    assert (await call.ending())[0] is grpc.StatusCode.UNAVAILABLE
    await losing
    assert server.rms.find(RM) is None


async def test_a_refused_registration_keeps_the_claim_of_another(
    two: Deployment, server: Server, session: RawSession
) -> None:
    """Of two concurrent registrations of an RM, the refused one does not release the RM."""
    async with server.rms.lock(RM):
        bad = si.RegisterResourceManagerRequest(config="partitions: 7")
        refused = await session.hello(registration=bad)
        await waiting(server, 1)
        good = await session.hello(instance=2)
        await waiting(server, 2)
    assert (await refused.ending())[0] is grpc.StatusCode.INVALID_ARGUMENT
    assert (await good.next()).HasField("welcome")
    rm = server.rms.find(RM)
    assert rm is not None
    assert is_owned(server.rms, rm)


async def test_a_stream_of_si_v1_does_not_join_dropped_state(two: Deployment, server: Server) -> None:
    """A stream that opens while the RM is being dropped is refused, and can be opened again."""
    async with connected(server) as channel:
        shim = Shim(channel)
        await shim.register()
        two.give(RM, "b")
        call = shim.open("UpdateNode")
        await call.send(si.NodeRequest(rmID=RM))
        assert (await call.ending())[0] is grpc.StatusCode.UNAVAILABLE
