"""A fake resource manager, which submits the applications of its world and ends their allocations."""

import asyncio
import heapq
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import ceil, isinf
from time import perf_counter

from licorne import (
    Allocated,
    ApplicationStateChanged,
    Ask,
    Client,
    Confirm,
    Event,
    ReleaseRequested,
    Termination,
    TlsConfig,
    Token,
)
from licorne.addresses import Target
from licorne_server.lab.demo.world import Submission, World

STEP_SECONDS = 0.05
REMEMBERED_WAITS = 10_000
ENDED = ("Completed", "Failed", "Expired")


@dataclass(slots=True)
class Tally:
    """Counts of asks and allocations; `waits` has the latest times from ask to allocation, in seconds.

    Placeholders are counted separately. Counters are by application.
    """

    submitted: int = 0
    asked: int = 0
    allocations: int = 0
    finished: int = 0
    placed: Counter[str] = field(default_factory=Counter)
    placeholders: Counter[str] = field(default_factory=Counter)
    preempted: Counter[str] = field(default_factory=Counter)
    waits: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED_WAITS))


class DemoRm:
    """Plays one world against a server."""

    def __init__(self, world: World, unit: float) -> None:
        """`unit` is the number of seconds by which times of the world are multiplied."""
        self.world = world
        self.tally = Tally()
        self._unit = unit
        self._client: Client | None = None
        self._asked: dict[str, float] = {}
        self._runs: dict[str, float] = {}
        # Heap of the end times of running allocations.
        self._ends: list[tuple[float, str]] = []
        # Allocations that were preempted before their end times.
        self._preempted: set[str] = set()
        # For each incomplete gang: the number of missing placeholders, and the asks of its members.
        self._gangs: dict[str, tuple[int, Sequence[Ask]]] = {}

    @property
    def was_served(self) -> bool:
        """True once the server has accepted the nodes of this RM."""
        return self._client is not None and self._client.stats.replayed > 0

    async def play(
        self,
        target: Target,
        work: Iterator[Submission],
        *,
        tls: TlsConfig | None = None,
        token: Token | None = None,
    ) -> None:
        """Register the nodes, then submit the applications in order of time, until cancelled.

        `tls` and `token` are passed to `licorne.Client`, with the same errors.
        """
        world = self.world
        async with Client(
            target,
            rm_id=world.rm_id,
            config=world.config,
            version="demo",
            tls=tls,
            token=token,
            confirm=Confirm.EVERYTHING,
        ) as client:
            self._client = client
            await client.add_nodes(world.nodes)
            listening = asyncio.create_task(self._listen(client))
            try:
                await self._live(client, work)
            finally:
                listening.cancel()
                with suppress(asyncio.CancelledError):
                    await listening

    async def _live(self, client: Client, work: Iterator[Submission]) -> None:
        """Submit applications and end allocations when they are due."""
        start = perf_counter()
        upcoming = next(work, None)
        while True:
            now = perf_counter()
            while upcoming is not None and start + upcoming.at * self._unit <= now:
                await self._submit(client, upcoming)
                upcoming = next(work, None)
            await self._start_gangs(client)
            await self._finish(client, now)
            await asyncio.sleep(STEP_SECONDS)

    def declared(self, submission: Submission) -> int:
        """The runtime that the application declares, in seconds; 0 if there is none."""
        if not self.world.declares or isinf(submission.runs):
            return 0
        # A declared runtime is an upper bound, and releases are sent a little late.
        return ceil(submission.runs * self._unit) + 1

    async def _submit(self, client: Client, submission: Submission) -> None:
        app = submission.application
        self._runs[app.application_id] = submission.runs * self._unit
        app = replace(app, runtime=self.declared(submission))
        missing = sum(group.members for group in app.task_groups)
        if missing:
            self._gangs[app.application_id] = missing, submission.asks
        await client.submit_applications([app])
        self.tally.submitted += 1
        if not missing:
            await self._ask(client, submission.asks)

    async def _ask(self, client: Client, asks: Sequence[Ask]) -> None:
        now = perf_counter()
        self._asked.update((ask.key, now) for ask in asks)
        self.tally.asked += len(asks)
        await client.ask(asks)

    async def _start_gangs(self, client: Client) -> None:
        """Submit the members of gangs whose placeholders are all allocated."""
        whole = [name for name, (missing, _) in self._gangs.items() if not missing]
        for name in whole:
            _, members = self._gangs.pop(name)
            await self._ask(client, members)

    async def _finish(self, client: Client, now: float) -> None:
        done = []
        while self._ends and self._ends[0][0] <= now:
            key = heapq.heappop(self._ends)[1]
            if key in self._preempted:
                self._preempted.discard(key)
            else:
                done.append(key)
        if done:
            self.tally.finished += len(done)
            await client.release(done)

    async def _listen(self, client: Client) -> None:
        async for event in client.events():
            self._hear(event)

    def _hear(self, event: Event) -> None:
        now = perf_counter()
        if isinstance(event, Allocated) and event.placeholder:
            name = event.application_id
            self.tally.placeholders[name] += 1
            missing, members = self._gangs[name]
            self._gangs[name] = missing - 1, members
        elif isinstance(event, Allocated):
            self.tally.allocations += 1
            self.tally.placed[event.application_id] += 1
            self.tally.waits.append(now - self._asked.pop(event.key))
            heapq.heappush(self._ends, (now + self._runs[event.application_id], event.key))
        elif isinstance(event, ReleaseRequested):
            if event.termination is Termination.PREEMPTED and not event.placeholder:
                self.tally.preempted[event.application_id] += 1
                self._preempted.add(event.key)
        elif isinstance(event, ApplicationStateChanged) and event.state in ENDED:
            self._runs.pop(event.application_id, None)
