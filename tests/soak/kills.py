"""kill -9 of the server and of RMs, repeatedly: both sides have the same state each time."""

import asyncio
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import grpc

from licorne import Allocation, Application, Ask, Client, Node
from licorne.v1.state_pb2 import ListPartitionsRequest
from licorne.v1.state_pb2_grpc import StateStub
from soak.ledger import VCORE, SoakFailed
from soak.rm import QUEUE, SMALL, SoakRm, compare
from support.core.builders import config
from support.patience import PATIENCE
from support.server.reports import read_books
from support.server.server_process import ServerProcess

CONFIG = config("[{name: work}, {name: small, resources: {max: {vcore: 100m}}}]")
NODES = 10
NODE_VCORE = 1_000_000
ASKS = 200
"""The number of new asks in a cycle."""
APPLICATIONS = 3
POLL = 0.01
"""Seconds between two checks of the server."""
DOOMED_RM = Path(__file__).parent / "doomed_rm.py"
DOOMED_ASKS = 5_000
TOLD = 300
"""The number of allocations that a doomed RM prints before it is killed."""


async def kill_the_server(cycles: int, told: Callable[[int], None]) -> None:
    """Kill the server this number of times, each time during another activity.

    `told` is called after each cycle in which both sides were equal.

    Raises:
        SoakFailed: The sides differ, or something was lost.
    """
    async with ServerProcess() as server, SoakRm(server.target, "rm1", CONFIG) as rm:
        await rm.add_nodes([f"node-{n}" for n in range(NODES)], NODE_VCORE)
        await rm.submit(["waits"], SMALL)
        await rm.ask("waits", ["waits-1", "waits-2"])
        await rm.until(lambda: len(rm.running) == 1, "the first")
        doomed = Doomed(server, rm)
        for number in range(cycles):
            await doomed.cycle(number)
            told(number + 1)


class Doomed:
    """A server that is killed in every cycle, and its RM."""

    def __init__(self, server: ServerProcess, rm: SoakRm) -> None:
        """Both sides are equal, and one ask waits for room."""
        self._server = server
        self._rm = rm
        self._last: list[str] = []
        """The applications of the previous cycle."""

    async def cycle(self, number: int) -> None:
        """Run new applications and end those of the previous cycle, while the server is killed."""
        rm, rng = self._rm, Random(number)
        apps = [f"app-{number}-{n}" for n in range(APPLICATIONS)]
        heard = rm.placed + rm.ended
        enough = rng.randint(1, ASKS * APPLICATIONS)
        await rm.submit(apps)
        for app_id in apps:
            await rm.ask(app_id, [f"{app_id}-{n}" for n in range(ASKS)])
        if number % 3:
            # It is killed while allocations, or releases, are in flight.
            await rm.until(lambda: rm.placed + rm.ended >= heard + enough, "answers")
        if number % 3 == 1:
            ended = rm.ended
            await self._end_the_last()
            await rm.until(lambda: rm.ended > ended or not self._last, "a release")
        await self._server.kill()
        if number % 3 != 1:
            # The RM releases them while there is no server.
            await self._end_the_last()
        await self._server.start()
        if number % 5 == 4:
            # The RM has begun its replay, or has completed it.
            await until_registered(self._server.target, replayed=False)
            await self._server.restart()
        await until_registered(self._server.target, replayed=True)
        await rm.until(lambda: len(rm.waiting) == 1, "allocations")
        await rm.until(lambda: not rm.ending, "releases")
        await compare(rm, self._server.target)
        self._last = apps

    async def _end_the_last(self) -> None:
        """Release the allocations of the previous cycle, and remove its applications at once."""
        await self._rm.release(f"{app_id}-{n}" for app_id in self._last for n in range(ASKS))
        await self._rm.remove(self._last)


async def until_registered(target: str, *, replayed: bool) -> None:
    """Wait until the server reports the registration of the RM; with `replayed`, its complete replay.

    The RM cannot report that, because its messages may be from the previous server.
    """
    async with asyncio.timeout(PATIENCE), grpc.aio.insecure_channel(target) as channel:
        state: Any = StateStub(channel)
        while True:
            answer = await state.ListPartitions(ListPartitionsRequest(rm_id="rm1"))
            [known] = answer.partitions or [None]
            if known and not (replayed and (known.holds or known.nodes < NODES)):
                return
            await asyncio.sleep(POLL)


async def kill_the_rm(cycles: int, told: Callable[[int], None]) -> None:
    """Kill the process of an RM this number of times; the next instance replays the known allocations.

    Raises:
        SoakFailed: The server's state differs afterwards.
    """
    async with ServerProcess() as server:
        for number in range(cycles):
            truth = await what_a_doomed_rm_told(server.target)
            async with Client(server.target, rm_id="rm1", config=CONFIG) as rm:
                await report(rm, truth)
                async with asyncio.timeout(PATIENCE):
                    await rm.ready()
                books = await read_books(server.target)
            used = {"vcore": len(truth) * VCORE}
            if (books.allocations, books.pending) != (truth, frozenset()):
                raise SoakFailed(
                    f"{len(truth)} allocations were reported, the server has "
                    f"{len(books.allocations)} and {len(books.pending)} asks that wait"
                )
            if books.queues["root"] != (used, {}):
                raise SoakFailed(f"the root has {books.queues['root']}, and {used} runs")
            told(number + 1)


async def what_a_doomed_rm_told(target: str) -> dict[str, str]:
    """The allocations that an RM had received when it was killed: the node of every key."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(DOOMED_RM), target, CONFIG, str(DOOMED_ASKS)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    truth: dict[str, str] = {}
    try:
        while len(truth) < TOLD:
            line = await asyncio.wait_for(process.stdout.readline(), PATIENCE)
            key, node_id = line.decode().split()
            truth[key] = node_id
    finally:
        process.kill()
        await process.wait()
    return truth


async def report(rm: Client, truth: Mapping[str, str]) -> None:
    """Send the server the nodes, the application, and the allocations."""
    await rm.add_nodes(Node(node_id=f"node-{n}", capacity={"vcore": NODE_VCORE}) for n in range(1, NODES + 1))
    await rm.submit_applications([Application(application_id="app", user="test", queue=QUEUE)])
    await rm.report_allocations(
        Allocation(ask=Ask(key=key, application_id="app", resources={"vcore": VCORE}), node_id=node_id)
        for key, node_id in truth.items()
    )
