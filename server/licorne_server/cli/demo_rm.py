"""A fake resource manager: it submits the work of its world, and ends what has run for a while."""

import asyncio
import heapq
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter

from licorne import Allocated, ApplicationStateChanged, Client, Event
from licorne_server.cli.demo_world import Submission, World

STEP_SECONDS = 0.05
REMEMBERED_WAITS = 10_000
ENDED = ("Completed", "Failed", "Expired")


@dataclass(slots=True)
class Tally:
    """What came of the work so far. The last waits, from ask to allocation, are in seconds."""

    asked: int = 0
    allocations: int = 0
    finished: int = 0
    waits: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED_WAITS))


class DemoRm:
    """Plays one world against a server."""

    def __init__(self, world: World, unit: float) -> None:
        """`unit` is how many seconds the times of the world are multiplied by."""
        self.world = world
        self.tally = Tally()
        self._unit = unit
        self._asked: dict[str, float] = {}
        self._runs: dict[str, float] = {}
        # When each running allocation ends, the next one first.
        self._ends: list[tuple[float, str]] = []

    async def play(self, target: str, work: Iterator[Submission]) -> None:
        """Bring the nodes, then submit the work, in order of time, and live until cancelled."""
        world = self.world
        async with Client(target, rm_id=world.rm_id, config=world.config, version="demo") as client:
            await client.add_nodes(world.nodes)
            listening = asyncio.create_task(self._listen(client))
            try:
                await self._live(client, work)
            finally:
                listening.cancel()
                with suppress(asyncio.CancelledError):
                    await listening

    async def _live(self, client: Client, work: Iterator[Submission]) -> None:
        """Submit what is due, end what has run long enough."""
        start = perf_counter()
        upcoming = next(work, None)
        while True:
            now = perf_counter()
            while upcoming is not None and start + upcoming.at * self._unit <= now:
                await self._submit(client, upcoming)
                upcoming = next(work, None)
            await self._finish(client, now)
            await asyncio.sleep(STEP_SECONDS)

    async def _submit(self, client: Client, submission: Submission) -> None:
        app = submission.application
        self._runs[app.application_id] = submission.runs * self._unit
        await client.submit_applications([app])
        now = perf_counter()
        self._asked.update((ask.key, now) for ask in submission.asks)
        self.tally.asked += len(submission.asks)
        await client.ask(submission.asks)

    async def _finish(self, client: Client, now: float) -> None:
        done = []
        while self._ends and self._ends[0][0] <= now:
            done.append(heapq.heappop(self._ends)[1])
        if done:
            self.tally.finished += len(done)
            await client.release(done)

    async def _listen(self, client: Client) -> None:
        async for event in client.events():
            self._hear(event)

    def _hear(self, event: Event) -> None:
        now = perf_counter()
        if isinstance(event, Allocated):
            self.tally.allocations += 1
            self.tally.waits.append(now - self._asked.pop(event.key))
            heapq.heappush(self._ends, (now + self._runs[event.application_id], event.key))
        elif isinstance(event, ApplicationStateChanged) and event.state in ENDED:
            self._runs.pop(event.application_id, None)
