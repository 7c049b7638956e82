"""Counts of applications and allocations, minute by minute (spec § 12.4)."""

from collections import deque
from typing import NamedTuple

from licorne_core.model.apps.states import AppState
from licorne_core.values.ids import PartitionName
from licorne_core.views import Views
from licorne_server.process.clock import Clock, Periodic
from licorne_server.process.fair import TimeSlices
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


class History(Periodic):
    """The samples of the last day, the oldest first; they begin with the server."""

    def __init__(self, views: Views, clock: Clock, time_slices: TimeSlices) -> None:
        """Start without samples; `start` begins to take one every minute, in the time slices of readers."""
        super().__init__("history", clock, SAMPLE_SECONDS)
        self._views = views
        self._time_slices = time_slices
        self.samples: deque[Sample] = deque(maxlen=SAMPLES)

    async def _work(self) -> float:
        now = self._clock.now()
        await self._take(now)
        return now + SAMPLE_SECONDS

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
