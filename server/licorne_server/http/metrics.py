"""Prometheus metrics from the core's reports (spec § 12.3, corrected by § 14).

What the older core had keeps its name and gains the labels `rm` and `partition`; what is ours is
called ``licorne_…``. Label values come from bounded sets: no RM can swell the answer by making
queues or inventing resources.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping

from licorne_core.apps.states import AppState
from licorne_core.errors import NotFound
from licorne_core.ids import QueuePath
from licorne_core.reports import PartitionReport, QueueReport
from licorne_core.views import Views
from licorne_server.http.families import Families, Labels
from licorne_server.http.units import USAGE_RANGES, usage_ranges

MAX_QUEUES = 1000
"""How many queues of a partition have metrics of their own, those nearest to root first."""

MAX_RESOURCES = 32
"""How many types of resource are shown; `memory` and `vcore` always are."""

_PLACE = ("rm", "partition")
_RANGES = ("[0,10%]", *(f"({low}%,{low + 10}%]" for low in range(10, 10 * USAGE_RANGES, 10)))
_LIVE = ("new", "accepted", "running", "resuming", "completing", "failing")


def gather(views: Views, families: Families) -> Iterator[None]:
    """Add the metrics of all partitions, in steps. The caller may let others run between two."""
    for report in views.partitions():
        try:
            yield from _Partition(views, families, report).steps()
        except NotFound:
            continue  # the partition went away between two steps


class _Partition:
    """Adds the metrics of one partition. What goes away between two steps is not counted."""

    def __init__(self, views: Views, families: Families, report: PartitionReport) -> None:
        self._views = views
        self._families = families
        self._report = report
        self._partition = report.name
        self._place = (str(report.rm_id), report.bare_name)
        self._resources = {"memory", "vcore"}
        self._applications: dict[QueuePath, Counter[str]] = {}

    def steps(self) -> Iterator[None]:
        """Everything, one node, application or queue at a step."""
        self._totals()
        yield
        yield from self._nodes()
        yield from self._count_applications()
        yield from self._queues()

    def _totals(self) -> None:
        report = self._report
        counters = self._views.counters(self._partition)
        self._counters(
            "yunikorn_scheduler_container_allocation_attempt_total",
            "Asks by what came of them.",
            "state",
            {
                "allocated": counters.allocations_made,
                "rejected": counters.allocations_rejected,
                "error": 0,
                "released": counters.allocations_released,
            },
        )
        self._counters(
            "yunikorn_scheduler_application_submission_total",
            "Applications by what was answered.",
            "result",
            {
                "new": counters.applications_submitted,
                "accepted": counters.applications_accepted,
                "rejected": counters.applications_rejected,
            },
        )
        self._gauges(
            "yunikorn_scheduler_application_total",
            "Applications by state.",
            "state",
            {state.value.lower(): report.applications.get(state.value, 0) for state in AppState},
        )
        for name, text, value in (
            ("licorne_pending_asks", "Asks that wait.", report.pending_asks),
            ("licorne_allocations", "Allocations there are.", report.allocations),
            ("licorne_holds", "Reasons why nothing is scheduled for now.", len(report.holds)),
        ):
            self._families.gauge(name, text, _PLACE, {self._place: value})
        for name, text, value in (
            ("received", "Asks that came in.", counters.asks_received),
            ("tried", "Times that an ask was looked at.", counters.asks_tried),
        ):
            self._families.counter(f"licorne_asks_{name}_total", text, _PLACE, {self._place: value})
        self._families.counter(
            "licorne_allocations_recovered_total",
            "Allocations replayed.",
            _PLACE,
            {self._place: counters.allocations_recovered},
        )

    def _nodes(self) -> Iterator[None]:
        active = draining = 0
        usage: dict[str, list[int]] = {}
        for node_id in self._views.node_ids(self._partition):
            yield
            try:
                node = self._views.node(self._partition, node_id, detail=False)
            except NotFound:
                continue
            active += 1
            draining += not node.schedulable
            for name, position in usage_ranges(node):
                if self._shows(name):
                    usage.setdefault(metric_part(name), [0] * len(_RANGES))[position] += 1
        counters = self._views.counters(self._partition)
        self._gauges(
            "yunikorn_scheduler_node",
            "Nodes by state; a draining one is active as well.",
            "state",
            {
                "active": active,
                "draining": draining,
                "failed": counters.nodes_rejected,
                "decommissioned": counters.nodes_decommissioned,
            },
        )
        for part, counts in sorted(usage.items()):
            self._gauges(
                f"yunikorn_scheduler_{part}_node_usage_total",
                "Nodes by how much of them is used.",
                "range",
                dict(zip(_RANGES, counts, strict=True)),
            )

    def _count_applications(self) -> Iterator[None]:
        for name in self._views.app_ids(self._partition):
            yield
            try:
                app = self._views.application(self._partition, name, detail=False)
            except NotFound:
                continue
            self._applications.setdefault(app.queue, Counter())[app.state.lower()] += 1

    def _queues(self) -> Iterator[None]:
        waiting = deque([QueuePath("root")])
        count = 0
        while waiting and count < MAX_QUEUES:
            yield
            try:
                queue = self._views.queue(self._partition, waiting.popleft())
            except NotFound:
                continue  # a dynamic queue that was cleaned away since its parent was looked at
            self._queue_resources(queue)
            if queue.is_leaf:
                self._leaf(queue)
            waiting.extend(queue.child_names)
            count += 1
        self._families.gauge(
            "licorne_metrics_truncated",
            "1 when there are more queues than metrics are shown of.",
            _PLACE,
            {self._place: 1 if waiting else 0},
        )

    def _queue_resources(self, queue: QueueReport) -> None:
        """The resources of a queue. A usage of zero is shown, so that a graph of it has no gaps."""
        nothing = dict.fromkeys(self._report.capacity, 0)
        amounts = {
            "guaranteed": queue.guaranteed,
            "max": queue.max,
            "allocated": {**nothing, **queue.allocated},
            "pending": {**nothing, **queue.pending},
            "preempting": {**nothing, **queue.preempting},
        }
        values: dict[Labels, float] = {
            (*self._place, queue.path, state, name): value
            for state, resources in amounts.items()
            for name, value in sorted(resources.items())
            if self._shows(name)
        }
        values[*self._place, queue.path, "maxRunningApps", "apps"] = queue.max_applications
        self._families.gauge(
            "yunikorn_queue_resource",
            "Resources of a queue.",
            (*_PLACE, "queue", "state", "resource"),
            values,
        )

    def _leaf(self, queue: QueueReport) -> None:
        """The applications of a leaf. The counters start when the leaf is made, and go with it."""
        labels = (*_PLACE, "queue", "state")
        states = self._applications.get(queue.path, Counter())
        counters = queue.counters
        living = {state: states[state] for state in _LIVE}
        ended = {
            "completed": counters.applications_completed,
            "failed": counters.applications_failed,
        }
        containers = {
            "allocated": counters.allocations_made,
            "released": counters.allocations_released,
        }

        def here(counts: Mapping[str, int]) -> dict[Labels, float]:
            return {(*self._place, queue.path, state): count for state, count in counts.items()}

        add = self._families
        add.gauge("yunikorn_queue_app", "Applications.", labels, here(living | ended))
        add.counter("yunikorn_queue_app_total", "Applications that ended.", labels, here(ended))
        add.counter("yunikorn_queue_container", "Allocations ever.", labels, here(containers))

    def _shows(self, resource: str) -> bool:
        if resource not in self._resources:
            if len(self._resources) >= MAX_RESOURCES:
                return False
            self._resources.add(resource)
        return True

    def _gauges(self, name: str, text: str, label: str, values: Mapping[str, int]) -> None:
        here: dict[Labels, float] = {(*self._place, of): value for of, value in values.items()}
        self._families.gauge(name, text, (*_PLACE, label), here)

    def _counters(self, name: str, text: str, label: str, values: Mapping[str, int]) -> None:
        here: dict[Labels, float] = {(*self._place, of): value for of, value in values.items()}
        self._families.counter(name, text, (*_PLACE, label), here)


def metric_part(resource: str) -> str:
    """A resource as part of a metric's name; what may not stand there becomes an underscore."""
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in resource)
