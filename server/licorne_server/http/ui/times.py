"""The history of a partition and its queues, and of the positions of asks, for the page."""

from collections.abc import Iterator
from operator import itemgetter

from aiohttp import web

from licorne_core.values.ids import AllocationKey, AppId, PartitionName, rm_of
from licorne_server.http.pages import API, Maker, one_of, text_in
from licorne_server.http.stream import JsonObject, Verbatim, enclosed, encode, reader_of, send_json
from licorne_server.http.ui.timeline import timeline
from licorne_server.http.units import Asked, milliseconds
from licorne_server.reads.history.lines import MINUTES, STEP_SECONDS, STEPS, STEPS_OF_MINUTE
from licorne_server.reads.history.marks import Mark
from licorne_server.reads.history.places import AskName
from licorne_server.reads.history.recorder import ROOT, step_of
from licorne_server.reads.history.tracks import Span, Track
from licorne_server.reads.sources import Sources

SPARK_MINUTES = 60
"""Points of a sparkline, each of a minute."""


def _span(sources: Sources, track: Track, count: int, length: int) -> Span:
    """The last part of a track. Its last interval may be the present step, which has no sample yet."""
    present = max(sources.recorder.step, step_of(sources.now()) - 1)
    return Span(track, present, count, length)


async def history(request: web.Request) -> web.StreamResponse:
    """Samples of a `queue`, or of the partition without it; `span` is hour or day.

    From this request on the queue is recorded, if it was not before.
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


def _resources(span: Span, track: Track) -> Iterator[str]:
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


def _nodes(span: Span, track: Track) -> Iterator[str | None]:
    """The number of nodes, and numbers by tenths of use; null without a sample."""
    if track.nodes is not None:
        yield _member("count", span.of(track.nodes))
    tenths = []
    for line in track.fill:
        tenths.append(span.of(line))
        yield None
    rows = zip(*tenths, strict=True)
    yield _member("fill", [None if row[0] is None else row for row in rows])


def _marks(sources: Sources, partition: PartitionName, span: Span, track: Track) -> list[JsonObject]:
    """The marks of a span, the oldest first."""
    recorder, since = sources.recorder, span.first * span.length * STEP_SECONDS
    marks = recorder.marks.of(rm_of(partition), partition, since)
    if recorder.started >= since:
        marks.append(Mark(recorder.started, "restart", "server started"))
    rows = [
        {"time": milliseconds(mark.time), "kind": mark.kind, "text": mark.text, "count": 1} for mark in marks
    ]
    return sorted([*rows, *_preemptions(span, track)], key=itemgetter("time"))


def _preemptions(span: Span, track: Track) -> Iterator[JsonObject]:
    """A mark for the victims of consecutive steps."""
    count = start = 0
    for place, stopped in enumerate([*span.of(track.stopped), 0], span.first):
        if stopped:
            start = start if count else place
            count += round(stopped)
        elif count:
            allocations = "1 allocation was" if count == 1 else f"{count} allocations were"
            text = f"{allocations} told to stop"
            yield {"time": _at(start, span), "kind": "preemption", "text": text, "count": count}
            count = 0


def _at(place: int, span: Span) -> int:
    return place * _milliseconds(span.length)


def _milliseconds(length: int) -> int:
    return length * STEP_SECONDS * 1000


async def sparks(request: web.Request) -> web.StreamResponse:
    """Usage and waiting amounts of a `resource` in the last hour, of all recorded queues."""
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
    """The recorded positions of the ask `key` in its queue. It is followed from this request on."""
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
