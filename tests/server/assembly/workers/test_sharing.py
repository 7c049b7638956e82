"""Workers that share the RMs of one address: real clients, and a killed worker."""

import asyncio
import os
import re
import signal
import urllib.request
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from licorne import Application, Ask, Client, Node
from licorne.events import Allocated
from licorne_tools.bench.members import workers_of
from support.patience import PATIENCE
from support.server.server_process import ServerProcess

ANY_PORT = "127.0.0.1:0"
RMS = 6
ONCE_EACH = {'worker="1"': 1, 'worker="2"': 1}


class Rm:
    """An RM with one node, each of whose asks must get exactly one allocation."""

    def __init__(self, target: str, rm_id: str) -> None:
        """Start without a connection."""
        self.client = Client(target, rm_id=rm_id)
        self.placed: list[str] = []
        self._more = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Rm"]:
        """Connect, with an application."""
        async with self.client:
            task = asyncio.create_task(self._listen())
            await self.client.add_nodes([Node(node_id="n", capacity={"vcore": 1_000_000})])
            await self.client.submit_applications(
                [Application(application_id="app", user="ann", tags={"namespace": "ns"})]
            )
            try:
                yield self
            finally:
                task.cancel()

    async def place(self, key: str) -> None:
        """Submit an ask, and wait for the allocation."""
        await self.client.ask([Ask(key=key, application_id="app", resources={"vcore": 100})])
        async with asyncio.timeout(PATIENCE):
            while key not in self.placed:
                self._more.clear()
                await self._more.wait()

    async def _listen(self) -> None:
        async for event in self.client.events():
            if isinstance(event, Allocated):
                self.placed.append(event.key)
                self._more.set()


def samples(http: str, name: str) -> dict[str, float]:
    """The samples of a metric of one scrape, by their labels."""
    with urllib.request.urlopen(f"http://{http}/metrics", timeout=PATIENCE) as response:
        text = response.read().decode()
    pattern = rf"^{name}\{{(.*)\}} (\S+)$"
    return {found[1]: float(found[2]) for found in re.finditer(pattern, text, re.MULTILINE)}


async def scraped(http: str, name: str, least: int) -> dict[str, float]:
    """The samples of a metric, once a scrape has all workers and at least this number of samples."""
    async with asyncio.timeout(PATIENCE):
        while True:
            all_there = await asyncio.to_thread(samples, http, "licorne_worker_scraped")
            found = await asyncio.to_thread(samples, http, name)
            if len(found) >= least and all_there == ONCE_EACH:
                return found
            await asyncio.sleep(0.1)


@pytest.mark.slow
async def test_one_address_serves_the_rms_of_all_workers() -> None:
    """An RM is served whichever worker accepts its connection, even after its worker has died."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(ServerProcess("--workers", "2", http=ANY_PORT))
        rms = [
            await stack.enter_async_context(Rm(server.target, f"rm-{number}").running())
            for number in range(RMS)
        ]
        await asyncio.gather(*(rm.place("first") for rm in rms))
        items = await scraped(server.http, "licorne_rm_connected", RMS)
        assert {re.findall('rm="(.*?)"', label)[0] for label in items} == {rm.client.rm_id for rm in rms}
        for worker in workers_of(server.pid):
            os.kill(worker.pid, signal.SIGKILL)
            await asyncio.gather(*(rm.place(f"after-{worker.name}") for rm in rms))
            # Both workers serve again before the next one dies.
            await scraped(server.http, "licorne_rms", 2)
        for rm in rms:
            assert sorted(rm.placed) == ["after-worker-1", "after-worker-2", "first"]
        # The scrape may be from before the death of the last worker was noticed.
        async with asyncio.timeout(PATIENCE):
            while True:
                if await scraped(server.http, "licorne_worker_restarts_total", 2) == ONCE_EACH:
                    break
                await asyncio.sleep(0.1)
        server.send(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            assert await server.ended() == 0
