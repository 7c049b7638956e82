"""Samples at regular times: counts of the day for REST (spec § 12.4), and the history of the page.

The history has samples of those queues that are recorded, in steps of 5 s.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from heapq import nlargest
from typing import NamedTuple

from licorne_core.values.app_states import AppState
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import PartitionName, QueuePath, RmId
from licorne_core.views import Views
from licorne_core.views.readings import PART, LargeQueue, NodesReading
from licorne_server.process.clock import Clock, Periodic
from licorne_server.process.fair import TimeSlices, walked
from licorne_server.reads.history.marks import Marks
from licorne_server.reads.history.places import Places
from licorne_server.reads.history.tracks import MINUTES, STEP_SECONDS, STEPS, STEPS_OF_MINUTE, Track
from licorne_server.store.configurations.revisions import Revisions

LARGEST = 200
"""Number of the largest queues of the server, which are recorded whether viewed or not."""

MAX_PARTITIONS = 64
"""Maximum number of partitions that are recorded whether viewed or not."""

MAX_TRACKS = 512
"""Maximum number of queues and partitions that are recorded in total."""

MAX_BYTES = 64 * 1024 * 1024
"""Maximum number of estimated bytes of memory of all tracks."""

LOOK_SECONDS = 3_600.0
"""Seconds for which a queue counts as viewed."""

LOOKS_OF_PEER = 32
"""Maximum number of queues that are recorded only because one peer views them."""

CHOICE_STEPS = 12
"""Steps between two selections of the largest queues, plus one step for each `QUEUES_IN_STEP` queues."""

QUEUES_IN_STEP = 400
NODES_IN_STEP = 2_000
"""Number of queues and nodes that are read in one step. If there are more, they are sampled less often."""

ROOT = QueuePath("root")
DAY_STEPS = MINUTES * STEPS_OF_MINUTE


class Name(NamedTuple):
    """A queue of a partition. The path root stands for the partition."""

    partition: PartitionName
    path: QueuePath


class _Nodes:
    """The last reading of a partition's nodes, and the step at which they are read again."""

    def __init__(self) -> None:
        self.reading: NodesReading | None = None
        self.due = 0


