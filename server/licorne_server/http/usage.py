"""Usage in REST: of users and groups, of nodes, and the history of the last day (spec § 12.4)."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from aiohttp import web

from licorne_core.values.errors import NotFound
from licorne_core.values.ids import NodeId, PartitionName, rm_of
from licorne_core.views import Views
from licorne_core.views.queues import QueueUsage, UsageReport
from licorne_server.http.sources import Sources
from licorne_server.http.stream import (
    JsonObject,
    Rows,
    Verbatim,
    array_of,
    fragments,
    made,
    object_of,
    send_json,
    slice_for,
)
from licorne_server.http.units import USAGE_RANGES, partition_named, rest_form, rest_name, usage_ranges
from licorne_server.services.history import Sample
from licorne_server.wire.responses import nanoseconds

_Show = Callable[[UsageReport], JsonObject]


class UsageReads:
    """The four paths below ``usage``."""

    def __init__(self, sources: Sources) -> None:
        """Read from these sources."""
        self._views: Views = sources.views

    def routes(self) -> list[web.RouteDef]:
        """All users or groups, and each by its name."""
        usage = "/ws/v1/partition/{partition:[^/]+}/usage"
        return [
            web.get(usage + "/users", self.users),
            web.get(usage + "/user/{name:[^/]+}", self.user),
            web.get(usage + "/groups", self.groups),
            web.get(usage + "/group/{name:[^/]+}", self.group),
        ]

    async def users(self, request: web.Request) -> web.StreamResponse:
        """Every user that has an application."""
        return await self._all(request, "user", _user)

    async def user(self, request: web.Request) -> web.StreamResponse:
        """One user."""
        return await self._one(request, "user", _user)

    async def groups(self, request: web.Request) -> web.StreamResponse:
        """Every group that an application counts for."""
        return await self._all(request, "group", _group)

    async def group(self, request: web.Request) -> web.StreamResponse:
        """One group."""
        return await self._one(request, "group", _group)

    async def _all(self, request: web.Request, kind: str, show: _Show) -> web.StreamResponse:
        partition = partition_named(self._views, request.match_info["partition"])

        def row(report: UsageReport | None) -> JsonObject | None:
            return None if report is None else show(report)

        async with slice_for(request):
            names = self._views.usage_names_in_order(partition, kind)
        return await send_json(request, Rows(self._views.usages(partition, kind, names), row))

    async def _one(self, request: web.Request, kind: str, show: _Show) -> web.StreamResponse:
        partition = partition_named(self._views, request.match_info["partition"])
        steps = self._views.usage(partition, kind, request.match_info["name"])
        return await send_json(request, made(steps, show))


def _user(report: UsageReport) -> JsonObject:
    return {
        "userName": report.name,
        "groups": object_of((app_id, group) for app_id, group in report.groups.items() if group),
        "queues": Verbatim(fragments(_queue(report.queues))),
    }


def _group(report: UsageReport) -> JsonObject:
    return {
        "groupName": report.name,
        "applications": array_of(report.groups),
        "queues": Verbatim(fragments(_queue(report.queues))),
    }


def _queue(usage: QueueUsage) -> JsonObject:
    return {**_usage(usage), "children": Rows(usage.children, _queue)}


_usage = rest_form(
    QueueUsage,
    {
        "queuePath": "path",
        "resourceUsage": "allocated",
        "runningApplications": ("applications", array_of),
        "maxResources": "max",
    },
    without="children",
)


class DashboardReads:
    """The history of the last day, and how full the nodes are."""

    def __init__(self, sources: Sources) -> None:
        """Read from these sources."""
        self._views: Views = sources.views
        self._history = sources.history

    def routes(self) -> list[web.RouteDef]:
        """All paths."""
        return [
            web.get("/ws/v1/history/apps", self.applications),
            web.get("/ws/v1/history/containers", self.containers),
            web.get("/ws/v1/scheduler/node-utilizations", self.utilizations),
        ]

    async def applications(self, request: web.Request) -> web.StreamResponse:
        """Number of running applications, minute by minute."""
        return await send_json(request, history_of_applications(self._history))

    async def containers(self, request: web.Request) -> web.StreamResponse:
        """Number of allocations, minute by minute."""
        return await send_json(request, history_of_containers(self._history))

    async def utilizations(self, request: web.Request) -> web.StreamResponse:
        """The nodes of each partition by how much of each resource is used."""
        async with slice_for(request):
            rows = node_utilizations(self._views)
        return await send_json(request, rows)


def history_of_applications(history: Iterable[Sample]) -> Rows:
    """The samples of applications that were running."""
    return Rows(list(history), _applications_json)


def history_of_containers(history: Iterable[Sample]) -> Rows:
    """The samples of allocations that there were."""
    return Rows(list(history), _containers_json)


def _applications_json(sample: Sample) -> JsonObject:
    """A sample; the count is a text, as in the older core."""
    return {
        "timestamp": nanoseconds(sample.time),
        "totalApplications": str(sample.applications),
    }


def _containers_json(sample: Sample) -> JsonObject:
    return {"timestamp": nanoseconds(sample.time), "totalContainers": str(sample.allocations)}


def node_utilizations(views: Views) -> Rows:
    """An entry for each partition; its nodes are read one by one."""
    return Rows(views.partition_names(), partial(_utilizations_json, views))


def _utilizations_json(views: Views, partition: PartitionName) -> JsonObject:
    return {
        "clusterId": rm_of(partition),
        "partition": rest_name(views, partition),
        "utilizations": Rows(
            _by_resource(views, partition, views.node_ids_in_order(partition)), lambda row: row
        ),
    }


def _by_resource(
    views: Views, partition: PartitionName, ids: Iterable[NodeId | None]
) -> Iterator[JsonObject | None]:
    """A row for each type of resource. Before that a None for each node, so that slices can end."""
    ranges: dict[str, list[list[str]]] = {}
    for node_id in ids:
        yield None
        if node_id is None:
            continue
        try:
            node = views.node(partition, node_id)
        except NotFound:
            continue
        for name, position in usage_ranges(node):
            ranges.setdefault(name, [[] for _ in range(USAGE_RANGES)])[position].append(node_id)
    width = 100 // USAGE_RANGES
    for name, nodes in sorted(ranges.items()):
        yield {
            "type": name,
            "utilization": [
                {
                    "bucketName": f"{width * place}-{width * (place + 1)}%",
                    "numOfNodes": len(names),
                    "nodeNames": names,
                }
                for place, names in enumerate(nodes)
            ],
        }
