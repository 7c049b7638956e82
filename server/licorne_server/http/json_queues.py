"""Queues in REST (spec § 12.4, corrected by § 14)."""

from licorne_core.config.properties import PreemptionPolicy
from licorne_core.config.schema import TemplateConfig
from licorne_core.messages.reports import QueueReport
from licorne_core.values.ids import PartitionName, QueuePath
from licorne_core.views import Views
from licorne_server.http.stream import JsonObject, Rows, array_of
from licorne_server.http.units import duration, percentages, rest_name, times
from licorne_server.wire.responses import nanoseconds


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
    is_root = not queue.parent
    return {
        "queuename": queue.path,
        "status": queue.state,
        "partition": rest_name(views, partition) if is_root else "",
        "parent": queue.parent,
        "childNames": array_of(views.children(partition, queue.path)),
        "isLeaf": queue.is_leaf,
        "isManaged": queue.is_managed,
        "properties": dict(queue.properties),
        "template": _template_json(queue.template),
        **_resources_json(queue),
        **_applications_json(queue),
        **_policies_json(queue),
    }


def _resources_json(queue: QueueReport) -> JsonObject:
    return {
        "pendingResource": dict(queue.pending),
        "maxResource": dict(queue.max),
        "guaranteedResource": dict(queue.guaranteed),
        "allocatedResource": dict(queue.allocated),
        "preemptingResource": dict(queue.preempting),
        "promisedResource": dict(queue.promised),
        "headroom": dict(queue.headroom),
        "absUsedCapacity": percentages(queue.max, queue.allocated),
    }


def _applications_json(queue: QueueReport) -> JsonObject:
    return {
        "maxRunningApps": queue.max_applications,
        "runningApps": queue.running_applications,
        "allocatingAcceptedApps": list(queue.allocating_accepted),
        "currentPriority": queue.priority,
    }


def _policies_json(queue: QueueReport) -> JsonObject:
    return {
        "sortingPolicy": queue.sort_policy,
        "prioritySorting": queue.priority_sort,
        "isPriorityFence": queue.priority_fence,
        "priorityOffset": queue.priority_offset,
        "preemptionEnabled": queue.preemption_policy != PreemptionPolicy.DISABLED.value,
        "isPreemptionFence": queue.preemption_policy == PreemptionPolicy.FENCE.value,
        "preemptionDelay": duration(queue.preemption_delay),
        "quotaPreemptionDelay": duration(queue.quota_preemption_delay),
        "isQuotaPreemptionRunning": queue.quota_preemption_running,
        **times(nanoseconds, quotaPreemptionStartTime=queue.quota_preemption_time),
        "unschedAskBackoff": queue.backoff_threshold,
        "askBackoffDelay": duration(queue.backoff_delay),
    }


def _template_json(template: TemplateConfig | None) -> JsonObject | None:
    if template is None:
        return None
    return {
        "maxApplications": template.max_applications,
        "properties": dict(template.properties),
        "maxResource": dict(template.max or {}),
        "guaranteedResource": dict(template.guaranteed or {}),
    }
