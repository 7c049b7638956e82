"""Metrics of partitions from the core's reports (spec § 12.3, corrected by § 14), of budgets and of members.

A metric of the older core keeps its name and gains the labels `rm` and `partition`; all other metrics are
called ``licorne_…``. Label values come from bounded sets, and each RM has a share of all samples. So
an RM cannot enlarge the answer, or displace other RMs, with many queues or resource types.
"""

from collections.abc import Iterable, Iterator, Mapping
from heapq import nsmallest
from typing import Any, NamedTuple

from licorne_core.messages.reports import Census
from licorne_core.values.app_states import AppState
from licorne_core.values.counters import Counters
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import PartitionName, RmId, rm_of
from licorne_core.values.resources import Resources
from licorne_core.views import Views
from licorne_core.views.partitions import PartitionReport
from licorne_server.http.families import Families, Labels, Metric, counter, gauge
from licorne_server.http.queue_metrics import OTHERS, QueueMetrics, Room, metric_part, parts
from licorne_server.http.units import USAGE_RANGES, usage_ranges
from licorne_server.rms.budgets.members import BudgetState
from licorne_server.store.coordination.ownership import Ownership
from licorne_server.wire.features import Measured, rows

MAX_SAMPLES = 200_000
"""Maximum number of samples of all partitions together; each RM has an equal share."""

MAX_RESOURCES = 32
"""Maximum number of resource types of a partition that are shown; `memory` and `vcore` always are."""

MAX_NAMES = 50
"""Maximum number of users, and of groups, of a partition with metrics of their own."""

_PLACE = ("rm", "partition")
_RANGES = ("[0,10%]", *(f"({low}%,{low + 10}%]" for low in range(10, 10 * USAGE_RANGES, 10)))


_PARTITION = (
    counter(
        "yunikorn_scheduler_container_allocation_attempt_total",
        "Asks by what came of them.",
        {
            "allocated": "counters.allocations_made",
            "rejected": "counters.allocations_rejected",
            "error": lambda _: 0,
            "released": "counters.allocations_released",
        },
        "state",
    ),
    counter(
        "yunikorn_scheduler_application_submission_total",
        "Applications by what was answered.",
        {
            "new": "counters.applications_submitted",
            "accepted": "counters.applications_accepted",
            "rejected": "counters.applications_rejected",
        },
        "result",
    ),
    gauge(
        "yunikorn_scheduler_application_total",
        "Applications by state.",
        lambda of: {state.value.lower(): of.report.applications.get(state.value, 0) for state in AppState},
        "state",
    ),
    gauge("licorne_allocations", "Allocations there are.", "report.allocations"),
    gauge("licorne_holds", "Reasons why nothing is scheduled for now.", lambda of: len(of.report.holds)),
    counter("licorne_asks_received_total", "Asks that came in.", "counters.asks_received"),
    counter("licorne_asks_tried_total", "Times that an ask was looked at.", "counters.asks_tried"),
    counter("licorne_allocations_recovered_total", "Allocations replayed.", "counters.allocations_recovered"),
    counter(
        "licorne_allocations_failed_at_rm_total",
        "Allocations that the RM could not run.",
        "counters.allocations_failed_on_rm",
    ),
    counter(
        "licorne_reservations_given_up_total",
        "Reservations that ended before their asks were placed, by cause.",
        {"idle": "counters.reservations_idle", "yielded": "counters.reservations_yielded"},
        "cause",
    ),
    counter(
        "licorne_placeholders_ended_total",
        "Placeholders that a real allocation took the place of, or that ended otherwise.",
        {"replaced": "counters.placeholders_replaced", "timed_out": "counters.placeholders_timed_out"},
        "how",
    ),
    *(Metric(*row) for row in rows("METRICS")),
)
_CENSUS = (
    gauge("licorne_pending_asks", "Asks that wait.", lambda census: sum(census.pending.values())),
    gauge("licorne_reservations", "Nodes kept free for asks.", "reservations"),
    gauge(
        "licorne_placeholders",
        "Placeholders of gangs.",
        {"waiting": "placeholders_waiting", "running": "placeholders"},
        "state",
    ),
    counter(
        "licorne_preemptions_total",
        "Allocations that were asked to stop for others, by the rule.",
        "preemptions",
        "rule",
    ),
    *(Metric(*row) for row in rows("CENSUS_METRICS")),
)


