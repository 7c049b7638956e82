"""Expected starts: in State, in REST, on the page, and in metrics; and samples of them, for their ranges."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any, NamedTuple

from google.protobuf.message import Message

from licorne.v1 import state_pb2 as pb
from licorne_core.extensions.backfill.ranges import Expected, Range, Ranges
from licorne_core.extensions.backfill.reports import CalendarEntry, Confidence, ExpectedStart, StartSample
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import AllocationKey, AppId, PartitionName
from licorne_core.views import Views
from licorne_core.views.fields import Moment
from licorne_core.views.partitions import PartitionReport
from licorne_server.process.clock import Clock, Periodic
from licorne_server.process.fair import TimeSlices
from licorne_server.reads.paging import Page, filled, place_token, read_place
from licorne_server.reads.reports import filled as message_of
from licorne_server.wire.features import Measured, PageList, RestList
from licorne_server.wire.responses import nanoseconds

LISTED = "calendar"

SAMPLE_SECONDS = 5.0
"""Minimum seconds between two samples of a partition's expected starts."""

STEP_SECONDS = 0.1
"""Seconds by which each step of the latest samples delays the next samples. A step takes about a millisecond,
so samples take a hundredth of a processor."""

MOST_SAMPLES = 512
"""Maximum number of awaited starts of a partition; once it is reached, every second start is dropped."""

PEER = "expected starts"

_start = message_of(pb.ExpectedStart, ExpectedStart)
_entry = message_of(
    pb.CalendarEntry,
    CalendarEntry,
    {"application_id": "app_id", "allocation_key": "key", "start": ("start", _start)},
)


class Calendar:
    """Answers calls for held shadow starts by time, in pages; a token names the last entry of a page."""

    def __init__(self, sources: Any, resolve: Callable[[str, Any], PartitionName]) -> None:
        """`resolve` returns the partition of a name, if the caller may see it."""
        self._sources = sources
        self._resolve = resolve

    async def answer(self, request: pb.ListCalendarRequest, context: Any) -> Message:
        """Copy the entries in one step, and encode the page in slices."""
        sources, partition = self._sources, self._resolve(request.partition, context)
        slices = partial(sources.time_slices.slice, sources.access.caller(context).peer)
        async with slices():
            entries = list(sources.listed(LISTED, partition, request.queue))
        behind = _behind(entries, request.page_token)
        page = await filled(Page(behind, _entry, size=request.page_size), slices)
        token = place_token(page.last, _place)
        return pb.ListCalendarResponse(entries=page.rows, next_page_token=token)


def _behind(entries: Iterable[CalendarEntry], token: str) -> Iterator[CalendarEntry]:
    """The entries after the one named by a token, or all for an empty token."""
    behind = read_place(token, float, str, str) if token else ()
    return (entry for entry in entries if _place(entry) > behind)


def _place(entry: CalendarEntry) -> tuple[float, str, str]:
    return (entry.start.starts_at, entry.app_id, entry.key)


class _Awaited(NamedTuple):
    """An expected start that was observed, and its range at that time, None once it is judged."""

    expected: Expected
    range: Range | None


class Observed:
    """The samples of one partition."""

    def __init__(self) -> None:
        """Start without samples."""
        self.ranges = Ranges()
        self.awaited: dict[tuple[AppId, AllocationKey], _Awaited] = {}
        self.place = 0

    def take(self, sample: StartSample) -> None:
        """Await the start of the sample's ask, if one is expected and not awaited yet."""
        self.place = sample.behind
        key, expected = (sample.app_id, sample.key), sample.expected
        if expected is None or key in self.awaited:
            return
        if len(self.awaited) >= MOST_SAMPLES:
            self.awaited = dict(list(self.awaited.items())[::2])
        self.awaited[key] = _Awaited(expected, self.ranges.range(expected))

    def learn(self, views: Views, name: PartitionName, now: float) -> None:
        """Compare starts, and ranges that are over, with the expected starts; a removed ask has no start."""
        for key, (expected, told) in list(self.awaited.items()):
            start = next(views.listed("start_of", name, *key), None)
            if start is not None and told is not None and (start < inf or told.latest < now):
                self.ranges.judge(expected, told, start, len(self.awaited))
                self.awaited[key] = _Awaited(expected, None)
            if start != inf:
                del self.awaited[key]
                if start is not None:
                    self.ranges.started(expected, start)


