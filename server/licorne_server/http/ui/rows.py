"""Rows of the page's lists, as short JSON, in the units of REST.

Times are in milliseconds since 1970, which JavaScript represents exactly; 0 stands for no time.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from licorne_core.messages.operators import OperatorMark
from licorne_core.messages.preemption import PreemptionRecord
from licorne_core.values.ids import PartitionName
from licorne_core.values.rm_caps import RmCaps, RmCounts
from licorne_core.views.applications import AppReport, TaskGroupReport
from licorne_core.views.fields import Moment, Source, renamed
from licorne_core.views.nodes import AllocationReport, NodeReport, ReservationReport, StayReport
from licorne_core.views.obstacles import FirstObstacle
from licorne_core.views.partitions import PartitionReport, RmReport
from licorne_core.views.queues import QueueReport, QueueUsage, UsageReport
from licorne_core.views.readings import Numbers
from licorne_server.http.stream import JsonObject, Rows, array_of
from licorne_server.http.units import mark_json, milliseconds, reports_of
from licorne_server.reads.verdict import OF_MEMBER, Finding
from licorne_server.wire.features import PageList, names, table

R = TypeVar("R")


class Key(NamedTuple):
    """Key of an entry: its kind, its RM, its partition and its name."""

    kind: str
    rm: str
    partition: str = ""
    name: str = ""


def _row(report: type[R], own: str, **names: Source) -> Callable[[R], dict[str, object]]:
    """Make the function that converts a report to a row: `own` names fields that are not renamed."""
    sources: dict[str, Source] = {name: name for name in own.split()}
    return renamed(report, {**sources, **names}, {Moment: milliseconds}, dict)


def _mark(mark: OperatorMark | None) -> JsonObject | None:
    return mark_json(mark, milliseconds)


def rm_row(rm: RmReport, connected: bool, since: float, caps: RmCaps) -> JsonObject:
    """The row of an RM: if and since when it is connected or disconnected, its usage and its limits."""
    return {
        **_rm(rm),
        "connected": connected,
        "since": milliseconds(since),
        "counts": _amounts(rm.counts),
        "caps": _amounts(caps),
    }


_amounts: Callable[[RmCounts | RmCaps], JsonObject] = _row(RmCounts, "queues nodes applications asks memory")
_rm = _row(
    RmReport,
    "version session partitions checksum",
    id="rm_id",
    policyGroup="policy_group",
    registered="registered_time",
    failedNodes=("failed_nodes", len),
)


def finding_row(one: Finding, member: str) -> JsonObject:
    """The row of a finding of the verdict, as reported by `member`."""
    of_member = member if one.concern in OF_MEMBER else ""
    return {
        "id": f"{of_member}/{one.concern}/{one.name}/{one.rm_id}",
        "severity": one.severity.word,
        "concern": one.concern,
        "name": one.name,
        "rm": one.rm_id,
        "text": one.text,
        "since": milliseconds(one.since),
        "member": of_member,
    }


def partition_row(partition: PartitionReport, numbers: Numbers, stopped: int, *, cut: bool) -> JsonObject:
    """The row of a partition; `cut` is True if some of its queues are left out.

    `stopped` counts the victims of the last hour.
    """
    return {**_partition(partition), **numbers._asdict(), "preemptions": stopped, "cut": cut}


_partition = _row(
    PartitionReport,
    "name state capacity allocated nodes allocations applications holds",
    bare="bare_name",
    rm="rm_id",
    pendingAsks="pending_asks",
    nodeSortPolicy="node_sort_policy",
    preemption="preemption_enabled",
    **names("PARTITION_ON_PAGE"),
)


def queue_row(partition: PartitionName, queue: QueueReport) -> JsonObject:
    """The row of a queue; siblings are ordered by `share`."""
    return {"partition": partition, **_queue(queue)}


_queue = _row(
    QueueReport,
    # Headroom is left out, as it would change in all queues whenever the usage of one changes.
    "path parent state guaranteed max allocated pending preempting applications",
    leaf="is_leaf",
    managed="is_managed",
    running="running_applications",
    maxApplications="max_applications",
    share=lambda queue: round(queue.share, 4),
    stop=("stop", _mark),
)


def application_row(name: str, app: AppReport, obstacle: FirstObstacle, text: str = "") -> JsonObject:
    """The row of an application in a list, with its unique name.

    The name of an ended application differs from its id, which another application may have. The reason is
    the obstacle of its first ask, and `text` the text of the reason, which lists add to displayed rows.
    """
    return {
        "name": name,
        **_application(app),
        "reason": {"code": obstacle.code, "text": text, "key": obstacle.key},
        "waitingSince": milliseconds(obstacle.since),
    }


_application = _row(
    AppReport,
    "queue user state allocated pending message",
    id="app_id",
    placeholders="placeholder_allocated",
    pendingAsks="pending_count",
    allocations="allocation_count",
    submitted="submission_time",
    finished="finished_time",
    hold=("hold", _mark),
    change=("change", _mark),
    priority="operator_priority",
)


def application_detail(
    name: str, app: AppReport, obstacle: FirstObstacle, text: str, reservations: Iterable[ReservationReport]
) -> JsonObject:
    """The row of an application without its asks and allocations, which are read in pages."""
    row = application_row(name, app, obstacle, text)
    return {**row, **_detail(app), "reservations": Rows(reservations, reservation_row)}


_task_group = _row(TaskGroupReport, "name count replaced", timedOut="timed_out", size="min_resource")
_detail = _row(
    AppReport,
    "partition groups group",
    started="start_time",
    **names("APPLICATION_ON_PAGE"),
    maxAllocated="max_allocated",
    maxPriority="max_priority",
    ageBonus="age_bonus",
    stateLog=lambda app: [{"time": milliseconds(time), "state": state} for time, state in app.state_log],
    gangStyle="gang_style",
    placeholderCount="placeholder_count",
    placeholderAsk="placeholder_ask",
    placeholderDeadline="placeholder_deadline",
    taskGroups=lambda app: [_task_group(group) for group in app.task_groups],
)


reservation_row = _row(
    ReservationReport,
    "key queue time required kept",
    node="node_id",
    application="app_id",
    reason="reason.text",
)


def row_in_list(shown: PageList) -> Callable[[Any], JsonObject]:
    """Make the function that converts a report in an extension's list to a row."""
    units = {Moment: milliseconds}
    names = {name: (of[0], units[of[1]]) if isinstance(of, tuple) else of for name, of in shown.names.items()}
    return _row(shown.report, shown.own, **names)


