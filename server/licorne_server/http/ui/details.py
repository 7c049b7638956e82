"""Details of one thing for the page, and the heat map of all nodes.

Also here:

* Heat map of all nodes of a partition, made once for all viewers.
"""

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import NamedTuple

from aiohttp import web
from google.protobuf.json_format import MessageToDict

from licorne_core.messages.reports import Explanation
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import NodeId, PartitionName, rm_of
from licorne_core.values.resources import Resources
from licorne_core.views import Views
from licorne_core.views.partitions import RmReport
from licorne_server.fair import TimeSlices
from licorne_server.http import json_apps, json_cluster
from licorne_server.http.sources import Sources
from licorne_server.http.stream import (
    JsonObject,
    Together,
    object_of,
    send_bytes,
    send_json,
    slice_for,
    text_of,
)
from licorne_server.http.ui.feed import PEER
from licorne_server.http.ui.pages import API, Found, Maker
from licorne_server.http.ui.rows import application_detail, heat_row, preemption_row, usage_detail
from licorne_server.http.units import partition_named
from licorne_server.services.reports import explain_message

MAX_HEATS = 16
"""Partitions with a cached heat map, at most."""

MAX_RESOURCES = 8
"""Resources that a heat map shows at most."""

FIRST = ("vcore", "memory")
"""Resources that come before the others."""

_encode = json.JSONEncoder(separators=(",", ":")).encode


class _Heat(NamedTuple):
    """A heat map as JSON, and until when it is fresh."""

    body: bytes
    until: float


class Heats:
    """The heat maps of partitions, each cached for a time by its cost (`Maker.refresh`)."""

    def __init__(self, views: Views, time_slices: TimeSlices) -> None:
        """Make heat maps of these partitions, in time slices."""
        self._views = views
        self._time_slices = time_slices
        self._together = Together[_Heat]()
        self._made: OrderedDict[PartitionName, _Heat] = OrderedDict()

    async def of(self, partition: PartitionName) -> bytes:
        """The heat map of a partition; it is made unless there is a fresh one.

        It takes slices of its own, so that its first caller delays no other.
        """
        made = self._made.get(partition)
        if made is None or made.until <= monotonic():
            made = await self._together.make(partition, partial(self._make, partition))
            self._made[partition] = made
            self._made.move_to_end(partition)
            while len(self._made) > MAX_HEATS:
                self._made.popitem(last=False)
        return made.body

    async def _make(self, partition: PartitionName) -> _Heat:
        maker = Maker(self._time_slices, f"{PEER} of {rm_of(partition)}")
        capacity = await maker.once(lambda: self._views.partition(partition).capacity)
        names = self._views.node_ids_in_order(partition)
        resources = _shown(capacity)
        cells = _Cells(self._views, partition, names, resources)
        await maker.all(cells.go_on)
        head = _encode({"resources": resources, "refresh": maker.refresh})[:-1]
        body = f'{head},"nodes":[{",".join(cells.texts)}]}}'
        return _Heat(body.encode(errors="replace"), monotonic() + maker.refresh / 1000)


class _Cells:
    """The cells of a map as JSON, made node by node."""

    def __init__(
        self,
        views: Views,
        partition: PartitionName,
        names: Iterable[NodeId | None],
        resources: tuple[str, ...],
    ) -> None:
        """Start without a heat map."""
        self.texts: list[str] = []
        self._views = views
        self._partition = partition
        self._names = iter(names)
        self._resources = resources

    def go_on(self, over: Callable[[], bool]) -> bool:
        """Make cells until the slice is over; returns True if there are more."""
        for name in self._names:
            if name is not None:
                with suppress(NotFound):
                    node = self._views.node(self._partition, name)
                    self.texts.append(_encode(heat_row(node, self._resources)))
            if over():
                return True
        return False


def _shown(capacity: Resources) -> tuple[str, ...]:
    """The resources that are shown of a partition."""
    first = [name for name in FIRST if name in capacity]
    return (*first, *sorted(capacity.keys() - set(first)))[:MAX_RESOURCES]