class ExpectedStarts(Periodic):
    """Adds expected starts to explanations, and adds ranges, from its samples, to these and the calendar."""

    def __init__(self, views: Views, clock: Clock, time_slices: TimeSlices) -> None:
        """Idle until `start`."""
        super().__init__(PEER, clock, SAMPLE_SECONDS)
        self._views, self._time_slices = views, time_slices
        self._observed: dict[PartitionName, Observed] = {}
        self.lists = {LISTED: self._calendar}

    def explain(self, partition: PartitionName, message: pb.ExplainResponse, now: float) -> Iterator[None]:
        """Add the expected start of a pending ask, if backfill is on; the caller may pause at each step."""
        ask = (message.application_id, message.allocation_key)
        for start in self._views.listed("expected_start", partition, *ask, now, self._ranges(partition)):
            if start is None:
                yield
            else:
                message.expected_start.CopyFrom(_start(start))

    def _calendar(self, partition: PartitionName, queue: str) -> Iterator[CalendarEntry]:
        return self._views.listed(LISTED, partition, queue, self._clock.now(), self._ranges(partition))

    def _ranges(self, partition: PartitionName) -> Ranges | None:
        observed = self._observed.get(partition)
        return None if observed is None else observed.ranges

    async def _work(self) -> float:
        names, steps = self._views.partition_names(), 0
        self._observed = {name: self._observed.get(name) or Observed() for name in names}
        for name, observed in self._observed.items():
            with suppress(NotFound):
                steps += await self._sample(name, observed)
        pauses = max(1.0, STEP_SECONDS * steps // SAMPLE_SECONDS)
        return (self._clock.now() // SAMPLE_SECONDS + pauses) * SAMPLE_SECONDS

    async def _sample(self, name: PartitionName, observed: Observed) -> int:
        """Take one sample; return the number of its steps."""
        count = 0
        async with self._time_slices.slice(PEER):
            observed.learn(self._views, name, self._clock.now())
            steps = self._views.listed("start_sample", name, observed.place, self._clock.now())
        while True:
            async with self._time_slices.slice(PEER) as is_over:
                for sample in steps:
                    count += 1
                    if sample is not None:
                        observed.take(sample)
                    if is_over():
                        break
                else:
                    return count


def _measured(views: Views, report: PartitionReport) -> Iterator[Measured]:
    """Metrics of expected starts, and of their distance from actual starts."""
    if not report.extended["backfill"]:
        return
    held = {one.value: 0 for one in Confidence if one is not Confidence.UNKNOWN}
    late = 0
    for entry in views.listed(LISTED, report.name):
        held[entry.start.confidence] += 1
        late += entry.start.is_late
    text = "Asks and gangs that hold a shadow start, by the confidence in it."
    yield Measured("gauge", "licorne_shadow_starts", text, "confidence", held)
    text = "Asks and gangs whose shadow start is later than they want to start."
    yield Measured("gauge", "licorne_shadow_starts_late", text, "", {"": late})
    text = "Allocations that passed the shadow start of an ask or gang ahead of them."
    backfilled = {"": views.counters(report.name).allocations_passing}
    yield Measured("counter", "licorne_allocations_backfilled_total", text, "", backfilled)
    for counters in views.listed("start_counters", report.name):
        text = "Asks and gangs that were told a shadow start later than they want to start."
        at_risk = {"": counters.deadlines_at_risk}
        yield Measured("counter", "licorne_deadlines_at_risk_total", text, "", at_risk)
        text = "Seconds between the start that an ask or gang was told first and its start."
        yield Measured("histogram", "licorne_eta_error_seconds", text, "confidence", counters.eta_errors)


PARTITION_ON_PAGE = {"backfill": "backfill"}
PAGED = {"ListCalendar": (pb.ListCalendarRequest, lambda sources, resolve: Calendar(sources, resolve).answer)}
EXPLAINED = (ExpectedStarts,)
HOURS = {"backfilled_hours": "passing"}
MEASURED = (_measured,)
REST_LISTS = {
    LISTED: RestList(
        LISTED,
        CalendarEntry,
        {
            "applicationId": "app_id",
            "allocationKey": "key",
            "queueName": "queue",
            "startTime": ("start.starts_at", nanoseconds),
            "confidence": "start.confidence",
            "firstToldTime": ("start.first_told", nanoseconds),
            "startBy": ("start.start_by", nanoseconds),
            "earliestTime": ("start.earliest", nanoseconds),
            "latestTime": ("start.latest", nanoseconds),
            "level": "start.level",
            "requestedResource": ("requested", dict),
        },
        optional="allocationKey startBy earliestTime latestTime level",
    )
}
PAGE_LISTS = {
    LISTED: PageList(
        LISTED,
        CalendarEntry,
        "key queue asks requested nodes since",
        {
            "application": "app_id",
            "start": ("start.starts_at", Moment),
            "confidence": "start.confidence",
            "firstTold": ("start.first_told", Moment),
            "startBy": ("start.start_by", Moment),
            "earliest": ("start.earliest", Moment),
            "latest": ("start.latest", Moment),
            "level": "start.level",
            "late": "start.is_late",
        },
        texts=("app_id", "key"),
        named_by=("application", "key"),
    )
}
