"""History for the page: histories of partitions, queues and positions of asks, and timelines.

A timeline shows when each ask of an application waited, ran and was stopped, and why. Present asks are
read from the core, ended ones from the records of victims and the RM's event log.
"""

from collections.abc import Iterator
from contextlib import suppress
from operator import itemgetter

from aiohttp import web

from licorne_core.messages.events.allocations import Asked as AskCame
from licorne_core.messages.events.allocations import Freed
from licorne_core.messages.events.records import EventDetail, EventRecord, Fact
from licorne_core.messages.preemption import PreemptionRecord, PreemptionRule
from licorne_core.values.asks import Ask
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import AllocationKey, AppId, PartitionName, rm_of
from licorne_core.views.applications import AppReport
from licorne_server.http.pages import API, Maker, one_of, text_in
from licorne_server.http.stream import JsonObject, Rows, Verbatim, enclosed, encode, reader_of, send_json
from licorne_server.http.units import Asked, milliseconds
from licorne_server.reads.history.marks import Mark
from licorne_server.reads.history.places import AskName
from licorne_server.reads.history.recorder import ROOT, step_of
from licorne_server.reads.history.tracks import (
    MINUTES,
    STEP_SECONDS,
    STEPS,
    STEPS_OF_MINUTE,
    Track,
    TrackSpan,
)
from licorne_server.reads.sources import Sources

MAX_ROWS = 500
"""Maximum number of asks that are shown, the latest first."""

MAX_FACTS = 200_000
"""Maximum number of facts of the event log that are examined, the latest first."""

PART = 256
"""Maximum number of facts that are examined without a pause."""

_ENDS = {
    EventDetail.ALLOC_CANCEL: "released",
    EventDetail.ALLOC_PREEMPT: "preempted",
    EventDetail.ALLOC_TIMEOUT: "timed out",
    EventDetail.ALLOC_REPLACED: "replaced",
    EventDetail.ALLOC_NODEREMOVED: "node removed",
    EventDetail.REQUEST_CANCEL: "cancelled",
    EventDetail.REQUEST_TIMEOUT: "timed out",
}
"""Ends of asks and allocations."""

_RULES = {
    PreemptionRule.GUARANTEE: "a queue was below its guarantee",
    PreemptionRule.FAIR_SHARE: "a queue was below its fair share",
    PreemptionRule.REQUIRED_NODE: "the ask may go to no other node",
    PreemptionRule.QUOTA: "a queue had more than its maximum",
    PreemptionRule.DRAIN: "an operator drains its node",
}


async def timeline(request: web.Request) -> web.StreamResponse:
    """The latest asks of an application, each with its phases; `more` is the number of further asks."""
    asked, maker = Asked(request), Maker.of(request)
    found = Timeline(asked)
    await maker.all(found.steps())
    return await maker.send(request, found.answer())


