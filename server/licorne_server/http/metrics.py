"""Prometheus metrics from the core's reports (spec § 12.3, corrected by § 14).

What the older core had keeps its name and gains the labels `rm` and `partition`; what is ours is
called ``licorne_…``. Label values come from bounded sets: no RM can swell the answer by making
queues or inventing resources.
"""

from collections import Counter, deque
from collections.abc import Generator, Iterator, Mapping

from licorne_core.apps.states import AppState
from licorne_core.errors import NotFound
from licorne_core.ids import PartitionName, QueuePath
from licorne_core.reports import NodeReport, PartitionReport, QueueReport
from licorne_core.resources import Resources
from licorne_core.views import Views
from licorne_server.http.families import Families, Labels

MAX_QUEUES = 1000
"""So many queues of a partition have metrics of their own, those nearest to root first."""

MAX_RESOURCES = 32
"""So many types of resource are shown; `memory` and `vcore` always are."""

_PLACE = ("rm", "partition")
_RANGES = ("[0,10%]", *(f"({low}%,{low + 10}%]" for low in range(10, 100, 10)))
_LIVE = ("new", "accepted", "running", "resuming", "completing", "failing")

Place = tuple[str, str]
AppsByState = dict[QueuePath, Counter[str]]


def gather(views: Views, families: Families) -> Iterator[None]:
    """Add the metrics of all partitions; between two steps the caller may let others work."""
    for report in views.partitions():
        try:
            yield from _gather_partition(views, families, report)
        except NotFound:
            continue  # the partition went away between two steps


def _gather_partition(views: Views, families: Families, report: PartitionReport) -> Iterator[None]:
    place = (str(report.rm_id), report.bare_name)
    shown = _Shown()
    _partition(views, families, place, report)
    yield
    yield from _nodes(views, families, place, report.name, shown)
    applications = yield from _applications(views, report.name)
    yield from _queues(views, families, place, report, shown, applications)


class _Shown:
    """Which types of resource are shown."""

    def __init__(self) -> None:
        self._names = {"memory", "vcore"}

    def __contains__(self, name: str) -> bool:
        if name not in self._names:
            if len(self._names) >= MAX_RESOURCES:
                return False
            self._names.add(name)
        return True


def _partition(views: Views, families: Families, place: Place, report: PartitionReport) -> None:
    counters = views.counters(report.name)
    families.counter(
        "yunikorn_scheduler_container_allocation_attempt_total",
        "Asks by what came of them.",
        (*_PLACE, "state"),
        {
            (*place, "allocated"): counters.allocations_made,
            (*place, "rejected"): counters.allocations_rejected,
            (*place, "error"): 0,
            (*place, "released"): counters.allocations_released,
        },
    )
    families.counter(
        "yunikorn_scheduler_application_submission_total",
        "Applications by what was answered.",
        (*_PLACE, "result"),
        {
            (*place, "new"): counters.applications_submitted,
            (*place, "accepted"): counters.applications_accepted,
            (*place, "rejected"): counters.applications_rejected,
        },
    )
    families.gauge(
        "yunikorn_scheduler_application_total",
        "Applications by state.",
        (*_PLACE, "state"),
        {(*place, s.value.lower()): report.applications.get(s.value, 0) for s in AppState},
    )
    for name, text, value in (
        ("licorne_pending_asks", "Asks that wait.", report.pending_asks),
        ("licorne_allocations", "Allocations there are.", report.allocations),
        ("licorne_holds", "Reasons why nothing is scheduled for now.", len(report.holds)),
    ):
        families.gauge(name, text, _PLACE, {place: value})
    for name, text, value in (
        ("licorne_asks_received_total", "Asks that came in.", counters.asks_received),
        ("licorne_asks_tried_total", "Times that an ask was looked at.", counters.asks_tried),
        (
            "licorne_allocations_recovered_total",
            "Allocations replayed.",
            counters.allocations_recovered,
        ),
    ):
        families.counter(name, text, _PLACE, {place: value})


