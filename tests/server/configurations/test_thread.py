"""Configurations are read one at a time, whoever asks."""

import asyncio
from functools import partial
from threading import Event, active_count

import pytest
from structlog.testing import capture_logs

from licorne_core.config import DEFAULT_CONFIG
from licorne_server.configurations.thread import MAX_WAITING_BYTES, ConfigThread, Origin
from licorne_server.telemetry.logs import levels
from licorne_server.telemetry.logs.levels import CONFIGURATIONS
from licorne_server.wire.errors import CallError
from support.peers.shim import LOOPBACK, PATIENCE, Shim, connected, serving
from support.server.http_site import post

CALLER = Origin("host")


async def test_one_thread_is_enough() -> None:
    """However many texts wait, one thread reads them, in order."""
    thread, before, read = ConfigThread(), active_count(), list[int]()
    await asyncio.gather(*(thread.run(CALLER, partial(read.append, number)) for number in range(50)))
    assert read == list(range(50))
    assert active_count() <= before + 1
    thread.stop()


async def test_what_was_read_is_told_at_debug() -> None:
    """Whose text it was, how long, and whether it is valid; without `debug` there is no line."""
    thread, origin = ConfigThread(), Origin("host", "RM rm")
    try:
        with capture_logs() as lines:
            await thread.parse(origin, DEFAULT_CONFIG)
            assert not lines
            levels().set(CONFIGURATIONS, "debug")
            for text in (DEFAULT_CONFIG, "partitions: 1"):
                await thread.parse(origin, text)
    finally:
        levels().begin("info")
        thread.stop()
    assert {(line["event"], line["by"], line["purpose"]) for line in lines} == {
        ("configuration read", "host", "RM rm")
    }
    told = [(line["characters"], line["valid"]) for line in lines]
    assert told == [(len(DEFAULT_CONFIG), True), (13, False)]
    assert all(line["ms"] > 0 for line in lines)


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


async def test_texts_that_wait_are_bounded_by_their_bytes() -> None:
    """What one host has sent and nobody has read yet takes bounded memory; another host may wait.

    A text that was given up makes room for the next.
    """
    thread, go = ConfigThread(), Event()
    busy = asyncio.create_task(thread.run(Origin("busy"), partial(go.wait, PATIENCE)))
    await asyncio.sleep(0)
    half = MAX_WAITING_BYTES // 2
    waiting = [asyncio.create_task(thread.run(CALLER, int, half)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(CallError, match="configurations of host of 67108864 bytes wait"):
        await thread.run(CALLER, int, 1)
    other = asyncio.create_task(thread.run(Origin("other"), int, half))
    waiting[0].cancel()
    await asyncio.sleep(0)
    waiting[0] = asyncio.create_task(thread.run(CALLER, int, half))
    await asyncio.sleep(0)
    go.set()
    assert await asyncio.gather(*waiting, other) == [0, 0, 0]
    assert await busy
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
