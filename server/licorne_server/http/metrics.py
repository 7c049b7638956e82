"""Metrics of partitions from the core's reports (spec § 12.3, corrected by § 14).

A metric of the older core keeps its name and gains the labels `rm` and `partition`; our own are
called ``licorne_…``. Label values come from bounded sets, and each RM has a share of all samples:
no RM can swell the answer, or crowd others out, by making queues or inventing resources.
"""

from collections.abc import Iterator, Mapping
from heapq import nsmallest

from licorne_core.messages.reports import Census
from licorne_core.model.apps.states import AppState
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import PartitionName, RmId, rm_of
from licorne_core.views import Views
from licorne_core.views.partitions import PartitionReport
from licorne_server.http.families import Families, Labels
from licorne_server.http.queue_metrics import OTHERS, QueueMetrics, metric_part, parts
from licorne_server.http.units import USAGE_RANGES, usage_ranges

MAX_SAMPLES = 200_000
"""Samples of all partitions together; each RM may have an equal share of them."""

MAX_RESOURCES = 32
"""Types of resource shown of a partition; `memory` and `vcore` always are."""

MAX_NAMES = 50
"""Users, and groups, of a partition with metrics of their own."""

_PLACE = ("rm", "partition")
_RANGES = ("[0,10%]", *(f"({low}%,{low + 10}%]" for low in range(10, 10 * USAGE_RANGES, 10)))


class Shown:
    """Remaining samples of one RM."""

    def __init__(self, samples: int) -> None:
        """Allow so many samples."""
        self._left = samples
        self.truncated = False
        """True if samples were left out."""

    def has_room(self) -> bool:
        """True if more samples may be shown; if not, they are left out."""
        self.truncated |= self._left <= 0
        return self._left > 0

    def take(self, samples: int) -> None:
        """Count samples as shown."""
        self._left -= samples