class _Totals(NamedTuple):
    """A partition's report and its counters: the source of `_PARTITION`."""

    report: PartitionReport
    counters: Counters


def gather(views: Views, families: Families, *, queue_names: bool = True) -> Iterator[None]:
    """Add the metrics of all partitions in steps; the caller may pause at each.

    With `queue_names` metrics of queues are also added under names that contain the queue.
    """
    rms: dict[RmId, list[PartitionName]] = {}
    for name in views.partition_names():
        rms.setdefault(rm_of(name), []).append(name)
    yield
    for rm_id, names in rms.items():
        room = Room(MAX_SAMPLES // len(rms))
        for number, name in enumerate(names):
            yield
            if not room.is_left():
                break
            try:
                report = views.partition(name)
                # Failed nodes are in none of the RM's partitions: they are counted in its first one.
                failed = 0 if number else len(views.rm(rm_id).failed_nodes)
                shows = _Partition(views, families, report, room, names=queue_names, failed_nodes=failed)
                yield from shows.steps()
            except NotFound:
                continue  # the partition was removed between two steps
        families.put(
            "gauge",
            "licorne_metrics_truncated",
            "1 when there are more partitions and queues than metrics are shown of.",
            ("rm",),
            {(str(rm_id),): int(room.truncated)},
        )


class _Partition:
    """Adds the metrics of one partition. A node or queue that is removed between steps is not counted."""

    def __init__(
        self,
        views: Views,
        families: Families,
        report: PartitionReport,
        room: Room,
        *,
        names: bool,
        failed_nodes: int,
    ) -> None:
        self._views = views
        self._families = families
        self._report = report
        self._room = room
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
                self._room.take(self._families.add(_CENSUS, found, _PLACE, self._place))
                yield from self._usage("user", found)
                yield from self._usage("group", found)
                queues = QueueMetrics(self._views, self._families, self._report, found)
                yield from queues.steps(self._room, self._shows, names=self._names)

    def _totals(self) -> None:
        totals = _Totals(self._report, self._views.counters(self._partition))
        self._room.take(self._families.add(_PARTITION, totals, _PLACE, self._place))
        capacity = {name: value for name, value in self._report.capacity.items() if self._shows(name)}
        self._gauges("licorne_capacity", "What all nodes have, by resource.", "resource", capacity)
        for measured in rows("MEASURED"):
            for metric in measured(self._views, self._report):
                self._measure(metric)

    def _measure(self, metric: Measured) -> None:
        """Add a metric of an extension."""
        kind, name, text, label, values = metric
        labels = (*_PLACE, label) if label else _PLACE
        here: dict[Labels, Any] = {(of,) if label else (): value for of, value in values.items()}
        if kind == "histogram":
            histograms = {(*self._place, *of): one for of, one in here.items()}
            self._families.histogram(name, text, labels, histograms)
            self._room.take(sum(len(one.bounds) + 3 for one in values.values()))
        else:
            self._room.take(self._families.put(kind, name, text, labels, here, self._place))

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

    def _usage(self, kind: str, census: Census) -> Iterator[None]:
        """Usage of users or groups: the first by name have metrics of their own."""
        shown: list[str] = []
        for part in parts(census.running):
            yield
            shown = nsmallest(MAX_NAMES, [*shown, *(name for of, name in part if of == kind)])
        own = set(shown)
        self._room.take(len(own))
        labels, text = (*_PLACE, "kind", "name"), "What users and groups have, by resource."
        usage = self._families.family("gauge", "licorne_usage", text, (*labels, "resource"))
        text = "Applications of users and groups that have an allocation."
        running = self._families.family("gauge", "licorne_usage_applications", text, labels)
        for part in parts(census.running):
            yield
            for name in (name for of, name in part if of == kind):
                where = (*self._place, kind, name if name in own else OTHERS)
                running.add(where, census.running[kind, name])
                for resource, value in census.usage[kind, name].items():
                    if self._shows(resource):
                        usage.add((*where, resource), value)
                        if name in own:
                            self._room.take(1)

    def _shows(self, resource: str) -> bool:
        if resource not in self._resources:
            if len(self._resources) >= MAX_RESOURCES:
                return False
            self._resources.add(resource)
        return True

    def _gauges(self, name: str, text: str, label: str, values: Mapping[str, int]) -> None:
        here: dict[Labels, float] = {(of,): value for of, value in values.items()}
        self._room.take(self._families.put("gauge", name, text, (*_PLACE, label), here, self._place))


def _owned(ownership: Ownership) -> int:
    """Number of RMs that this member owns."""
    me = ownership.me()
    return sum(record.owner == me for record in ownership.snapshot().rms.values())


DEPLOYMENT = (
    gauge(
        "licorne_members",
        "Members of the deployment, this one included; 0 for a server that is alone.",
        lambda ownership: len(ownership.snapshot().members),
    ),
    gauge("licorne_rms_owned", "RMs whose owner this member is.", _owned),
    counter(
        "licorne_rms_moved_total",
        "RMs that this member gave to others.",
        lambda ownership: ownership.counts().moved,
    ),
    counter(
        "licorne_member_renewals_total",
        "Renewals of this member's lease.",
        lambda ownership: ownership.counts().renewals,
    ),
    counter(
        "licorne_member_renewal_failures_total",
        "Renewals of this member's lease that failed.",
        lambda ownership: ownership.counts().failures,
    ),
    counter(
        "licorne_member_fenced_total",
        "Times that this member stopped deciding because it could not renew its lease in time.",
        lambda ownership: ownership.counts().fenced,
    ),
)
"""Metrics of `Ownership`."""


MAX_BUDGETS = 100
"""Maximum number of budgets with metrics; budgets nearer to the top of the file are preferred."""

MAX_HOLDERS = 50
"""Maximum number of RMs of a budget with metrics of their own, in order of their ids."""

MAX_BUDGET_RESOURCES = 16
"""Maximum number of resources of a budget with metrics, in order of their names."""


_LIMIT = ("licorne_budget_limit", "Limits of budgets over RMs.")
_OF_RMS = (
    ("used", "licorne_budget_used", "What RMs use of budgets."),
    ("slice", "licorne_budget_slice", "What RMs may use of budgets, where several members share these."),
    ("overdraft", "licorne_budget_overdraft", "What RMs use beyond their slices."),
)


def gather_budgets(budgets: Iterable[BudgetState], families: Families) -> Iterator[None]:
    """Add the metrics of budgets, one budget at each step; the caller may pause at each."""
    for number, budget in enumerate(budgets):
        yield
        if number >= MAX_BUDGETS:
            return
        names = sorted(budget.limit)[:MAX_BUDGET_RESOURCES]
        _put(families, *_LIMIT, (budget.name,), budget.limit, names)
        # Each member publishes the metrics of its own RMs.
        holdings = [holding for holding in budget.holdings if holding.here]
        for place, holding in enumerate(holdings):
            where = (budget.name, str(holding.rm_id) if place < MAX_HOLDERS else OTHERS)
            for field, name, text in _OF_RMS:
                _put(families, name, text, where, getattr(holding, field), names)


def _put(
    families: Families, name: str, text: str, where: tuple[str, ...], amounts: Resources, names: list[str]
) -> None:
    labels = ("budget", "rm", "resource") if len(where) > 1 else ("budget", "resource")
    values: dict[tuple[str, ...], float] = {(one,): amounts[one] for one in names if one in amounts}
    families.put("gauge", name, text, labels, values, where)
