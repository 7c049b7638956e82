"""Usage in REST: of users and groups, of nodes, and the history of the last day (spec § 12.4)."""

from collections.abc import Iterable, Iterator
from functools import partial

from licorne_core.values.errors import NotFound
from licorne_core.values.ids import NodeId, PartitionName, rm_of
from licorne_core.views import Views
from licorne_core.views.queues import QueueUsage, UsageReport
from licorne_server.http.stream import JsonObject, Rows, Verbatim, array_of, fragments, made, object_of
from licorne_server.http.units import USAGE_RANGES, Asked, rest_form, rest_name, usage_ranges
from licorne_server.services.history import Sample
from licorne_server.wire.responses import nanoseconds


def usages(asked: Asked, kind: str) -> Rows:
    """Every ``user`` that has an application, or every ``group`` that one counts for."""
    views, partition, show = asked.views, asked.partition, _SHAPES[kind]

    def row(report: UsageReport | None) -> JsonObject | None:
        return None if report is None else show(report)

    return Rows(views.usages(partition, kind, views.usage_names_in_order(partition, kind)), row)


def usage(asked: Asked, kind: str) -> Verbatim:
    """One user or group."""
    return made(asked.views.usage(asked.partition, kind, asked.name("name")), _SHAPES[kind])


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


_SHAPES = {"user": _user, "group": _group}


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
