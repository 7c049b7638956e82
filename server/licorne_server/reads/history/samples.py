"""Samples taken by the clock: counts of the day for REST (spec § 12.4), and the history of the page."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from licorne_core.values.app_states import AppState
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import RmId
from licorne_core.views import Views
from licorne_server.process.clock import Clock, Periodic
from licorne_server.process.fair import TimeSlices
from licorne_server.process.walking import walked
from licorne_server.reads.history.lines import STEP_SECONDS
from licorne_server.reads.history.recorder import Recorder
from licorne_server.store.configurations.revisions import Revisions

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
        """Take a sample: add up the partitions, which may be very many, in slices."""
        counts = await walked(self._counts(), partial(self._time_slices.slice, PEER))
        running = sum(running for running, _ in counts)
        self.samples.append(Sample(now, running, sum(allocations for _, allocations in counts)))

    def _counts(self) -> Iterator[tuple[int, int] | None]:
        """Running applications and allocations of each partition."""
        for name in self._views.partition_names():
            with suppress(NotFound):
                report = self._views.partition(name)
                yield report.applications.get(AppState.RUNNING.value, 0), report.allocations


class Recording(Periodic):
    """Takes the samples of a recorder, in the time slices of readers; also without viewers."""

    def __init__(
        self,
        views: Views,
        revisions: Callable[[RmId], Revisions | None],
        clock: Clock,
        time_slices: TimeSlices,
    ) -> None:
        """Idle until `start`; `revisions` gives the configurations of an RM."""
        super().__init__("recording", clock, STEP_SECONDS)
        self.recorder = Recorder(views, revisions, clock.now())
        self._time_slices = time_slices

    async def _work(self) -> float:
        await walked(self.recorder.record(self._clock.now()), partial(self._time_slices.slice, PEER))
        return (self.recorder.step + 1) * STEP_SECONDS
