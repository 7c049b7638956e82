"""A server in a process of its own, and the work that continues beside every attack on it."""

from collections.abc import AsyncIterator, Callable, Coroutine
from itertools import count
from typing import Any

import aiohttp
import grpc
import pytest

from support.patience import PATIENCE
from support.peers.shim import Shim, ask, new_allocations
from support.server.server_process import ServerProcess

Check = Callable[[ServerProcess], Coroutine[Any, Any, None]]
OPTIONS = [("grpc.use_local_subchannel_pool", 1), ("grpc.initial_reconnect_backoff_ms", 100)]


@pytest.fixture
async def server() -> AsyncIterator[ServerProcess]:
    """A server on loopback with both of its ports."""
    async with ServerProcess(http="127.0.0.1:0") as server:
        yield server


@pytest.fixture
async def others_are_served() -> Check:
    """A check that another RM can register and gets an allocation, and that probes answer."""
    numbers = count()

    async def check(server: ServerProcess) -> None:
        async with grpc.aio.insecure_channel(server.target, options=OPTIONS) as channel:
            await channel.channel_ready()
            shim = Shim(channel, f"other-{next(numbers)}")
            allocations, _, _ = await shim.set_up()
            await shim.ask(allocations, ask("k"))
            assert len(await new_allocations(allocations, 1)) == 1
        # Packets for which the kernel had no room are sent again after up to 20 s.
        timeout = aiohttp.ClientTimeout(total=PATIENCE)
        async with aiohttp.ClientSession(timeout=timeout) as client:
            for probe in ("livez", "readyz"):
                async with client.get(f"http://{server.http}/{probe}") as answer:
                    assert (answer.status, await answer.text()) == (200, "ok\n")

    return check
