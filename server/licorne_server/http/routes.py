"""The REST reads under ``/ws/v1`` (spec § 12.4): paths, their parameters, and their answers."""

import asyncio
from functools import partial

from aiohttp import web

from licorne_core.model.apps.states import AppState
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import PartitionName
from licorne_core.values.names import is_queue_name
from licorne_core.views import Views
from licorne_core.views.partitions import RmReport
from licorne_server.configurations.thread import VALIDATION, Origin
from licorne_server.http import json_apps, json_cluster, json_config, json_preemptions
from licorne_server.http.sources import Sources
from licorne_server.http.stream import reader_of, send_bytes, send_json, slice_for
from licorne_server.http.units import partition_named

APP_STATES = ("active", "rejected", "completed")
_STATUSES = frozenset(state.value.lower() for state in AppState)
BODY_SECONDS = 15.0
"""Seconds that a request's body may take to arrive."""


class Reads:
    """One method for each path. Every answer is made from the core as it is then."""

    def __init__(self, sources: Sources) -> None:
        """Read from these sources."""
        self._views: Views = sources.views
        self._started_time = sources.started_time
        self._thread = sources.config_thread

    def routes(self) -> list[web.RouteDef]:
        """All paths; those of GET answer HEAD as well."""
        partition = "/ws/v1/partition/{partition:[^/]+}"
        queue = partition + "/queue/{queue:[^/]+}"
        return [
            web.get("/ws/v1/clusters", self.clusters),
            web.get("/ws/v1/config", self.config),
            web.post("/ws/v1/validate-conf", self.validate),
            web.get("/ws/v1/partitions", self.partitions),
            web.get(partition + "/placementrules", self.placement_rules),
            web.get(partition + "/queues", self.queues),
            web.get(queue, self.queue),
            web.get(partition + "/preemptions", self.preemptions),
            web.get(partition + "/nodes", self.nodes),
            web.get(partition + "/node/{node:[^/]+}", self.node),
            web.get(queue + "/applications", self.queue_applications),
            web.get(queue + "/applications/{state:[^/]+}", self.queue_applications),
            web.get(queue + "/application/{app:[^/]+}", self.application),
            web.get(partition + "/applications/{state:[^/]+}", self.applications),
            web.get(partition + "/application/{app:[^/]+}", self.application),
        ]

    async def clusters(self, request: web.Request) -> web.StreamResponse:
        """The RMs, an entry for each partition."""
        views = self._views
        async with slice_for(request):
            shown = json_cluster.clusters(views, self._started_time, views.partition_names())
        return await send_json(request, shown)

    async def partitions(self, request: web.Request) -> web.StreamResponse:
        """All partitions of all RMs."""
        async with slice_for(request):
            shown = json_cluster.partitions(self._views, self._views.partition_names())
        return await send_json(request, shown)

    async def config(self, request: web.Request) -> web.StreamResponse:
        """The running configuration of the RM that registered first, or of `rm`."""
        rm = self._rm(request.query.get("rm", ""))
        origin = Origin(reader_of(request))
        if "application/json" in request.headers.get("Accept", ""):
            shown = await self._thread.run(origin, partial(json_config.config_json, rm))
            return await send_bytes(request, "application/json; charset=utf-8", shown.encode())
        text = await self._thread.run(origin, partial(json_config.config_yaml, rm))
        return await send_bytes(request, "application/x-yaml; charset=utf-8", text.encode())

    async def validate(self, request: web.Request) -> web.StreamResponse:
        """Check the configuration in the body; nothing is changed (spec § 13.2)."""
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await request.read()
        except TimeoutError as error:
            text = f"the request's body took longer than {BODY_SECONDS:g} s"
            raise web.HTTPRequestTimeout(text=text) from error
        origin = Origin(reader_of(request), VALIDATION)
        verdict = await self._thread.run(origin, partial(json_config.validation, body), len(body))
        return await send_json(request, verdict)

    async def placement_rules(self, request: web.Request) -> web.StreamResponse:
        """The placement rules in force."""
        partition = self._partition(request)
        async with slice_for(request):
            report = self._views.placement(partition)
        return await send_json(request, json_cluster.placement_rules(report))

    async def queues(self, request: web.Request) -> web.StreamResponse:
        """The whole tree of queues."""
        partition = self._partition(request)
        async with slice_for(request):
            tree = json_cluster.queue_tree(self._views, partition, "root")
        return await send_json(request, tree)

    async def queue(self, request: web.Request) -> web.StreamResponse:
        """One queue, with all below it where `subtree` is in the query."""
        shape = json_cluster.queue_tree if "subtree" in request.query else json_cluster.single_queue
        partition, path = self._queue(request)
        async with slice_for(request):
            shown = shape(self._views, partition, path)
        return await send_json(request, shown)

    async def preemptions(self, request: web.Request) -> web.StreamResponse:
        """Preemption victims, the latest first; of one application or key where that is given."""
        partition = self._partition(request)
        app_id = request.query.get("applicationID", "")
        key = request.query.get("allocationKey", "")
        async with slice_for(request):
            rows = json_preemptions.preemptions(self._views, partition, app_id, key)
        return await send_json(request, rows)

    async def nodes(self, request: web.Request) -> web.StreamResponse:
        """All nodes with their allocations."""
        partition = self._partition(request)
        async with slice_for(request):
            rows = json_apps.nodes(self._views, partition)
        return await send_json(request, rows)

    async def node(self, request: web.Request) -> web.StreamResponse:
        """One node."""
        partition, node = self._partition(request), request.match_info["node"]
        async with slice_for(request):
            shown = json_apps.single_node(self._views, partition, node)
        return await send_json(request, shown)

    async def queue_applications(self, request: web.Request) -> web.StreamResponse:
        """The applications of a leaf; the active ones where the path names no state."""
        partition, queue = self._queue(request)
        return await self._applications(request, partition, queue)

    async def applications(self, request: web.Request) -> web.StreamResponse:
        """The applications of a partition."""
        return await self._applications(request, self._partition(request), "")

    async def _applications(
        self, request: web.Request, partition: PartitionName, queue: str
    ) -> web.StreamResponse:
        state = request.match_info.get("state", "active").lower()
        status = request.query.get("status", "").lower()
        if state not in APP_STATES:
            raise web.HTTPBadRequest(text=f"application state {state!r} is none of {', '.join(APP_STATES)}")
        if status and status not in _STATUSES:
            raise web.HTTPBadRequest(text=f"status {status!r} is none of {', '.join(sorted(_STATUSES))}")
        async with slice_for(request):
            rows = json_apps.applications(self._views, partition, queue=queue, state=state, status=status)
        return await send_json(request, rows)

    async def application(self, request: web.Request) -> web.StreamResponse:
        """One application, of a partition or of one of its queues."""
        partition = self._partition(request)
        queue = self._queue(request)[1] if "queue" in request.match_info else ""
        name = request.match_info["app"]
        async with slice_for(request):
            if queue:
                self._views.queue(partition, queue)
            report = self._views.application(partition, name)
            if queue and report.queue != queue:
                raise NotFound(f"application {report.app_id} is not in queue {queue}")
            shown = json_apps.application_json(self._views, name, report)
        return await send_json(request, shown)

    def _partition(self, request: web.Request) -> PartitionName:
        """The partition that a path means.

        A handler asks before it waits for anything. Then it is the same partition of which
        `Identity` has just found that the caller may see it.
        """
        return partition_named(self._views, request.match_info["partition"])

    def _queue(self, request: web.Request) -> tuple[PartitionName, str]:
        """The partition and the path of a queue, which need not exist; case does not matter.

        Raises:
            HTTPBadRequest: the path holds an invalid name.
        """
        partition = self._partition(request)
        path = request.match_info["queue"].lower()
        for name in path.split("."):
            if not is_queue_name(name):
                raise web.HTTPBadRequest(text=f"queue path {path!r} has the invalid name {name!r}")
        return partition, path

    def _rm(self, rm_id: str) -> RmReport:
        if rm_id:
            return self._views.rm(rm_id)
        rms = self._views.rms()
        if not rms:
            raise NotFound("no RM is registered, so no configuration is running")
        return rms[0]
