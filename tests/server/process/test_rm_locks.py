"""Requests for one RM are serialized, with a bounded queue."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from threading import Event

import grpc
import pytest
from google.rpc import error_details_pb2  # type: ignore[import-untyped]
from grpc_status import rpc_status  # type: ignore[import-untyped]

from licorne.v1.admin_pb2 import UpdateConfigurationRequest
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_server.assembly.server import Server
from licorne_server.process.fair import FairLock
from licorne_server.rms.registry import MAX_WAITING
from licorne_server.store.configurations.thread import Origin
from licorne_server.wire.errors import CallError
from support.patience import PATIENCE
from support.peers.shim import RawSession, Shim, connected, eventually

CONFIG = "partitions: [{name: default, queues: [{name: root, submitacl: '*'}]}]"


async def hold(lock: FairLock, held: list[int], number: int, free: asyncio.Event) -> None:
    """Wait for the lock, and hold it until it is freed."""
    async with lock:
        held.append(number)
        await free.wait()


async def test_one_waiting_caller_too_many_is_refused() -> None:
    """Waiting callers get the lock in order; one caller too many is refused at once."""
    lock, held, free = FairLock("keys", "TOO_MANY_KEYS", 3), list[int](), asyncio.Event()
    tasks = [asyncio.create_task(hold(lock, held, number, free)) for number in range(4)]
    await asyncio.sleep(0)
    with pytest.raises(CallError, match="keys: 3 wait already") as refused:
        await hold(lock, held, 9, free)
    assert refused.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    free.set()
    await asyncio.gather(*tasks)
    assert held == [0, 1, 2, 3]
    assert not lock.turns.taken


async def test_a_cancelled_caller_leaves_at_once() -> None:
    """The place of a cancelled caller is free for another, and the lock passes to the next."""
    lock, held, free = FairLock("keys", "TOO_MANY_KEYS", 3), list[int](), asyncio.Event()
    tasks = [asyncio.create_task(hold(lock, held, number, free)) for number in range(4)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.sleep(0)
    tasks.append(asyncio.create_task(hold(lock, held, 4, free)))
    await asyncio.sleep(0)
    free.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert held == [0, 2, 3, 4]


@asynccontextmanager
async def registering(server: Server, shim: Shim) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Keep a registration of the RM in progress until the function is called."""
    go = Event()
    origin = Origin("elsewhere")
    work = asyncio.create_task(server.config_thread.run(origin, partial(go.wait, PATIENCE)))
    first = asyncio.create_task(shim.register(CONFIG))

    async def free() -> None:
        go.set()
        await work
        await first

    try:
        await eventually(lambda: server.rms.lock("rm").turns.taken)
        yield free
    finally:
        go.set()


async def test_a_crowd_for_one_rm_is_refused(shim: Shim, server: Server, channel: grpc.aio.Channel) -> None:
    """Excess updates, streams and registrations of one RM get a typed reason.

    Requests of disconnected callers do not count.
    """
    await shim.register()
    lock = server.rms.lock("rm")
    async with registering(server, shim) as free, connected(server) as other:
        sent = [
            AdminStub(channel).UpdateConfiguration(UpdateConfigurationRequest(rm_id="rm"))
            for _ in range(MAX_WAITING - 6)
        ]
        await eventually(lambda: lock.waiting == MAX_WAITING - 6)
        gone = [RawSession(other) for _ in range(6)]
        streams = [await session.hello() for session in gone]
        await eventually(lambda: lock.waiting == MAX_WAITING)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await shim.register()
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "16 wait already" in (refused.value.details() or "")
        status = rpc_status.from_call(refused.value)
        assert status is not None
        info = error_details_pb2.ErrorInfo()
        assert status.details[0].Unpack(info)
        assert info.reason == "TOO_MANY_FOR_ONE_RM"
        for stream in streams:
            stream.call.cancel()
        await eventually(lambda: lock.waiting == MAX_WAITING - 6)
        await free()
        await asyncio.gather(*sent)
    await shim.register()
