"""Details of one thing for the page, and the heat map of all nodes of a partition."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from time import monotonic

from aiohttp import web
from google.protobuf.json_format import MessageToDict

from licorne_core.values.errors import NotFound
from licorne_core.values.ids import NodeId, PartitionName, rm_of
from licorne_core.values.resources import Resources
from licorne_core.views import Views
from licorne_server.http import json_apps, json_cluster
from licorne_server.http.identity import visible_to
from licorne_server.http.sources import Sources
from licorne_server.http.stream import (
    JsonObject,
    Together,
    encode,
    object_of,
    send_bytes,
    send_json,
    slice_for,
    text_of,
)
from licorne_server.http.ui.feed import PEER
from licorne_server.http.ui.pages import API, Maker
from licorne_server.http.ui.rows import application_detail, heat_row, preemption_row, usage_detail
from licorne_server.http.units import Asked, drain_json, mark_json, milliseconds
from licorne_server.process.fair import TimeSlices
from licorne_server.services.reports import explain_message

MAX_RESOURCES = 8
"""Most resources that a heat map shows."""

FIRST = ("vcore", "memory")
"""Resources that are shown first."""


class Heats:
    """The heat maps of partitions, each cached for a time by its cost (`Maker.refresh`)."""

    def __init__(self, views: Views, time_slices: TimeSlices) -> None:
        """Make heat maps of these partitions, in time slices."""
        self._views = views
        self._time_slices = time_slices
        self._together = Together[bytes]()

    async def of(self, partition: PartitionName) -> bytes:
        """The heat map of a partition, made unless there is a fresh one.

        The slices are of a peer of its own, so that the first caller delays no other.
        """
        return await self._together.get(partition, partial(self._make, partition))

    async def _make(self, partition: PartitionName) -> tuple[bytes, float]:
        maker = Maker(self._time_slices, f"{PEER} of {rm_of(partition)}")
        capacity = await maker.once(lambda: self._views.partition(partition).capacity)
        names = self._views.node_ids_in_order(partition)
        resources = _shown(capacity)
        cells = await maker.all(_cells(self._views, partition, names, resources))
        head = encode({"resources": resources, "refresh": maker.refresh})[:-1]
        body = f'{head},"nodes":[{",".join(cells)}]}}'
        return body.encode(errors="replace"), monotonic() + maker.refresh / 1000


def _cells(
    views: Views, partition: PartitionName, names: Iterable[NodeId | None], resources: tuple[str, ...]
) -> Iterator[str | None]:
    """The cells of a map as JSON, made node by node."""
    for name in names:
        cell = None
        if name is not None:
            with suppress(NotFound):
                cell = encode(heat_row(views.node(partition, name), resources))
        yield cell


def _shown(capacity: Resources) -> tuple[str, ...]:
    """The resources that are shown of a partition."""
    first = [name for name in FIRST if name in capacity]
    return (*first, *sorted(capacity.keys() - set(first)))[:MAX_RESOURCES]


def node_detail(views: Views, partition: PartitionName, name: str) -> JsonObject:
    """A node in its REST form, but with the times of operators in milliseconds."""
    node = views.node(partition, name)
    marks = {
        "cordon": mark_json(node.cordon, milliseconds),
        "drain": drain_json(node.drain, milliseconds),
    }
    return {**json_apps.single_node(views, partition, name), **marks}


def queue_detail(views: Views, partition: PartitionName, path: str) -> JsonObject:
    """A queue in its REST form, but with the time of the operator that stopped it in milliseconds."""
    stop = mark_json(views.queue(partition, path).stop, milliseconds)
    return {**json_cluster.single_queue(views, partition, path), "stop": stop}


def in_rest_form(
    form: Callable[[Views, PartitionName, str], JsonObject], part: str
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """The handler for one thing in its REST form; `part` of the path is its name."""

    async def handler(request: web.Request) -> web.StreamResponse:
        asked, maker = Asked(request), Maker.of(request)
        shown = await maker.once(partial(form, asked.views, asked.partition, asked.name(part)))
        return await maker.send(request, shown)

    return handler


async def application(request: web.Request) -> web.StreamResponse:
    """One application without its asks and allocations."""
    asked, maker = Asked(request), Maker.of(request)
    views, partition, app = asked.views, asked.partition, asked.name("app")
    report = await maker.once(lambda: views.application(partition, app))
    obstacle = await maker.once(lambda: views.first_obstacle(partition, app))
    detail = application_detail(app, report, obstacle, views.reservations_of(partition, app))
    return await maker.send(request, detail)


async def explain(request: web.Request) -> web.StreamResponse:
    """Explanation of an ask: `State.Explain` under its JSON names; `key` names the ask."""
    asked, maker = Asked(request), Maker.of(request)
    views, partition = asked.views, asked.partition
    [report] = await maker.all(views.explain(partition, asked.name("app"), asked.query("key")))
    message = explain_message(report, visible_to(request))
    shown = MessageToDict(message, always_print_fields_with_no_presence=True)
    record = views.preemption(partition, report.app_id, report.key)
    if report.is_victim and record is not None:
        shown["victim"] = preemption_row(record)
    return await maker.send(request, {**shown, "node": report.node_id})


async def usage(request: web.Request) -> web.StreamResponse:
    """One user or group, queue by queue."""
    asked, maker = Asked(request), Maker.of(request)
    steps = asked.views.usage(asked.partition, asked.name("kind"), asked.name("name"))
    [report] = await maker.all(steps)
    return await maker.send(request, usage_detail(report))


async def heat(heats: Heats, request: web.Request) -> web.StreamResponse:
    """All nodes in short form. All viewers get the same answer while it is fresh."""
    body = await heats.of(Asked(request).partition)
    return await send_bytes(request, "application/json; charset=utf-8", body)


async def config(request: web.Request) -> web.StreamResponse:
    """The running configuration of an RM as it was submitted, with comments."""
    asked = Asked(request)
    async with slice_for(request):
        rm = asked.views.rm(asked.query("rm"))
    extra, text = object_of(rm.extra_config.items()), text_of(rm.config)
    answer: JsonObject = {"rm": rm.rm_id, "checksum": rm.checksum, "extra": extra, "text": text}
    return await send_json(request, answer)


def routes(sources: Sources) -> list[web.RouteDef]:
    """All paths."""
    partition = API + "/partition/{partition:[^/]+}"
    return [
        web.get(partition + "/queue/{queue:[^/]+}", in_rest_form(queue_detail, "queue")),
        web.get(partition + "/application/{app:[^/]+}", application),
        web.get(partition + "/application/{app:[^/]+}/explain", explain),
        web.get(partition + "/node/{node:[^/]+}", in_rest_form(node_detail, "node")),
        web.get(partition + "/heat", partial(heat, Heats(sources.views, sources.time_slices))),
        web.get(partition + "/usage/{kind:user|group}/{name:[^/]+}", usage),
        web.get(API + "/config", config),
    ]
