"""Counts of applications and allocations, minute by minute (spec § 12.4)."""

import asyncio
from collections import deque
from typing import NamedTuple

from licorne_core.model.apps.states import AppState
from licorne_core.values.ids import PartitionName
from licorne_core.views import Views
from licorne_server.fair import TimeSlices
from licorne_server.process.clock import Clock
from licorne_server.process.loop import stop_task
from licorne_server.services.paging import gathered

SAMPLE_SECONDS = 60.0
PEER = "history"

SAMPLES = 1_440
"""Number of samples: those of a day."""


class Sample(NamedTuple):
    """Running applications and allocations at a time, in unix seconds."""

    time: float
    applications: int
    allocations: int


class History:
    """The samples of the last day, the oldest first; they begin with the server."""

    def __init__(self, views: Views, clock: Clock, time_slices: TimeSlices) -> None:
        """Start without samples; `start` begins to take them, in the time slices of readers."""
        self._views = views
        self._time_slices = time_slices
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self.samples: deque[Sample] = deque(maxlen=SAMPLES)

    def start(self) -> None:
        """Take a sample every minute, the first a minute from now."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="history")

    async def stop(self) -> None:
        """Stop taking samples."""
        await stop_task(self._task)

    async def _run(self) -> None:
        due = self._clock.now() + SAMPLE_SECONDS
        woken = asyncio.Event()
        while True:
            await self._clock.wait(due, woken)
            woken.clear()
            now = self._clock.now()
            if now >= due:
                await self._take(now)
                due += SAMPLE_SECONDS * (1 + (now - due) // SAMPLE_SECONDS)

    async def _take(self, now: float) -> None:
        """Add the partitions up, which may be very many, in slices."""
        running = allocations = 0

        def add(name: PartitionName) -> None:
            nonlocal running, allocations
            report = self._views.partition(name)
            running += report.applications.get(AppState.RUNNING.value, 0)
            allocations += report.allocations

        await gathered(self._views.partition_names(), add, self._time_slices, PEER)
        self.samples.append(Sample(now, running, allocations))
