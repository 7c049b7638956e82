"""Clusters, partitions, placement rules, queues, usage, and victims of preemption in REST.

See spec § 12.4, corrected by § 14. The older core shows no victims.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from licorne_core.config.schema import FilterConfig, NameList, PlacementRuleConfig
from licorne_core.messages.preemption import PreemptionRecord, QueueNumbers, Spared
from licorne_core.messages.reports import PlacementReport
from licorne_core.values.app_states import AppState
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import NodeId, PartitionName, rm_of
from licorne_core.values.rule_kinds import RULES
from licorne_core.views import Views
from licorne_core.views.fields import Source, renamed
from licorne_core.views.partitions import PartitionReport, RmReport
from licorne_core.views.queues import QueueReport, QueueUsage, UsageReport
from licorne_server.http.stream import JsonObject, Rows, Verbatim, array_of, fragments, made, object_of
from licorne_server.http.units import (
    USAGE_RANGES,
    Asked,
    mark_json,
    percentages,
    reports_of,
    rest_form,
    rest_name,
    usage_ranges,
)
from licorne_server.reads.history.recorder import Sample
from licorne_server.wire.features import names, table
from licorne_server.wire.responses import nanoseconds


def clusters(views: Views, started_time: float, of: Iterable[PartitionName]) -> Rows:
    """Entries for these partitions, each with the build information of its RM."""

    def row(partition: PartitionName) -> JsonObject:
        rm_id = rm_of(partition)
        return {
            "startTime": nanoseconds(started_time),
            "rmBuildInformation": [_build_information(views.rm(rm_id))],
            "partition": rest_name(views, partition),
            "clusterName": rm_id,
        }

    return Rows(of, row)


def _build_information(rm: RmReport) -> JsonObject:
    """The RM's build information, with its id; `buildVersion` is its version unless it sent one."""
    return {"buildVersion": rm.version, "buildDate": "", **rm.build_info, "rmId": rm.rm_id}


def partitions(views: Views, of: Iterable[PartitionName]) -> Rows:
    """These partitions, under their names in REST paths."""
    return Rows(of, lambda name: _partition_json(views, views.partition(name)))


def _partition_json(views: Views, report: PartitionReport) -> JsonObject:
    over = {"attribute": report.node_sort_attribute} if report.node_sort_attribute else {}
    applications = {state.value: report.applications.get(state.value, 0) for state in AppState}
    return {
        "clusterId": report.rm_id,
        "name": rest_name(views, report.name),
        "capacity": {
            "capacity": dict(report.capacity),
            "usedCapacity": dict(report.allocated),
            "utilization": percentages(report.capacity, report.allocated),
        },
        "nodeSortingPolicy": {
            "type": report.node_sort_policy,
            **over,
            "resourceWeights": dict(report.node_sort_weights),
        },
        "preemptionEnabled": report.preemption_enabled,
        **_added(report),
        "totalNodes": report.nodes,
        "totalContainers": report.allocations,
        "applications": {**applications, "total": sum(report.applications.values())},
        "state": report.state,
        "lastStateTransitionTime": nanoseconds(report.state_time),
    }


_added: Callable[[PartitionReport], JsonObject] = renamed(PartitionReport, names("PARTITION"), {}, dict)


def placement_rules(report: PlacementReport) -> Rows:
    """Placement rules in their order, as a bare list."""
    return Rows(report.rules, _rule_json)


def _rule_json(rule: PlacementRuleConfig) -> JsonObject:
    return {
        "name": rule.name,
        "parameters": _rule_parameters(rule),
        "filter": _filter_json(rule.filter or FilterConfig()),
        "parentRule": None if rule.parent is None else _rule_json(rule.parent),
    }


def _rule_parameters(rule: PlacementRuleConfig) -> dict[str, str]:
    """Parameters of a rule as texts: `create`, and what the rule's kind reads from the value."""
    kind = RULES.get(rule.name)
    of_value = {} if kind is None else kind.parameters(rule.value)
    return {"create": "true" if rule.create else "false", **of_value}


