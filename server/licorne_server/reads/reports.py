"""The core's reports as messages of `licorne.v1.State`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from google.protobuf.message import Message

from licorne.v1 import state_pb2 as pb
from licorne_core.messages.operators import OperatorMark
from licorne_core.messages.preemption import PreemptionRecord, QueueNumbers, Spared
from licorne_core.values.asks import Allocation, HolderReason
from licorne_core.values.ids import PartitionName
from licorne_core.values.resources import Resources, clamp
from licorne_core.values.rm_caps import RmCaps, RmCounts
from licorne_core.views.applications import AppReport, AskLogEntry, AskReport, TaskGroupReport
from licorne_core.views.fields import Moment, Source, Unit, renamed, types_of
from licorne_core.views.nodes import AllocationReport, NodeReport, ReservationReport
from licorne_core.views.partitions import PartitionReport, RmReport
from licorne_core.views.queues import QueueReport, QueueUsage, UsageReport
from licorne_server.rms.budgets.members import BudgetState, HoldingState
from licorne_server.rms.rm import Rm
from licorne_server.wire.features import Reports, names, table
from licorne_server.wire.responses import nanoseconds

MaySee = Callable[[str], bool] | None
"""The RMs that a caller may see; None for all."""

M = TypeVar("M", bound=Message)
R = TypeVar("R")


def amounts(size: Resources | None) -> Mapping[str, int]:
    """The amounts of a resource, clamped to the range of the wire format."""
    return {name: clamp(value) for name, value in size.items()} if size else {}


EMPTY: Final[list[str]] = []
"""Fields of messages that no report fills; empty if all extensions are installed."""

_UNITS: Mapping[Any, Unit] = {Resources: amounts, Moment: nanoseconds}


def filled(
    message: type[M], report: type[R], names: Mapping[str, Source | None] | None = None
) -> Callable[[R], M]:
    """Make the function that turns a report into a message; `names` has sources with other names.

    If `names` maps a field to None, the caller fills it. A field that the report lacks belongs to an
    extension that is not installed.
    """
    known, own = names or {}, types_of(report)
    sources = {item.name: known.get(item.name, item.name) for item in message.DESCRIPTOR.fields}
    given = {name: it for name, it in sources.items() if it is not None and (name in known or name in own)}
    EMPTY.extend(f"{message.DESCRIPTOR.name}.{name}" for name in sources if name not in {*given, *known})
    return renamed(report, given, _UNITS, message)


def mark_message(mark: OperatorMark | None) -> pb.OperatorMark | None:
    """The mark of an operator; None without one."""
    if mark is None:
        return None
    return pb.OperatorMark(by=mark.by, time=nanoseconds(mark.time), message=mark.message)


partition_message = filled(pb.Partition, PartitionReport)


def _of_extensions(of: str) -> dict[str, Source]:
    """Fields of extensions that have their own reports, by name."""
    reports: Iterable[Reports] = table(of).values()
    return {item.field: (item.field, item.unit(filled(item.message, item.report))) for item in reports}


queue_message = filled(
    pb.Queue,
    QueueReport,
    {
        "stop": ("stop", mark_message),
        **_of_extensions("QUEUE_REPORTS"),
    },
)
_task_group_message = filled(pb.TaskGroup, TaskGroupReport)
application_message = filled(
    pb.Application,
    AppReport,
    {
        "application_id": "app_id",
        "rejected_message": "message",
        "pending_asks": "pending_count",
        "state_log": lambda app: [
            pb.StateChange(time=nanoseconds(time), state=state) for time, state in app.state_log
        ],
        **names("APPLICATION_OF_STATE"),
        "reservations": "reserved",
        "gang_scheduling_style": "gang_style",
        "task_groups": lambda app: map(_task_group_message, app.task_groups),
        "asks": None,
        "allocations": None,
        "reason": None,
        "hold": lambda app: mark_message(app.hold),
        "change": lambda app: mark_message(app.change),
    },
)
_ASKED: Mapping[str, Source] = {
    "allocation_key": "ask.key",
    "application_id": "ask.app_id",
    "resources": ("ask.ask_class.resources", amounts),
    "priority": "ask.priority",
    "tags": "ask.tags",
    "placeholder": "ask.placeholder",
    "task_group": "ask.task_group",
}
_log_message = filled(pb.AllocationLogEntry, AskLogEntry)
ask_message = filled(
    pb.Ask,
    AskReport,
    {
        **_ASKED,
        "allocation_log": lambda report: map(_log_message, report.allocation_log),
        "required_node": ("ask.ask_class.required_node", lambda node_id: node_id or ""),
    },
)
_STAY = names("ALLOCATION_OF_STATE")
_allocation_message = filled(
    pb.Allocation,
    Allocation,
    {
        **_ASKED,
        "request_time": ("request_time", nanoseconds),
        "allocation_time": ("allocation_time", nanoseconds),
        "stopping": None,
        **dict.fromkeys(_STAY),
        "checkpoint": None,
    },
)


def allocation_message(report: AllocationReport) -> pb.Allocation:
    """The message about an allocation, with the preemption of a victim."""
    message = _allocation_message(report.allocation)
    message.stopping = report.stopping
    if report.stay is not None:
        for name, of in _STAY.items():
            setattr(message, name, of(report.stay))
    message.checkpoint = nanoseconds(report.checkpoint)
    return message


_preemption_queue = filled(pb.PreemptionQueue, QueueNumbers)
_spared_message = filled(pb.SparedAllocation, Spared, {"application_id": "app_id", "allocation_key": "key"})
_preemption_message = filled(
    pb.Preemption,
    PreemptionRecord,
    {
        "partition": None,
        "application_id": "app_id",
        "allocation_key": "key",
        "time": ("time", nanoseconds),
        "rule": "rule.value",
        "beneficiary_application_id": "beneficiary_app_id",
        "beneficiary_allocation_key": "beneficiary_key",
        "victim_queue": ("victim_queue", _preemption_queue),
        "beneficiary_queue": (
            "beneficiary_queue",
            lambda queue: queue and _preemption_queue(queue),
        ),
        "released_time": ("released_time", nanoseconds),
        "noticed_time": ("noticed_time", nanoseconds),
        "checkpoint": ("checkpoint", lambda time: nanoseconds(time or 0.0)),
        "spared": ("spared", lambda spared: spared and _spared_message(spared)),
    },
)


def preemption_message(partition: PartitionName, record: PreemptionRecord) -> pb.Preemption:
    """The message about a victim of preemption, with its preemptor or the reason."""
    message = _preemption_message(record)
    message.partition = partition
    return message


def reason_message(reason: HolderReason) -> pb.HolderReason:
    """The reason why the ask of a reservation waits."""
    return pb.HolderReason(code=reason.code, message=reason.text, lacks=amounts(reason.lacks))


reservation_message = filled(
    pb.Reservation,
    ReservationReport,
    {"application_id": "app_id", "allocation_key": "key", "reason": ("reason", reason_message)},
)
_node_message = filled(
    pb.Node,
    NodeReport,
    {
        "reservation_count": "reserved",
        "reservations": None,
        "drained": ("closed", lambda closed: closed is not None),
        "cordon": ("closed", mark_message),
        **names("NODE_OF_STATE"),
    },
)


def node_message(report: NodeReport, reservations: Iterable[ReservationReport]) -> pb.Node:
    """The message about a node, with the first of its reservations, without its allocations."""
    message = _node_message(report)
    message.reservations.extend(map(reservation_message, reservations))
    return message


_queue_usage: Callable[[QueueUsage], dict[str, Any]] = renamed(
    QueueUsage,
    {
        "queue": "path",
        "allocated": "allocated",
        "running_applications": "applications",
        "max": "max",
        "max_applications": "max_applications",
        **_of_extensions("USAGE_REPORTS"),
    },
    _UNITS,
    dict,
)


def usage_messages(reports: Iterable[UsageReport | None]) -> Iterator[pb.Usage | None]:
    """Usage of each user or group, queue by queue; None where the reader may pause."""
    for report in reports:
        if report is None:
            yield None
            continue
        message = pb.Usage(name=report.name, root=pb.QueueUsage(**_queue_usage(report.queues)))
        for app_id, group in report.groups.items():
            message.application_groups[app_id] = group
            yield None
        for _ in _add_below(message.root, report.queues):
            yield None
        yield message


def _add_below(message: pb.QueueUsage, usage: QueueUsage) -> Iterator[None]:
    """Add the descendants of a queue, one by one."""
    yield
    for child in usage.children:
        yield from _add_below(message.children.add(**_queue_usage(child)), child)


_counts_message: Callable[[RmCounts | RmCaps], pb.RmAmounts] = filled(pb.RmAmounts, RmCounts)
_rm_message = filled(
    pb.ResourceManager,
    RmReport,
    {
        "counts": ("counts", _counts_message),
        **dict.fromkeys(("connected", "since", "over_session", "caps")),
    },
)


def rm_message(rm: Rm, report: RmReport, caps: RmCaps) -> pb.ResourceManager:
    """The message about an RM, with its usage and its limits."""
    message = _rm_message(report)
    message.connected = rm.connected
    message.since = nanoseconds(rm.since)
    message.over_session = not rm.session.over_si
    message.caps.CopyFrom(_counts_message(caps))
    return message


_holding_message = filled(pb.BudgetHolding, HoldingState)
_budget_message = filled(
    pb.Budget,
    BudgetState,
    {
        "members": lambda budget: [
            pb.BudgetMember(rm=member.rm, partition=member.partition, queue=member.queue)
            for member in budget.members
        ],
        "holdings": None,
    },
)


def budget_message(budget: BudgetState, may_see: MaySee) -> pb.Budget:
    """The message about a budget, with the RMs that the caller may see."""
    message = _budget_message(budget)
    message.holdings.extend(
        _holding_message(one) for one in budget.holdings if may_see is None or may_see(one.rm_id)
    )
    return message


def merged_budgets(_: Any, answers: Sequence[pb.ListBudgetsResponse]) -> Message:
    """The budgets of this member, with the usage by other members' RMs added."""
    whole = answers[0]
    budgets = {budget.name: budget for budget in whole.budgets}
    places = {
        (name, holding.rm_id): holding for name, budget in budgets.items() for holding in budget.holdings
    }
    for answer in answers[1:]:
        for other in answer.budgets:
            for holding in other.holdings:
                place = places.get((other.name, holding.rm_id))
                if place is None or place.here or not holding.here:
                    continue
                place.CopyFrom(holding)
                used = budgets[other.name].used
                for resource, value in holding.used.items():
                    used[resource] += value
    return whole
