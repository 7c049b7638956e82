"""Tracks: the recorded values of one queue, or of a partition with its nodes, each in a line.

A line has one number in each step of 5 s for an hour, and in each minute for a day. The number of a step is
its time divided by its length, so all lines have the same steps, and no line stores times. The index of a
step in the ring is its number modulo the size of the ring.
"""

from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from math import isnan, nan

from licorne_core.values.resources import EMPTY, Resources
from licorne_core.views.readings import TENTHS, NodesReading, QueueReading

STEP_SECONDS = 5
MINUTE_SECONDS = 60
STEPS_OF_MINUTE = MINUTE_SECONDS // STEP_SECONDS

STEPS = 720
"""Number of retained steps: an hour in whole minutes."""

MINUTES = 1_440
"""Number of retained minutes: a day."""

LINE_BYTES = 8 * (STEPS + MINUTES)
"""Number of bytes of memory of a line."""


class Series:
    """The values of a number over time; NaN for a missing value."""

    __slots__ = ("_adds", "_minutes", "_steps")

    def __init__(self, *, adds: bool = False) -> None:
        """Start without values. A minute's value is the mean of its steps, or with `adds` their total."""
        self._adds = adds
        self._steps = array("d", (nan,)) * STEPS
        self._minutes = array("d", (nan,)) * MINUTES

    def put(self, step: int, value: float) -> None:
        """Set the value of the current step."""
        self._steps[step % STEPS] = value

    def move(self, before: int, step: int) -> None:
        """Advance from the current step to a later one: minutes end, and skipped steps have no values."""
        first, last = before // STEPS_OF_MINUTE, step // STEPS_OF_MINUTE
        if last > first:
            self._minutes[first % MINUTES] = self._minute(first, before)
            for minute in range(first + 1, min(last + 1, first + 1 + MINUTES)):
                self._minutes[minute % MINUTES] = nan
        for passed in range(before + 1, min(step + 1, before + 1 + STEPS)):
            self._steps[passed % STEPS] = nan

    def _minute(self, minute: int, present: int) -> float:
        """The value of a minute up to the current step."""
        first = minute * STEPS_OF_MINUTE
        count = min(STEPS_OF_MINUTE, present + 1 - first)
        place = first % STEPS
        # The steps of a minute are adjacent, as the size of the ring is a multiple of a minute.
        found = [value for value in self._steps[place : place + count] if not isnan(value)]
        if not found:
            return nan
        return sum(found) if self._adds else sum(found) / len(found)

    def steps(self, first: int, present: int) -> Iterator[float]:
        """The values from the step `first` to the current one."""
        for step in range(first, present + 1):
            yield self._steps[step % STEPS] if step > present - STEPS else nan

    def minutes(self, first: int, present: int) -> Iterator[float]:
        """The values from the minute `first` to the current minute, which is incomplete."""
        last = present // STEPS_OF_MINUTE
        for minute in range(first, last):
            yield self._minutes[minute % MINUTES] if minute > last - MINUTES else nan
        if first <= last:
            yield self._minute(last, present)


MAX_RESOURCES = 8
"""Maximum number of recorded resources of a queue: the first ones that occur."""

MAX_BOUNDS = 64
"""Maximum number of retained changes of a queue's guarantee or maximum."""

BOUND_BYTES = 512
"""Estimated bytes of memory of a change with its amounts."""

Values = list[float | None]


class Bounds:
    """A guarantee or a maximum over time: for each change the step, and the amounts from then on."""

    __slots__ = ("_changes",)

    def __init__(self) -> None:
        """Start without amounts."""
        self._changes: deque[tuple[int, Resources]] = deque(maxlen=MAX_BOUNDS)

    def __len__(self) -> int:
        """Number of retained changes."""
        return len(self._changes)

    def put(self, step: int, amounts: Resources) -> None:
        """Set the amounts from a step on."""
        if not self._changes or self._changes[-1][1] != amounts:
            self._changes.append((step, dict(amounts)))

    def names(self) -> Iterator[str]:
        """The resources with an amount in any change."""
        for _, amounts in self._changes:
            yield from amounts

    def values(self, name: str, first: int, last: int, length: int) -> Iterator[float | None]:
        """The amounts of a resource at the ends of intervals of `length` steps; None without a bound."""
        changes = iter(self._changes)
        following = next(changes, None)
        amounts: Resources = EMPTY
        for place in range(first, last + 1):
            while following is not None and following[0] < (place + 1) * length:
                amounts = following[1]
                following = next(changes, None)
            yield amounts.get(name)


