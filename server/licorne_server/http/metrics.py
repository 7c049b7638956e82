"""Prometheus metrics from the core's reports (spec § 12.3, corrected by § 14).

What the older core had keeps its name, and gains the labels `rm` and `partition`; what is ours is
called ``licorne_…``. Labels come from bounded sets: an RM cannot swell the answer by making queues or
inventing resources.
"""

from collections import deque
from collections.abc import Iterator, Mapping

from licorne_core.apps.states import AppState
from licorne_core.ids import PartitionName, QueuePath, RmId
from licorne_core.reports import NodeReport, PartitionReport, QueueReport
from licorne_core.resources import Resources
from licorne_core.views import Views
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

MAX_QUEUES = 1000
"""So many queues of a partition have metrics of their own, those nearest to root first."""

MAX_RESOURCES = 32
"""So many types of resource are shown; `memory` and `vcore` always are."""

_PLACE = ("rm", "partition")
_USAGE_RANGES = ("[0,10%]", *(f"({low}%,{low + 10}%]" for low in range(10, 100, 10)))
_LIVE_STATES = (
    AppState.NEW,
    AppState.ACCEPTED,
    AppState.RUNNING,
    AppState.RESUMING,
    AppState.COMPLETING,
    AppState.FAILING,
)


class CoreMetrics:
    """Gathers the metrics of all partitions, one small step at a time."""

    def __init__(self, views: Views) -> None:
        """Read these views."""
        self._views = views
        self._resources = {"memory", "vcore"}
        self._families: dict[str, Metric] = {}

    def families(self) -> list[Metric]:
        """All that was gathered, by name."""
        return [self._families[name] for name in sorted(self._families)]

    def gather(self) -> Iterator[None]:
        """Gather; between two steps the caller may let others work."""
        for report in self._views.partitions():
            place = (report.rm_id, report.bare_name)
            self._partition(place, report)
            yield
            self._nodes(place, self._views.nodes(report.name), report)
            yield
            self._applications(place, report.name)
            yield
            yield from self._queues(place, report.name)

    def _partition(self, place: tuple[RmId, str], report: PartitionReport) -> None:
        counters = self._views.counters(report.name)
        attempts = {
            "allocated": counters.allocations_made,
            "rejected": counters.allocations_rejected,
            "error": 0,
            "released": counters.allocations_released,
        }
        submissions = {
            "new": counters.applications_submitted,
            "accepted": counters.applications_accepted,
            "rejected": counters.applications_rejected,
        }
        applications = {
            state.value.lower(): report.applications.get(state.value, 0) for state in AppState
        }
        name = "yunikorn_scheduler_container_allocation_attempt"
        self._counters(name, "Asks by what came of them.", "state", place, attempts)
        name = "yunikorn_scheduler_application_submission"
        self._counters(name, "Applications by what was answered.", "result", place, submissions)
        name = "yunikorn_scheduler_application_total"
        self._gauges(name, "Applications by state.", "state", place, applications)
        ours = {
            "licorne_pending_asks": ("Asks that wait.", report.pending_asks),
            "licorne_allocations": ("Allocations there are.", report.allocations),
            "licorne_holds": ("Reasons for which scheduling is on hold.", len(report.holds)),
        }
        for name, (text, value) in ours.items():
            self._gauge(name, text, _PLACE).add_metric(place, value)
        counted = {
            "licorne_asks_received": ("Asks that came in.", counters.asks_received),
            "licorne_asks_tried": ("Times an ask was looked at.", counters.asks_tried),
            "licorne_allocations_recovered": ("Replayed ones.", counters.allocations_recovered),
            "licorne_partition_turns": ("Turns of scheduling.", counters.turns),
        }
        for name, (text, value) in counted.items():
            self._counter(name, text, _PLACE).add_metric(place, value)

    def _nodes(
        self, place: tuple[RmId, str], nodes: list[NodeReport], report: PartitionReport
    ) -> None:
        """A drained node is active as well as draining; failed and decommissioned ones are past."""
        counters = self._views.counters(report.name)
        states = {
            "active": len(nodes),
            "draining": sum(not node.schedulable for node in nodes),
            "failed": counters.nodes_rejected,
            "decommissioned": counters.nodes_decommissioned,
        }
        self._gauges("yunikorn_scheduler_node", "Nodes by state.", "state", place, states)
        used_by_type: dict[str, list[int]] = {}
        for node in nodes:
            for name, index in _usage(node):
                if self._is_shown(name):
                    ranges = used_by_type.setdefault(metric_part(name), [0] * len(_USAGE_RANGES))
                    ranges[index] += 1
        for part in sorted(used_by_type):
            values = dict(zip(_USAGE_RANGES, used_by_type[part], strict=True))
            name = f"yunikorn_scheduler_{part}_node_usage_total"
            self._gauges(name, "Nodes by how much of it is used.", "range", place, values)

    def _applications(self, place: tuple[RmId, str], partition: PartitionName) -> None:
        """Live applications of each leaf by state."""
        found: dict[QueuePath, dict[str, int]] = {}
        for app in self._views.applications(partition):
            if app.queue not in found and len(found) == MAX_QUEUES:
                continue
            states = found.setdefault(app.queue, {s.value.lower(): 0 for s in _LIVE_STATES})
            states[app.state.lower()] = states.get(app.state.lower(), 0) + 1
        family = self._gauge(
            "yunikorn_queue_app", "Applications of a leaf by state.", (*_PLACE, "queue", "state")
        )
        for path in sorted(found):
            for state, count in found[path].items():
                family.add_metric((*place, path, state), count)

    def _queues(self, place: tuple[RmId, str], partition: PartitionName) -> Iterator[None]:
        """Resources of every queue, those nearest to root first."""
        waiting = deque([self._views.queues_root(partition)])
        shown = 0
        while waiting and shown < MAX_QUEUES:
            queue = waiting.popleft()
            self._queue(place, queue)
            shown += 1
            waiting.extend(queue.child_names)
            yield
        left = self._gauge("licorne_metrics_truncated", "1 when queues were left out.", _PLACE)
        left.add_metric(place, 1 if waiting else 0)

    def _queue(self, place: tuple[RmId, str], queue: QueueReport) -> None:
        family = self._gauge(
            "yunikorn_queue_resource",
            "Resources of a queue.",
            (*_PLACE, "queue", "state", "resource"),
        )
        amounts: dict[str, Resources] = {
            "guaranteed": queue.guaranteed,
            "max": queue.max,
            "allocated": queue.allocated,
            "pending": queue.pending,
            "preempting": queue.preempting,
            "maxRunningApps": {"apps": queue.max_applications},
        }
        for state, resources in amounts.items():
            for name, value in sorted(resources.items()):
                if state == "maxRunningApps" or self._is_shown(name):
                    family.add_metric((*place, queue.path, state, name), value)

    def _is_shown(self, resource: str) -> bool:
        if resource not in self._resources:
            if len(self._resources) >= MAX_RESOURCES:
                return False
            self._resources.add(resource)
        return True