class Timeline:
    """The rows of one application, the latest first."""

    def __init__(self, asked: Asked) -> None:
        """Find the application; raises NotFound."""
        self._sources: Sources = asked.sources
        self._partition = asked.partition
        self._name = asked.name("app")
        self._app: AppReport = asked.views.application(self._partition, self._name)
        self._victims: dict[str, PreemptionRecord] = {}
        # Ends of asks that never ran, kept until their submission is found in the log.
        self._ends: dict[str, tuple[float, str]] = {}
        self._rows: list[tuple[float, JsonObject]] = []
        self._count = 0

    def steps(self) -> Iterator[None]:
        """Collect the rows; the reader may pause at every step."""
        views, partition, app = self._sources.views, self._partition, self._name
        for victim in views.preemptions(partition, self._app.app_id):
            self._victims.setdefault(victim.key, victim)
            yield
        for report in views.asks(partition, app):
            if report is not None:
                self._add(report.ask, "", report.request_time, 0.0, None)
            yield
        for item in views.allocations(partition, app):
            if item is not None:
                allocation, stopping = item.allocation, item.stopping
                times = allocation.request_time, allocation.allocation_time
                self._add(allocation.ask, allocation.node_id, *times, None, why=stopping)
            yield
        with suppress(NotFound):
            log = self._sources.events.get(rm_of(partition))
            for number, fact in enumerate(log.latest_facts(), 1):
                if fact.time < self._app.submission_time or number > MAX_FACTS:
                    break
                self._take(fact)
                if not number % PART:
                    yield

    def _take(self, fact: Fact) -> None:
        """Add the row of an ask, if the fact is its end."""
        app_id, finished = self._app.app_id, self._app.finished_time
        if finished and fact.time > finished + 1.0:
            return
        if isinstance(fact, Freed):
            of = fact.allocation
            if of.ask.app_id == app_id:
                times = of.request_time, of.allocation_time, fact.time
                self._add(of.ask, of.node_id, *times, end=_ENDS.get(fact.detail, ""))
        elif isinstance(fact, AskCame):
            ended = self._ends.pop(fact.ask.key, None) if fact.ask.app_id == app_id else None
            if ended is not None:
                self._add(fact.ask, "", fact.time, 0.0, ended[0], end=ended[1])
        elif isinstance(fact, EventRecord) and fact.object_id == app_id:
            is_end = fact.detail in (EventDetail.REQUEST_CANCEL, EventDetail.REQUEST_TIMEOUT)
            if is_end and len(self._ends) < MAX_ROWS:
                self._ends[fact.reference_id] = fact.time, _ENDS[fact.detail]

    def _add(
        self,
        ask: Ask,
        node: str,
        requested: float,
        allocated: float,
        ended: float | None,
        *,
        end: str = "",
        why: str = "",
    ) -> None:
        """Add a row, with times in unix seconds: 0.0 for `allocated` and None for `ended` mean not yet."""
        victim = self._victims.get(ask.key) if allocated else None
        if victim is not None and not allocated <= victim.time <= (ended or victim.time):
            victim = None  # an earlier allocation of the same key
        stopped = None if victim is None else victim.time
        queue = None if victim is None else victim.beneficiary_queue
        self._count += 1
        row: JsonObject = {
            "key": ask.key,
            "taskGroup": ask.task_group,
            "placeholder": ask.placeholder,
            "resources": dict(ask.ask_class.resources),
            "node": node,
            "phases": _phases(requested, allocated, stopped, ended),
            "end": end,
            "why": why if victim is None else _RULES[victim.rule],
            "forApplication": "" if victim is None else victim.beneficiary_app_id,
            "forQueue": "" if queue is None else queue.path,
        }
        self._rows.append((requested, row))
        if len(self._rows) >= 2 * MAX_ROWS:
            self._trim()

    def _trim(self) -> None:
        self._rows.sort(key=itemgetter(0), reverse=True)
        del self._rows[MAX_ROWS:]

    def answer(self) -> JsonObject:
        """The rows, the latest first, and the time that they span."""
        self._trim()
        rows = list(map(itemgetter(1), self._rows))
        begin = self._rows[-1][0] if self._rows else self._app.submission_time
        end = self._app.finished_time or self._sources.now()
        span: JsonObject = {"from": milliseconds(begin), "to": milliseconds(end)}
        return {**span, "more": self._count - len(rows), "rows": Rows(rows)}


def _phases(
    requested: float, allocated: float, stopped: float | None, ended: float | None
) -> list[JsonObject]:
    """The phases of an ask, each until the next one begins."""
    begins = [("waiting", requested)]
    if allocated:
        begins.append(("running", allocated))
    if stopped is not None:
        begins.append(("stopping", stopped))
    ends = [*(milliseconds(time) for _, time in begins[1:]), None if ended is None else milliseconds(ended)]
    return [
        {"kind": kind, "from": milliseconds(time), "to": end}
        for (kind, time), end in zip(begins, ends, strict=True)
    ]


SPARK_MINUTES = 60
"""Number of points of a sparkline, one for each minute."""


def _span(sources: Sources, track: Track, count: int, length: int) -> TrackSpan:
    """The last part of a track. Its last interval may be the current step, which has no sample yet."""
    present = max(sources.recorder.step, step_of(sources.now()) - 1)
    return TrackSpan(track, present, count, length)


async def history(request: web.Request) -> web.StreamResponse:
    """Samples of a `queue`, or of the partition without it; `span` is hour or day.

    The queue is recorded from this request on, unless it is recorded already.
    """
    asked, maker = Asked(request), Maker.of(request)
    sources, partition, path = asked.sources, asked.partition, text_in(request, "queue").lower()
    is_day = one_of(request, "span", ("hour", "day")) == "day"
    now = sources.now()
    track = await maker.once(lambda: sources.recorder.look(partition, path or ROOT, now, reader_of(request)))
    count, length = (MINUTES, STEPS_OF_MINUTE) if is_day else (STEPS, 1)
    span = _span(sources, track, count, length)
    resources = await maker.all(_resources(span, track))
    answer: JsonObject = {
        "now": milliseconds(now),
        "step": _milliseconds(length),
        "start": _at(span.first, span),
        "stopped": span.of(track.stopped),
        "applications": span.of(track.applications),
        "resources": _object(resources),
    }
    if not path and track.nodes is not None:
        answer["nodes"] = _object(await maker.all(_nodes(span, track)))
    answer["marks"] = await maker.once(lambda: _marks(sources, partition, span, track))
    return await maker.send(request, answer)


def _member(name: str, value: object) -> str:
    return f"{encode(name)}:{encode(value)}"


def _object(members: list[str]) -> Verbatim:
    """An object of members that are JSON already; very many values are sent in time slices."""
    return Verbatim(enclosed("{", members, "}"))