def _nodes(
    views: Views, families: Families, place: Place, partition: PartitionName, shown: _Shown
) -> Iterator[None]:
    active = draining = 0
    usage: dict[str, list[int]] = {}
    for node_id in views.node_ids(partition):
        yield
        try:
            node = views.node(partition, node_id, detail=False)
        except NotFound:
            continue
        active += 1
        draining += not node.schedulable
        for name, position in _usage(node):
            if name in shown:
                usage.setdefault(metric_part(name), [0] * len(_RANGES))[position] += 1
    counters = views.counters(partition)
    families.gauge(
        "yunikorn_scheduler_node",
        "Nodes by state; a draining one is active as well.",
        (*_PLACE, "state"),
        {
            (*place, "active"): active,
            (*place, "draining"): draining,
            (*place, "failed"): counters.nodes_rejected,
            (*place, "decommissioned"): counters.nodes_decommissioned,
        },
    )
    for part, counts in sorted(usage.items()):
        families.gauge(
            f"yunikorn_scheduler_{part}_node_usage_total",
            "Nodes by how much of them is used.",
            (*_PLACE, "range"),
            {(*place, label): count for label, count in zip(_RANGES, counts, strict=True)},
        )


def _usage(node: NodeReport) -> Iterator[tuple[str, int]]:
    """For each type that the node has, which of the ten ranges its usage lies in."""
    for name, capacity in node.capacity.items():
        if capacity > 0:
            used = capacity - node.available.get(name, 0)
            yield name, max(0, min(len(_RANGES) - 1, (len(_RANGES) * used - 1) // capacity))


def metric_part(resource: str) -> str:
    """A resource as part of a metric's name; what may not stand there becomes an underscore."""
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in resource)


def _applications(views: Views, partition: PartitionName) -> Generator[None, None, AppsByState]:
    """How many live applications there are, by queue and state."""
    found: AppsByState = {}
    for name in views.app_ids(partition):
        yield
        try:
            app = views.application(partition, name, detail=False)
        except NotFound:
            continue
        found.setdefault(app.queue, Counter())[app.state.lower()] += 1
    return found


def _queues(
    views: Views,
    families: Families,
    place: Place,
    partition: PartitionReport,
    shown: _Shown,
    applications: AppsByState,
) -> Iterator[None]:
    nothing = dict.fromkeys(partition.capacity, 0)
    waiting = deque([QueuePath("root")])
    count = 0
    while waiting and count < MAX_QUEUES:
        try:
            queue = views.queue(partition.name, waiting.popleft())
        except NotFound:
            continue  # a dynamic queue that was cleaned away since its parent was looked at
        families.gauge(
            "yunikorn_queue_resource",
            "Resources of a queue.",
            (*_PLACE, "queue", "state", "resource"),
            _queue_resources(place, queue, nothing, shown),
        )
        if queue.is_leaf:
            _leaf(families, place, queue, applications.get(queue.path, Counter()))
        waiting.extend(queue.child_names)
        count += 1
        yield
    families.gauge(
        "licorne_metrics_truncated",
        "1 when there are more queues than metrics are shown of.",
        _PLACE,
        {place: 1 if waiting else 0},
    )


def _leaf(families: Families, place: Place, queue: QueueReport, states: Counter[str]) -> None:
    """What ended is counted from when the leaf was made, and goes with it."""
    counters = queue.counters
    ended = {"completed": counters.applications_completed, "failed": counters.applications_failed}
    happened = {"allocated": counters.allocations_made, "released": counters.allocations_released}
    living = {state: states[state] for state in _LIVE}
    labels = (*_PLACE, "queue", "state")

    def by_state(counts: Mapping[str, int]) -> dict[Labels, float]:
        return {(*place, queue.path, state): count for state, count in counts.items()}

    families.gauge(
        "yunikorn_queue_app", "Applications of a leaf.", labels, by_state(living | ended)
    )
    families.counter(
        "yunikorn_queue_app_total", "Applications of a leaf that ended.", labels, by_state(ended)
    )
    families.counter(
        "yunikorn_queue_container",
        "What a leaf was given and gave back.",
        labels,
        by_state(happened),
    )


def _queue_resources(
    place: Place, queue: QueueReport, nothing: Resources, shown: _Shown
) -> dict[tuple[str, ...], float]:
    """A usage of zero is shown as such, so that a graph of it has no gaps."""
    amounts: dict[str, Resources] = {
        "guaranteed": queue.guaranteed,
        "max": queue.max,
        "allocated": {**nothing, **queue.allocated},
        "pending": {**nothing, **queue.pending},
        "preempting": queue.preempting,
    }
    values: dict[tuple[str, ...], float] = {
        (*place, queue.path, state, name): value
        for state, resources in amounts.items()
        for name, value in sorted(resources.items())
        if name in shown
    }
    values[*place, queue.path, "maxRunningApps", "apps"] = queue.max_applications
    return values
