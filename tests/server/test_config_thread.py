"""Configurations are read one at a time, whoever asks."""

import asyncio
from functools import partial
from threading import Event, active_count

import pytest

from licorne_core.config import DEFAULT_CONFIG
from licorne_server.config_thread import ConfigThread, Origin
from support.http_site import post
from support.shim import LOOPBACK, PATIENCE, Shim, connected, serving

CALLER = Origin("host")


async def test_one_thread_is_enough() -> None:
    """However many texts wait, one thread reads them, in order."""
    thread, before, read = ConfigThread(), active_count(), list[int]()
    await asyncio.gather(
        *(thread.run(CALLER, partial(read.append, number)) for number in range(50))
    )
    assert read == list(range(50))
    assert active_count() <= before + 1
    thread.stop()


async def test_what_was_given_up_is_not_begun() -> None:
    """A caller that goes away while it waits costs nothing any more."""
    thread, go, read = ConfigThread(), Event(), list[str]()
    first = asyncio.create_task(thread.run(CALLER, partial(go.wait, PATIENCE)))
    second = asyncio.create_task(thread.run(CALLER, partial(read.append, "second")))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    go.set()
    assert await first
    await thread.run(CALLER, partial(read.append, "third"))
    assert read == ["third"]
    thread.stop()


async def test_grpc_and_http_wait_in_the_same_line() -> None:
    """While one text is read, neither gRPC nor HTTP begins another; then both are answered."""
    go = Event()
    async with serving(http=LOOPBACK) as server, connected(server) as channel:
        busy = asyncio.create_task(server.config_thread.run(CALLER, partial(go.wait, PATIENCE)))
        await asyncio.sleep(0)
        url = f"http://{server.http_address}/ws/v1/validate-conf"
        over_http = asyncio.create_task(post(url, DEFAULT_CONFIG.encode()))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(over_http), timeout=0.2)
        over_grpc = asyncio.create_task(Shim(channel).register(DEFAULT_CONFIG))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(over_grpc), timeout=0.2)
        go.set()
        assert await busy
        assert (await over_http)["allowed"]
        await over_grpc