class DetailReads:
    """One method for each path that shows one thing."""

    def __init__(self, sources: Sources) -> None:
        """Read from these sources."""
        self._views: Views = sources.views
        self._heats = Heats(sources.views, sources.time_slices)

    def routes(self) -> list[web.RouteDef]:
        """All paths."""
        partition = API + "/partition/{partition:[^/]+}"
        return [
            web.get(partition + "/queue/{queue:[^/]+}", self.queue),
            web.get(partition + "/application/{app:[^/]+}", self.application),
            web.get(partition + "/application/{app:[^/]+}/explain", self.explain),
            web.get(partition + "/node/{node:[^/]+}", self.node),
            web.get(partition + "/heat", self.heat),
            web.get(partition + "/usage/{kind:user|group}/{name:[^/]+}", self.usage),
            web.get(API + "/config", self.config),
        ]

    async def queue(self, request: web.Request) -> web.StreamResponse:
        """One queue in its REST form."""
        partition, path = self._partition(request), request.match_info["queue"]
        maker = Maker.of(request)
        shown = await maker.once(partial(json_cluster.single_queue, self._views, partition, path))
        return await send_json(request, {**shown, "refresh": maker.refresh})

    async def application(self, request: web.Request) -> web.StreamResponse:
        """One application with all but its asks and allocations."""
        partition, app = self._partition(request), request.match_info["app"]
        maker = Maker.of(request)
        report = await maker.once(lambda: self._views.application(partition, app))
        detail = application_detail(app, report, self._views.reservations_of(partition, app))
        return await send_json(request, {**detail, "refresh": maker.refresh})

    async def explain(self, request: web.Request) -> web.StreamResponse:
        """Explanation of an ask: `State.Explain` under its JSON names; `key` names the ask."""
        partition, app = self._partition(request), request.match_info["app"]
        key = request.query.get("key", "")
        maker = Maker.of(request)

        def row(report: Explanation) -> JsonObject:
            record = self._views.preemption(partition, report.app_id, report.key)
            message = explain_message(report)
            shown = MessageToDict(message, always_print_fields_with_no_presence=True)
            if report.is_victim and record is not None:
                shown["victim"] = preemption_row(record)
            return {**shown, "node": report.node_id}

        found = Found(self._views.explain(partition, app, key), row, 1)
        await maker.all(found.go_on)
        (shown,) = found.rows
        return await send_json(request, {**shown, "refresh": maker.refresh})

    async def node(self, request: web.Request) -> web.StreamResponse:
        """One node in its REST form, with its allocations."""
        partition, node = self._partition(request), request.match_info["node"]
        maker = Maker.of(request)
        shown = await maker.once(partial(json_apps.single_node, self._views, partition, node))
        return await send_json(request, {**shown, "refresh": maker.refresh})

    async def usage(self, request: web.Request) -> web.StreamResponse:
        """One user or group, queue by queue."""
        partition, kind = self._partition(request), request.match_info["kind"]
        name = request.match_info["name"]
        maker = Maker.of(request)
        found = Found(self._views.usage(partition, kind, name), usage_detail, 1)
        await maker.all(found.go_on)
        (shown,) = found.rows
        return await send_json(request, {**shown, "refresh": maker.refresh})

    async def heat(self, request: web.Request) -> web.StreamResponse:
        """All nodes in short form. All viewers get the same answer for as long as it is fresh."""
        body = await self._heats.of(self._partition(request))
        return await send_bytes(request, "application/json; charset=utf-8", body)

    async def config(self, request: web.Request) -> web.StreamResponse:
        """The running configuration of an RM as it was submitted, with comments and all."""
        async with slice_for(request):
            rm: RmReport = self._views.rm(request.query.get("rm", ""))
        extra, text = object_of(rm.extra_config.items()), text_of(rm.config)
        answer: JsonObject = {"rm": rm.rm_id, "checksum": rm.checksum, "extra": extra, "text": text}
        return await send_json(request, answer)

    def _partition(self, request: web.Request) -> PartitionName:
        return partition_named(self._views, request.match_info["partition"])
