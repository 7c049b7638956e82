"""Configurations are parsed outside the event loop, in order for each RM."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from threading import Event
from typing import Any

import grpc
import pytest

from licorne.si.v1 import si_pb2 as si
from licorne.v1.admin_pb2 import UpdateConfigurationRequest
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_core.config import load
from licorne_core.values.ids import RmId
from licorne_server.assembly.server import Server
from licorne_server.process.bounds import RmBounds
from licorne_server.store.configurations.thread import Origin
from support.patience import PATIENCE
from support.peers.shim import (
    RawSession,
    Shim,
    application,
    ask,
    connected,
    eventually,
    new_allocations,
    node,
    serving,
)

QUEUES = ", ".join(f"{{name: q{number}}}" for number in range(1_000))
LARGE = f"partitions: [{{name: default, queues: [{{name: root, submitacl: '*', queues: [{QUEUES}]}}]}}]"
BROKEN = "partitions: 3"
OTHERS = Origin("elsewhere")
Send = Callable[[grpc.aio.Channel, str], Coroutine[Any, Any, Any]]


async def over_si(channel: grpc.aio.Channel, config: str) -> None:
    """Register over `si.v1`."""
    await Shim(channel).register(config)


async def over_session(channel: grpc.aio.Channel, config: str) -> None:
    """Register with a hello, on a stream that stays open."""
    session = RawSession(channel)
    registration = si.RegisterResourceManagerRequest(config=config)
    assert await (await session.hello(registration=registration)).read() is not None


async def over_admin(channel: grpc.aio.Channel, config: str) -> None:
    """Update the configuration of a registered RM."""
    request = UpdateConfigurationRequest(rm_id="rm", config=config)
    await AdminStub(channel).UpdateConfiguration(request)


def checksum(server: Server) -> str:
    """The checksum of the RM's running configuration."""
    return server.scheduler.views.rm(RmId("rm")).checksum


@asynccontextmanager
async def busy_thread(server: Server) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """A configuration thread that is busy until the function is called."""
    go = Event()
    work = asyncio.create_task(server.config_thread.run(OTHERS, partial(go.wait, PATIENCE)))

    async def free() -> None:
        go.set()
        assert await work

    try:
        yield free
    finally:
        go.set()


@pytest.mark.parametrize("send", [over_si, over_session, over_admin])
async def test_other_rms_are_served_while_a_configuration_waits(
    server: Server, channel: grpc.aio.Channel, neighbour: Callable[[], Awaitable[None]], send: Send
) -> None:
    """While a large configuration waits for the parser, another RM registers and is scheduled."""
    await Shim(channel).register()
    before = checksum(server)
    async with busy_thread(server) as free, connected(server) as other:
        sent = asyncio.create_task(send(channel, LARGE))
        await eventually(lambda: server.rms.lock("rm").turns.taken)
        await neighbour()
        await Shim(other, "newcomer").register()
        assert checksum(server) == before
        assert not sent.done()
        await free()
        await sent
    assert checksum(server) == load(LARGE).checksum


async def test_requests_wait_for_a_registration(shim: Shim, server: Server) -> None:
    """A request during a new registration applies to the new state."""
    allocations, _, nodes = await shim.set_up()
    async with busy_thread(server) as free:
        registered = asyncio.create_task(shim.register(LARGE))
        await eventually(lambda: server.rms.lock("rm").turns.taken)
        await nodes.send(si.NodeRequest(rmID="rm", nodes=[node("new", vcore=5_000)]))
        applications = shim.open("UpdateApplication")
        await applications.send(si.ApplicationRequest(rmID="rm", new=[application("later", "root.q7")]))
        await free()
        await registered
    assert (await nodes.next()).accepted[0].nodeID == "new"
    assert (await applications.next()).accepted[0].applicationID == "later"
    await shim.ask(allocations, ask("k", "later", vcore=5_000))
    assert await new_allocations(allocations, 1) == {"k": "new"}


async def test_a_refused_registration_does_not_affect_open_streams(shim: Shim, server: Server) -> None:
    """Requests during a refused registration apply to the old state."""
    allocations, _, _ = await shim.set_up()
    async with busy_thread(server) as free:
        refused = asyncio.create_task(shim.register(BROKEN))
        await eventually(lambda: server.rms.lock("rm").turns.taken)
        await shim.ask(allocations, ask("k"))
        await free()
        with pytest.raises(grpc.aio.AioRpcError, match="registration of RM failed: 1:13"):
            await refused
    assert await new_allocations(allocations, 1) == {"k": "n0"}


async def test_updates_are_applied_in_order(shim: Shim, server: Server, channel: grpc.aio.Channel) -> None:
    """An update without a text does not overtake an earlier update."""
    await shim.register()
    default = checksum(server)
    async with busy_thread(server) as free:
        first = asyncio.create_task(over_admin(channel, LARGE))
        await eventually(lambda: server.rms.lock("rm").turns.taken)
        second = asyncio.create_task(over_admin(channel, ""))
        await free()
        await asyncio.gather(first, second)
    assert checksum(server) == default


async def test_a_cancelled_registration_has_no_effect(shim: Shim, server: Server) -> None:
    """A registration whose caller disconnects before the parse has no effect."""
    async with busy_thread(server) as free:
        given_up = asyncio.create_task(shim.register(LARGE))
        lock = server.rms.lock("rm")
        await eventually(lambda: lock.turns.taken)
        given_up.cancel()
        await eventually(lambda: not lock.turns.taken)
        await free()
    assert server.rms.find("rm") is None
    await shim.register(LARGE)


async def test_the_number_of_rms_is_checked_after_parsing() -> None:
    """Of two RMs that are parsed at the same time, with room for one, one registers."""
    async with (
        serving(rms=RmBounds(number=1)) as server,
        connected(server) as one,
        connected(server) as two,
        busy_thread(server) as free,
    ):
        calls = [
            asyncio.create_task(Shim(one, "one").register(LARGE)),
            asyncio.create_task(Shim(two, "two").register(LARGE)),
        ]
        await eventually(lambda: all(server.rms.lock(name).turns.taken for name in ("one", "two")))
        await free()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
    [refusal] = [outcome for outcome in outcomes if outcome is not None]
    assert isinstance(refusal, grpc.aio.AioRpcError)
    assert refusal.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
