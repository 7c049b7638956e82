"""Queues in REST (spec § 12.4, corrected by § 14)."""

from licorne_core.values.ids import PartitionName, QueuePath
from licorne_core.views import Views
from licorne_core.views.queues import QueueReport
from licorne_server.http.stream import JsonObject, Rows, array_of
from licorne_server.http.units import percentages, rest_form, rest_name


def queue_tree(views: Views, partition: PartitionName, path: str) -> JsonObject:
    """A queue with all below it; each queue is read when its row is made."""

    def below(child: QueuePath | None) -> JsonObject | None:
        return None if child is None else queue_tree(views, partition, child)

    shown = queue_json(views, partition, views.queue(partition, path))
    return {**shown, "children": Rows(views.children(partition, path), below)}


def single_queue(views: Views, partition: PartitionName, path: str) -> JsonObject:
    """A queue alone: its children are only named."""
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


_queue = rest_form(
    QueueReport,
    {
        "queuename": "path",
        "status": "state",
        "template": _template_json,
        "pendingResource": "pending",
        "maxResource": "max",
        "guaranteedResource": "guaranteed",
        "allocatedResource": "allocated",
        "preemptingResource": "preempting",
        "promisedResource": "promised",
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
        "isQuotaPreemptionRunning": "quota_preemption_running",
        "quotaPreemptionStartTime": "quota_preemption_time",
        "unschedAskBackoff": "backoff_threshold",
        "askBackoffDelay": "backoff_delay",
    },
    without="preemption_policy applications share counters children",
    optional="quotaPreemptionStartTime",
)
