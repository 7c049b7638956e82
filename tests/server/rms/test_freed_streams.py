"""An RM's objects on the server are freed with it, without the garbage collector."""

import weakref
from typing import Any

import pytest

from licorne.si.v1 import si_pb2 as si
from licorne.v1.session_pb2 import Goodbye
from licorne_core.values.ids import RmId
from licorne_server.assembly.server import Server
from licorne_server.rms.registry import any_connected
from licorne_server.wire.responses import Kind
from support.peers.shim import RawSession, ask, eventually, node

RM = RmId("rm")


def parts(server: Server) -> list[weakref.ref[Any]]:
    """Weak references to the objects of the RM's session, and to an event of its stream."""
    rm = server.rms.get(RM, "test")
    return [weakref.ref(part) for part in (rm.streams[Kind.SESSION].closed, rm.session)]


async def worked(session: RawSession, call: Any) -> None:
    """Submit an ask, and wait for its allocation."""
    await session.replay(call)
    await session.send(call, nodes=si.NodeRequest(nodes=[node("n0", vcore=1)]))
    await session.send(call, allocations=si.AllocationRequest(allocations=[ask("k")]))


@pytest.mark.usefixtures("collector_off")
async def test_ended_streams_are_freed(session: RawSession, server: Server) -> None:
    """Neither a replaced stream nor one that has said goodbye leaves any of our objects."""
    call, welcome = await session.begin()
    await worked(session, call)
    [stream, _] = parts(server)
    again, response = await session.begin(token=welcome.welcome.resume_token)
    assert response.welcome.resumed
    assert "taken over" in (await call.ending())[1]
    del call
    await eventually(lambda: stream() is None)
    left = [*parts(server), weakref.ref(server.rms.get(RM, "test").outbox.room)]
    assert any_connected(server.rms)
    await session.send(again, goodbye=Goodbye(unregister=True))
    await again.ending()
    del again
    await eventually(lambda: [part() for part in left] == [None] * 3)
    assert not any_connected(server.rms)
