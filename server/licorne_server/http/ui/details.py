"""Details of one thing for the page, and the heat map of all nodes."""

from functools import partial

from aiohttp import web
from google.protobuf.json_format import MessageToDict

from licorne_core.messages.reports import Explanation
from licorne_core.values.ids import PartitionName
from licorne_core.views import Views
from licorne_core.views.partitions import RmReport
from licorne_server.http import json_nodes, json_queues
from licorne_server.http.sources import Sources
from licorne_server.http.stream import (
    JsonObject,
    object_of,
    send_bytes,
    send_json,
    slice_for,
    text_of,
)
from licorne_server.http.ui.heat import Heats
from licorne_server.http.ui.pages import Found, Maker
from licorne_server.http.ui.paths import API
from licorne_server.http.ui.rows import application_detail, preemption_row, usage_detail
from licorne_server.http.units import partition_named
from licorne_server.services.reports import explain_message


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
        shown = await maker.once(partial(json_queues.single_queue, self._views, partition, path))
        return await send_json(request, {**shown, "refresh": maker.refresh})

    async def application(self, request: web.Request) -> web.StreamResponse:
        """One application with all but its asks and allocations."""
        partition, app = self._partition(request), request.match_info["app"]
        maker = Maker.of(request)
        report = await maker.once(lambda: self._views.application(partition, app, detail=False))
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
        shown = await maker.once(partial(json_nodes.single_node, self._views, partition, node))
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