class Track:
    """The recorded values of a queue from its first step on."""

    def __init__(self, step: int) -> None:
        """Start at a step, without values."""
        self.first = step
        """The step of the first sample."""
        self.step = step
        """The step of the last sample."""
        self.looked_at = 0.0
        """Time of the last view, in unix seconds; 0.0 for never."""
        self.looked_by = ""
        """The peer whose view caused the recording; empty if there is none."""
        self.used: dict[str, Series] = {}
        self.waiting: dict[str, Series] = {}
        self.guaranteed = Bounds()
        self.max = Bounds()
        self.stopped = Series(adds=True)
        """Number of victims that the RM was asked to stop."""
        self.applications = Series()
        self.nodes: Series | None = None
        self.fill: tuple[Series, ...] = ()
        """Number of nodes in each tenth of use; empty for a queue."""

    @property
    def size(self) -> int:
        """Estimated bytes of memory."""
        changes = len(self.guaranteed) + len(self.max)
        return LINE_BYTES * sum(1 for _ in self._lines()) + BOUND_BYTES * changes

    def _lines(self) -> Iterator[Series]:
        yield from self.used.values()
        yield from self.waiting.values()
        yield self.stopped
        yield self.applications
        if self.nodes is not None:
            yield self.nodes
        yield from self.fill

    def put(self, step: int, reading: QueueReading, stopped: int) -> None:
        """Record a sample of the queue, and the number of victims since the last sample."""
        if step > self.step:
            for line in self._lines():
                line.move(self.step, step)
            self.step = step
        _put(self.used, step, reading.allocated)
        _put(self.waiting, step, reading.pending)
        self.guaranteed.put(step, reading.guaranteed)
        self.max.put(step, reading.max)
        self.stopped.put(step, stopped)
        self.applications.put(step, reading.applications)

    def put_nodes(self, reading: NodesReading) -> None:
        """Record a sample of the nodes in the current step."""
        if self.nodes is None:
            self.nodes, self.fill = Series(), tuple(Series() for _ in range(TENTHS))
        self.nodes.put(self.step, reading.nodes)
        for line, count in zip(self.fill, reading.fill, strict=True):
            line.put(self.step, count)

    def resources(self) -> list[str]:
        """The resources with samples."""
        return sorted({*self.used, *self.waiting, *self.guaranteed.names(), *self.max.names()})


def _put(lines: dict[str, Series], step: int, amounts: Mapping[str, int]) -> None:
    for name in amounts:
        if name not in lines and len(lines) < MAX_RESOURCES:
            lines[name] = Series()
    for name, line in lines.items():
        line.put(step, amounts.get(name, 0))


class TrackSpan:
    """A part of a track: the steps of the last hour, or the minutes of the last day.

    It begins with the first sample if the track is shorter. Missing values are None.
    """

    def __init__(self, track: Track, present: int, count: int, length: int) -> None:
        """Cover the last `count` intervals of `length` steps each, up to the current step."""
        self.length = length
        self.last = present // length
        self.first = min(self.last, max(self.last - count + 1, track.first // length))
        self._track = track

    def of(self, line: Series) -> Values:
        """The values of a line of the track."""
        track = self._track
        read: Callable[[int, int], Iterator[float]] = line.minutes if self.length > 1 else line.steps
        values: Values = [None if isnan(one) else round(one) for one in read(self.first, track.step)]
        # A track that is no longer recorded ends before the current step.
        return values + [None] * (self.last - self.first + 1 - len(values))

    def of_bounds(self, bounds: Bounds, name: str) -> Values:
        """The values of a guarantee or maximum at the steps that have samples."""
        there = self.of(self._track.applications)
        values = bounds.values(name, self.first, self.last, self.length)
        return [None if sample is None else value for sample, value in zip(there, values, strict=True)]