def _filter_json(chosen: FilterConfig) -> JsonObject:
    return {
        "type": "allow" if chosen.allow else "deny",
        "userList": _names(chosen.users),
        "groupList": _names(chosen.groups),
        "userExp": chosen.users.expression,
        "groupExp": chosen.groups.expression,
    }


def _names(of: NameList) -> list[str]:
    """Names of a list; none for an expression, which is always a single entry (spec § 3.9)."""
    return [] if of.expression else list(of.entries)


def queue_tree(views: Views, partition: PartitionName, path: str = "root") -> JsonObject:
    """A queue with all queues below it, each read when it is sent."""
    shown = queue_json(views, partition, views.queue(partition, path))
    below = partial(queue_tree, views, partition)
    return {**shown, "children": Rows(views.children(partition, path), below)}


def single_queue(views: Views, partition: PartitionName, path: str) -> JsonObject:
    """A queue with the names of its children."""
    return {**queue_json(views, partition, views.queue(partition, path)), "children": []}


def queue_json(views: Views, partition: PartitionName, queue: QueueReport) -> JsonObject:
    """A queue in REST. Only root names its partition, as in the older core."""
    return {
        **_queue(queue),
        "partition": "" if queue.parent else rest_name(views, partition),
        "childNames": array_of(views.children(partition, queue.path)),
    }


def _template_json(queue: QueueReport) -> JsonObject | None:
    template = queue.template
    if template is None:
        return None
    return {
        "maxApplications": template.max_applications,
        "properties": dict(template.properties),
        "maxResource": dict(template.max or {}),
        "guaranteedResource": dict(template.guaranteed or {}),
    }


_AMOUNTS: dict[str, Source] = {
    f"{name}Resource": name for name in ("guaranteed", "max", "allocated", "preempting", "promised")
}
_OPTIONAL = names("QUEUE_OPTIONAL")


_queue = rest_form(
    QueueReport,
    {
        "queuename": "path",
        "status": "state",
        "template": _template_json,
        "pendingResource": "pending",
        **_AMOUNTS,
        "absUsedCapacity": lambda queue: percentages(queue.max, queue.allocated),
        "maxRunningApps": "max_applications",
        "runningApps": "running_applications",
        "allocatingAcceptedApps": "allocating_accepted",
        "currentPriority": "priority",
        "sortingPolicy": "sort_policy",
        "prioritySorting": "priority_sort",
        "isPriorityFence": "priority_fence",
        "preemptionEnabled": lambda queue: queue.preemption_policy != "disabled",
        "isPreemptionFence": lambda queue: queue.preemption_policy == "fence",
        **names("QUEUE"),
        **_OPTIONAL,
        "stop": ("stop", mark_json),
        **reports_of("QUEUE_REPORTS"),
    },
    without="preemption_policy applications share counters",
    optional=" ".join((*_OPTIONAL, "stop", *table("QUEUE_REPORTS"))),
)


def preemptions(views: Views, partition: PartitionName, app_id: str, key: str) -> Rows:
    """Recorded victims of a partition, the latest first: all, or those with an application id or a key."""
    shown = rest_name(views, partition)

    def row(record: PreemptionRecord) -> JsonObject:
        return {**_victim(record), "partition": shown}

    return Rows(views.preemptions(partition, app_id, key), row)


def _beneficiary(record: PreemptionRecord) -> JsonObject | None:
    """The ask for which a victim was stopped; None if a maximum was enforced, or a node drained."""
    return _ask(record) if record.beneficiary_app_id else None