def _resources(span: TrackSpan, track: Track) -> Iterator[str]:
    """The samples of a track, resource by resource."""
    nothing = [None] * (span.last - span.first + 1)
    for name in track.resources():
        used, waiting = track.used.get(name), track.waiting.get(name)
        values = {
            "used": nothing if used is None else span.of(used),
            "waiting": nothing if waiting is None else span.of(waiting),
            "guaranteed": span.of_bounds(track.guaranteed, name),
            "max": span.of_bounds(track.max, name),
        }
        yield _member(name, values)


def _nodes(span: TrackSpan, track: Track) -> Iterator[str | None]:
    """The number of nodes, and the number in each tenth of use; null without a sample."""
    if track.nodes is not None:
        yield _member("count", span.of(track.nodes))
    tenths = []
    for line in track.fill:
        tenths.append(span.of(line))
        yield None
    rows = zip(*tenths, strict=True)
    yield _member("fill", [None if row[0] is None else row for row in rows])


def _marks(sources: Sources, partition: PartitionName, span: TrackSpan, track: Track) -> list[JsonObject]:
    """The marks of a span, the oldest first."""
    recorder, since = sources.recorder, span.first * span.length * STEP_SECONDS
    marks = recorder.marks.of(rm_of(partition), partition, since)
    if recorder.started >= since:
        marks.append(Mark(recorder.started, "restart", "server started"))
    rows = [
        {"time": milliseconds(mark.time), "kind": mark.kind, "text": mark.text, "count": 1} for mark in marks
    ]
    return sorted([*rows, *_preemptions(span, track)], key=itemgetter("time"))


def _preemptions(span: TrackSpan, track: Track) -> Iterator[JsonObject]:
    """Marks of victims, one for each series of consecutive steps with victims."""
    count = start = 0
    for place, stopped in enumerate([*span.of(track.stopped), 0], span.first):
        if stopped:
            start = start if count else place
            count += round(stopped)
        elif count:
            allocations = "1 allocation was" if count == 1 else f"{count} allocations were"
            text = f"{allocations} asked to stop"
            yield {"time": _at(start, span), "kind": "preemption", "text": text, "count": count}
            count = 0


def _at(place: int, span: TrackSpan) -> int:
    return place * _milliseconds(span.length)


def _milliseconds(length: int) -> int:
    return length * STEP_SECONDS * 1000


async def sparks(request: web.Request) -> web.StreamResponse:
    """The usage and the waiting amounts of a `resource` in the last hour, for all recorded queues."""
    asked, maker = Asked(request), Maker.of(request)
    sources, resource = asked.sources, text_in(request, "resource") or "vcore"
    last = max(sources.recorder.step, step_of(sources.now()) - 1) // STEPS_OF_MINUTE
    tracks = sources.recorder.of_partition(asked.partition)

    def queues() -> Iterator[str | None]:
        for path, track in tracks:
            span = _span(sources, track, SPARK_MINUTES, STEPS_OF_MINUTE)
            before = [None] * (SPARK_MINUTES - (span.last - span.first + 1))
            used, waiting = track.used.get(resource), track.waiting.get(resource)
            if used is not None or waiting is not None:
                nothing = [None] * SPARK_MINUTES
                values = {
                    "used": nothing if used is None else [*before, *span.of(used)],
                    "waiting": nothing if waiting is None else [*before, *span.of(waiting)],
                }
                yield _member(path, values)
            yield None

    found = await maker.all(queues())
    start = (last - SPARK_MINUTES + 1) * _milliseconds(STEPS_OF_MINUTE)
    answer: JsonObject = {"start": start, "step": _milliseconds(STEPS_OF_MINUTE), "queues": _object(found)}
    return await maker.send(request, answer)


async def standing(request: web.Request) -> web.StreamResponse:
    """The recorded positions of the ask `key` in its queue. They are recorded from this request on."""
    asked, maker = Asked(request), Maker.of(request)
    name = AskName(asked.partition, AppId(asked.name("app")), AllocationKey(asked.query("key")))
    await maker.once(lambda: asked.views.application(name.partition, name.app_id))
    places = asked.sources.recorder.places.look(name, asked.sources.now(), reader_of(request))
    answer: JsonObject = {
        "times": [milliseconds(place.time) for place in places],
        "asksAhead": [place.asks for place in places],
        "applicationsAhead": [place.applications for place in places],
        "codes": [place.code for place in places],
    }
    return await send_json(request, {**answer, "refresh": maker.refresh})


_PARTITION = API + "/partition/{partition:[^/]+}"
ROUTES = [
    web.get(_PARTITION + "/history", history),
    web.get(_PARTITION + "/sparks", sparks),
    web.get(_PARTITION + "/application/{app:[^/]+}/standing", standing),
    web.get(_PARTITION + "/application/{app:[^/]+}/timeline", timeline),
]
"""All paths."""