class Recorder:
    """Tracks of queues, marks of RMs, and positions of asks: all are bounded, and sampled in steps of 5 s."""

    def __init__(self, views: Views, revisions: Callable[[RmId], Revisions | None], started: float) -> None:
        """Record nothing yet. `started` is the start of the server, in unix seconds."""
        self.started = started
        self.step = 0
        """Number of the step that took the last samples."""
        self.marks = Marks(revisions)
        self.places = Places(views)
        self._views = views
        self._tracks: dict[Name, Track] = {}
        self._chosen: dict[Name, None] = {}
        self._choice_due = 0
        self._nodes: dict[PartitionName, _Nodes] = {}
        # The number of the last victim that was counted, by partition.
        self._victims: dict[PartitionName, int] = {}

    @property
    def size(self) -> int:
        """Estimated bytes of memory of all tracks."""
        return sum(track.size for track in self._tracks.values())

    def look(self, partition: PartitionName, path: str, now: float, peer: str) -> Track:
        """Record that a peer views a queue, which is sampled from now on; returns its track.

        Raises:
            NotFound: there is no such queue, and no track of its path.
        """
        name = Name(partition, QueuePath(path))
        track = self._tracks.get(name)
        if track is None:
            self._views.reading(partition, path)
            track = self._tracks[name] = Track(step_of(now))
            track.looked_at, track.looked_by = now, peer
            self._forget_looks_of(peer)
            self._make_room(now)
        track.looked_at = now
        return track

    def _forget_looks_of(self, peer: str) -> None:
        """Drop the tracks of a peer above its bound, the least recently viewed first."""
        of_peer = [
            name
            for name, track in self._tracks.items()
            if track.looked_by == peer and name not in self._chosen
        ]
        of_peer.sort(key=lambda name: self._tracks[name].looked_at)
        for name in of_peer[:-LOOKS_OF_PEER]:
            del self._tracks[name]

    def of_partition(self, partition: PartitionName) -> list[tuple[QueuePath, Track]]:
        """All tracks of a partition, by path."""
        found = [(name.path, track) for name, track in self._tracks.items() if name.partition == partition]
        return sorted(found, key=lambda item: item[0])

    def stopped_in_an_hour(self, partition: PartitionName) -> int:
        """Number of recorded victims whose stop was requested within the last hour."""
        track = self._tracks.get(Name(partition, ROOT))
        if track is None:
            return 0
        first = max(track.first, self.step - STEPS + 1)
        return round(sum(value for value in track.stopped.steps(first, track.step) if value == value))

    def record(self, now: float) -> Iterator[None]:
        """Take the samples of the current step; the caller may pause at every step."""
        step = step_of(now)
        if step <= self.step:
            return
        self.step = step
        if step >= self._choice_due:
            yield from self._choose(step, now)
        partitions = self._views.partition_names()
        yield
        stopped: Counter[Name] = Counter()
        for partition in partitions:
            yield from self._count_victims(partition, stopped)
            yield
        for name, track in list(self._tracks.items()):
            with suppress(NotFound):
                track.put(step, self._views.reading(*name), stopped[name])
            yield
        for partition in partitions:
            with suppress(NotFound):
                yield from self._read_nodes(partition, step)
        yield from self.marks.watch(self._views.registrations(), now)
        yield from self.places.record(step, now)

    def _choose(self, step: int, now: float) -> Iterator[None]:
        """Select the largest queues, and drop tracks without samples for a day."""
        partitions = self._views.partition_names()
        largest: list[LargeQueue] = []
        queues = 0
        for partition in partitions:
            with suppress(NotFound):
                for found in self._views.large_queues(partition, LARGEST):
                    if found is None:
                        queues += PART
                        yield
                    else:
                        largest.append(found)
                largest = nlargest(LARGEST, largest)
            yield
        roots = (Name(partition, ROOT) for partition in partitions[:MAX_PARTITIONS])
        self._chosen = dict.fromkeys((*roots, *(Name(one.partition, one.path) for one in largest)))
        for name in list(self._chosen):
            if name not in self._tracks:
                self._tracks[name] = Track(step)
            yield
        for name, track in list(self._tracks.items()):
            if track.step <= step - DAY_STEPS:
                del self._tracks[name]
        self._make_room(now)
        self._choice_due = step + CHOICE_STEPS + queues // QUEUES_IN_STEP
        there = set(partitions)
        for kept in (self._nodes, self._victims):
            for gone in kept.keys() - there:
                del kept[gone]

    def _make_room(self, now: float) -> None:
        """Drop tracks above the bounds: first tracks of queues neither selected nor viewed, the oldest first.

        Tracks of selected queues are dropped last, so that a user who views many queues does not erase them.
        """
        size = self.size
        if len(self._tracks) <= MAX_TRACKS and size <= MAX_BYTES:
            return
        looked = now - LOOK_SECONDS

        def worth(name: Name) -> tuple[bool, bool, int, float]:
            track = self._tracks[name]
            return name in self._chosen, track.looked_at > looked, track.step, track.looked_at

        for name in sorted(self._tracks, key=worth):
            if len(self._tracks) <= MAX_TRACKS and size <= MAX_BYTES:
                return
            size -= self._tracks.pop(name).size

    def _count_victims(self, partition: PartitionName, stopped: Counter[Name]) -> Iterator[None]:
        """Count the victims since the last step, in their queues and all queues above."""
        last = self._victims.get(partition)
        newest = 0
        with suppress(NotFound):
            for record in self._views.preemptions(partition):
                newest = newest or record.number
                if last is None or record.number <= last:
                    break
                path = str(record.victim_queue.path)
                while path:
                    stopped[Name(partition, QueuePath(path))] += 1
                    path = path.rpartition(".")[0]
                if not record.number % PART:
                    yield
        # The numbers of a recreated partition start at 1 again.
        self._victims[partition] = newest

    def _read_nodes(self, partition: PartitionName, step: int) -> Iterator[None]:
        """Record the nodes of a partition: a new reading if one is due, or else the last one."""
        track = self._tracks.get(Name(partition, ROOT))
        if track is None:
            return
        nodes = self._nodes.setdefault(partition, _Nodes())
        if step >= nodes.due:
            for reading in self._views.nodes_reading(partition):
                if reading is not None:
                    nodes.reading = reading
                    nodes.due = step + 1 + reading.nodes // NODES_IN_STEP
                yield
        if nodes.reading is not None and track.step == step:
            track.put_nodes(nodes.reading)


def step_of(now: float) -> int:
    """The number of the step at a time in unix seconds."""
    return int(now // STEP_SECONDS)


SAMPLE_SECONDS = 60.0
PEER = "history"

SAMPLES = 1_440
"""Maximum number of samples: one day."""


class Sample(NamedTuple):
    """Running applications and allocations at a time, in unix seconds."""

    time: float
    applications: int
    allocations: int


class History(Periodic):
    """The samples of the last day, the oldest first; the first one is taken a minute after `start`."""

    def __init__(self, views: Views, clock: Clock, time_slices: TimeSlices) -> None:
        """Start without samples; `start` schedules one every minute, in the time slices of readers."""
        super().__init__("history", clock, SAMPLE_SECONDS)
        self._views = views
        self._time_slices = time_slices
        self.samples: deque[Sample] = deque(maxlen=SAMPLES)

    async def _work(self) -> float:
        now = self._clock.now()
        await self._take(now)
        return now + SAMPLE_SECONDS

    async def _take(self, now: float) -> None:
        """Take a sample: add up the partitions, which may be many, in slices."""
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
    """Takes the samples of a recorder in the time slices of readers, even without viewers."""

    def __init__(
        self,
        views: Views,
        revisions: Callable[[RmId], Revisions | None],
        clock: Clock,
        time_slices: TimeSlices,
    ) -> None:
        """Take no samples before `start`; `revisions` gives the configurations of an RM."""
        super().__init__("recording", clock, STEP_SECONDS)
        self.recorder = Recorder(views, revisions, clock.now())
        self._time_slices = time_slices

    async def _work(self) -> float:
        await walked(self.recorder.record(self._clock.now()), partial(self._time_slices.slice, PEER))
        return (self.recorder.step + 1) * STEP_SECONDS