def node_row(node: NodeReport, reservations: Iterable[ReservationReport]) -> JsonObject:
    """The row of a node in a list, with the first of its reservations."""
    return {**_node(node), "reservedFor": [reservation_row(found) for found in reservations]}


_node = _row(
    NodeReport,
    "schedulable capacity allocated occupied available reserved",
    id="node_id",
    utilization=lambda node: round(node.utilization, 4),
    allocations="allocation_count",
    foreign="foreign_count",
    cordon=("closed", _mark),
    **names("NODE_ON_PAGE"),
)


_STAY = names("ALLOCATION_ON_PAGE")


def stay_row(stay: StayReport | None) -> JsonObject:
    """The fields of a row about the notice of an allocation; each is None if it is under no notice."""
    return {name: None if stay is None else of(stay) for name, of in _STAY.items()}


def node_allocation_row(found: AllocationReport, app: AppReport | None) -> JsonObject:
    """The row of an allocation on a node; `app` is None if the allocation is of another scheduler."""
    allocation, ask = found.allocation, found.allocation.ask
    return {
        "key": ask.key,
        "application": ask.app_id,
        "queue": "" if app is None else app.queue,
        "user": "" if app is None else app.user,
        "resources": dict(ask.ask_class.resources),
        "since": milliseconds(allocation.allocation_time),
        "priority": ask.priority,
        "placeholder": ask.placeholder,
        "stopping": found.stopping,
        **stay_row(found.stay),
        "foreign": app is None,
    }


def heat_row(node: NodeReport, resources: tuple[str, ...]) -> list[object]:
    """The cell of a node in the heat map: the node's id, its state, and the usage of each resource.

    The state is 0 for schedulable, 1 for not schedulable, 2 for reserved. Usage is in thousandths of the
    capacity, -1 for a resource that the node lacks. Foreign allocations count as used.
    """
    state = 1 if not node.schedulable else 2 if node.reserved else 0
    row: list[object] = [node.node_id, state]
    for name in resources:
        capacity = node.capacity.get(name, 0)
        used = capacity - node.available.get(name, 0)
        row.append(max(0, min(1000, used * 1000 // capacity)) if capacity > 0 else -1)
    return row


usage_row = _row(
    UsageReport,
    "name pending asks",
    applications=("groups", len),
    running=("queues.applications", len),
    allocated="queues.allocated",
    max="queues.max",
    maxApplications="queues.max_applications",
)


def usage_detail(usage: UsageReport) -> JsonObject:
    """A user or a group: pending amounts, usage by queue, and the limiting group of each application."""
    return {
        "name": usage.name,
        "pending": dict(usage.pending),
        "asks": usage.asks,
        "applications": array_of(usage.groups.items()),
        "queues": Rows(_queues_of(usage.queues)),
    }


def _queues_of(usage: QueueUsage) -> Iterator[JsonObject]:
    """Usage in a queue, and in each queue below it."""
    yield _queue_usage(usage)
    for child in usage.children:
        yield from _queues_of(child)


_queue_usage: Callable[[QueueUsage], dict[str, object]] = renamed(
    QueueUsage,
    {
        "allocated": "allocated",
        "max": "max",
        "queue": "path",
        "running": ("applications", len),
        "maxApplications": "max_applications",
        **reports_of("USAGE_REPORTS"),
    },
    {},
    dict,
    tuple(table("USAGE_REPORTS")),
)


preemption_row = _row(
    PreemptionRecord,
    "number key priority ran",
    application="app_id",
    node="node_id",
    resources=("resources", dict),
    rule="rule.value",
    time=("time", milliseconds),
    released=("released_time", milliseconds),
    queue="victim_queue.path",
    forApplication="beneficiary_app_id",
    forKey="beneficiary_key",
    forQueue=lambda record: (record.beneficiary_queue and record.beneficiary_queue.path) or "",
)