def gather(views: Views, families: Families, *, queue_names: bool = True) -> Iterator[None]:
    """Add the metrics of all partitions, in steps. The caller may let others run between two.

    With `queue_names` those of queues come under names that have the queue in them as well.
    """
    rms: dict[RmId, list[PartitionName]] = {}
    for name in views.partition_names():
        rms.setdefault(rm_of(name), []).append(name)
    yield
    for rm_id, names in rms.items():
        shown = Shown(MAX_SAMPLES // len(rms))
        for number, name in enumerate(names):
            yield
            if not shown.has_room():
                break
            try:
                report = views.partition(name)
                # These are in none of its partitions: they count once, with the first.
                failed = 0 if number else len(views.rm(rm_id).failed_nodes)
                shows = _Partition(views, families, report, shown, names=queue_names, failed_nodes=failed)
                yield from shows.steps()
            except NotFound:
                continue  # the partition went away between two steps
        families.gauge(
            "licorne_metrics_truncated",
            "1 when there are more partitions and queues than metrics are shown of.",
            ("rm",),
            {(str(rm_id),): int(shown.truncated)},
        )


class _Partition:
    """Adds the metrics of one partition. What goes away between two steps is not counted."""

    def __init__(
        self,
        views: Views,
        families: Families,
        report: PartitionReport,
        shown: Shown,
        *,
        names: bool,
        failed_nodes: int,
    ) -> None:
        self._views = views
        self._families = families
        self._report = report
        self._shown = shown
        self._names = names
        self._failed_nodes = failed_nodes
        self._partition = report.name
        self._place = (str(report.rm_id), report.bare_name)
        self._resources = {"memory", "vcore"}

    def steps(self) -> Iterator[None]:
        """Add all metrics, one node, application or queue at a step."""
        self._totals()
        yield
        yield from self._nodes()
        for found in self._views.census(self._partition):
            yield
            if found is not None:
                self._waiting(found)
                yield from self._usage("user", found)
                yield from self._usage("group", found)
                queues = QueueMetrics(self._views, self._families, self._report, found)
                yield from queues.steps(self._shown, self._shows, names=self._names)

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
        self._gauges(
            "licorne_capacity",
            "What all nodes have, by resource.",
            "resource",
            {name: value for name, value in report.capacity.items() if self._shows(name)},
        )
        self._gauge("licorne_allocations", "Allocations there are.", report.allocations)
        self._gauge("licorne_holds", "Reasons why nothing is scheduled for now.", len(report.holds))
        for name, text, value in (
            ("asks_received", "Asks that came in.", counters.asks_received),
            ("asks_tried", "Times that an ask was looked at.", counters.asks_tried),
            ("allocations_recovered", "Allocations replayed.", counters.allocations_recovered),
            (
                "allocations_failed_at_rm",
                "Allocations that the RM could not run.",
                counters.allocations_failed_on_rm,
            ),
        ):
            self._families.counter(f"licorne_{name}_total", text, _PLACE, {self._place: value})
        self._shown.take(4 + 3 + len(AppState) + len(report.capacity) + 6)

    def _nodes(self) -> Iterator[None]:
        active = draining = 0
        usage: dict[str, list[int]] = {}
        for node_id in self._views.node_ids_in_order(self._partition):
            yield
            if node_id is None:
                continue
            try:
                node = self._views.node(self._partition, node_id)
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
                "failed": self._failed_nodes,
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
        self._shown.take(4 + len(_RANGES) * len(usage))

    def _waiting(self, census: Census) -> None:
        """Pending asks, and nodes or room reserved or freed for them."""
        counters = self._views.counters(self._partition)
        self._gauge("licorne_pending_asks", "Asks that wait.", sum(census.pending.values()))
        self._gauge("licorne_reservations", "Nodes kept free for asks.", census.reservations)
        self._counters(
            "licorne_reservations_given_up_total",
            "Reservations that ended before their asks were placed, by cause.",
            "cause",
            {"idle": counters.reservations_idle, "yielded": counters.reservations_yielded},
        )
        self._gauges(
            "licorne_placeholders",
            "Placeholders of gangs.",
            "state",
            {"waiting": census.placeholders_waiting, "running": census.placeholders},
        )
        self._counters(
            "licorne_placeholders_ended_total",
            "Placeholders that a real allocation took the place of, or that ended otherwise.",
            "how",
            {
                "replaced": counters.placeholders_replaced,
                "timed_out": counters.placeholders_timed_out,
            },
        )
        self._counters(
            "licorne_preemptions_total",
            "Allocations that were told to stop for others, by the rule.",
            "rule",
            census.preemptions,
        )
        self._shown.take(2 + 6 + len(census.preemptions))

    def _usage(self, kind: str, census: Census) -> Iterator[None]:
        """Usage of users or groups: the first by name have metrics of their own."""
        shown: list[str] = []
        for part in parts(census.running):
            yield
            shown = nsmallest(MAX_NAMES, [*shown, *(name for of, name in part if of == kind)])
        own = set(shown)
        usage: dict[Labels, float] = {}
        running: dict[Labels, float] = {}
        for part in parts(census.running):
            yield
            for name in (name for of, name in part if of == kind):
                where = (*self._place, kind, name if name in own else OTHERS)
                running[where] = running.get(where, 0) + census.running[kind, name]
                for resource, value in census.usage[kind, name].items():
                    if self._shows(resource):
                        usage[*where, resource] = usage.get((*where, resource), 0) + value
        labels = (*_PLACE, "kind", "name")
        text = "What users and groups have, by resource."
        self._families.gauge("licorne_usage", text, (*labels, "resource"), usage)
        text = "Applications of users and groups that have an allocation."
        self._families.gauge("licorne_usage_applications", text, labels, running)
        self._shown.take(len(usage) + len(running))

    def _shows(self, resource: str) -> bool:
        if resource not in self._resources:
            if len(self._resources) >= MAX_RESOURCES:
                return False
            self._resources.add(resource)
        return True

    def _gauge(self, name: str, text: str, value: int) -> None:
        self._families.gauge(name, text, _PLACE, {self._place: value})

    def _gauges(self, name: str, text: str, label: str, values: Mapping[str, int]) -> None:
        here: dict[Labels, float] = {(*self._place, of): value for of, value in values.items()}
        self._families.gauge(name, text, (*_PLACE, label), here)

    def _counters(self, name: str, text: str, label: str, values: Mapping[str, int]) -> None:
        here: dict[Labels, float] = {(*self._place, of): value for of, value in values.items()}
        self._families.counter(name, text, (*_PLACE, label), here)