_ask: Callable[[PreemptionRecord], JsonObject] = renamed(
    PreemptionRecord,
    {
        "applicationId": "beneficiary_app_id",
        "allocationKey": "beneficiary_key",
        "priority": "beneficiary_priority",
    },
    {},
    dict,
)
_spared = rest_form(Spared, {"applicationId": "app_id", "allocationKey": "key"})
_numbers = rest_form(QueueNumbers, {"queueName": "path", **_AMOUNTS})
_victim = rest_form(
    PreemptionRecord,
    {
        "applicationId": "app_id",
        "allocationKey": "key",
        "resource": ("resources", dict),
        "rule": "rule.value",
        "preemptionTime": ("time", nanoseconds),
        "releasedTime": ("released_time", nanoseconds),
        "noticedTime": ("noticed_time", nanoseconds),
        "checkpoint": ("checkpoint", lambda time: nanoseconds(time or 0.0)),
        "spared": ("spared", lambda spared: spared and _spared(spared)),
        "beneficiary": _beneficiary,
        "victimQueue": ("victim_queue", _numbers),
        "beneficiaryQueue": ("beneficiary_queue", lambda queue: queue and _numbers(queue)),
    },
    without="beneficiary_app_id beneficiary_key beneficiary_priority number",
    optional="preemptionTime releasedTime noticedTime checkpoint",
)


_LISTS = {
    path: (listed.name, rest_form(listed.report, listed.names, optional=listed.optional))
    for path, listed in table("REST_LISTS").items()
}
LISTS = tuple(_LISTS)
"""Last parts of the paths of extensions' lists."""


def listed(path: str, asked: Asked) -> Rows:
    """A list of an extension: of the partition, or of a queue and its descendants."""
    views, partition = asked.views, asked.partition
    name, form = _LISTS[path]
    shown = rest_name(views, partition)
    entries = list(asked.sources.listed(name, partition, asked.query("queue")))
    return Rows(entries, lambda entry: {**form(entry), "partition": shown})


def usages(asked: Asked, kind: str) -> Rows:
    """All users (``user``) or groups (``group``) with usage or a limit."""
    views, partition = asked.views, asked.partition
    names = views.usage_names_in_order(partition, kind)
    return Rows(views.usages(partition, kind, names), _SHAPES[kind])


def usage(asked: Asked, kind: str) -> Verbatim:
    """The usage of a user or group."""
    return made(asked.views.usage(asked.partition, kind, asked.name("name")), _SHAPES[kind])


def _user(report: UsageReport) -> JsonObject:
    return {
        "userName": report.name,
        "groups": object_of((app_id, group) for app_id, group in report.groups.items() if group),
        "queues": Verbatim(fragments(_queue_usage(report.queues))),
    }


def _group(report: UsageReport) -> JsonObject:
    return {
        "groupName": report.name,
        "applications": array_of(report.groups),
        "queues": Verbatim(fragments(_queue_usage(report.queues))),
    }


_SHAPES = {"user": _user, "group": _group}


def _queue_usage(usage: QueueUsage) -> JsonObject:
    return {**_usage(usage), "children": Rows(usage.children, _queue_usage)}


_usage = rest_form(
    QueueUsage,
    {
        "queuePath": "path",
        "resourceUsage": "allocated",
        "runningApplications": ("applications", array_of),
        "maxResources": "max",
        **reports_of("USAGE_REPORTS"),
    },
    without="children",
    optional=" ".join(table("USAGE_REPORTS")),
)


def history_of_applications(history: Iterable[Sample]) -> Rows:
    """Numbers of running applications over time."""
    return Rows(list(history), _applications_json)


def history_of_containers(history: Iterable[Sample]) -> Rows:
    """Numbers of allocations over time."""
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
    """An entry for each partition; its nodes are read in steps."""
    return Rows(views.partition_names(), partial(_utilizations_json, views))


def _utilizations_json(views: Views, partition: PartitionName) -> JsonObject:
    return {
        "clusterId": rm_of(partition),
        "partition": rest_name(views, partition),
        "utilizations": Rows(_by_resource(views, partition, views.node_ids_in_order(partition))),
    }


def _by_resource(
    views: Views, partition: PartitionName, ids: Iterable[NodeId | None]
) -> Iterator[JsonObject | None]:
    """A row for each resource type, after a None for each node, at which a time slice may end."""
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
