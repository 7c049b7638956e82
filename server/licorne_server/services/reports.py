"""The core's reports as messages of `licorne.v1.State`."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar, assert_never

from google.protobuf.message import Message

from licorne.v1 import state_pb2 as pb
from licorne_core.messages.backfill import BehindReservationCheck
from licorne_core.messages.budgets import BudgetCheck
from licorne_core.messages.fairness import FairShareReport, HoursCheck, HoursReport
from licorne_core.messages.operators import HeldCheck, OperatorMark, StoppedQueueCheck
from licorne_core.messages.reasons import (
    AnswersCheck,
    AskBackOffCheck,
    BackOffCheck,
    Check,
    GangCheck,
    LimitCheck,
    NodesCheck,
    PartitionCheck,
    PreemptionCheck,
    QueueCheck,
    RunningCheck,
    StartingCheck,
    StateCheck,
)
from licorne_core.messages.reports import Explanation, OutstandingShape
from licorne_core.messages.topology import TopologyCheck
from licorne_core.scheduling.preemption.ledger import PreemptionRecord, QueueNumbers, Spared
from licorne_core.values.asks import Allocation, HolderReason
from licorne_core.values.ids import PartitionName
from licorne_core.values.resources import Resources, clamp
from licorne_core.values.rm_caps import RmCaps, RmCounts
from licorne_core.views.applications import AppReport, AskLogEntry, AskReport, TaskGroupReport
from licorne_core.views.fields import Moment, Source, Unit, renamed
from licorne_core.views.nodes import AllocationReport, DrainReport, NodeReport, ReservationReport
from licorne_core.views.partitions import PartitionReport, RmReport
from licorne_core.views.queues import QueueReport, QueueUsage, UsageReport
from licorne_server.coordination.budgets import BudgetState, HoldingState
from licorne_server.rms.rm import Rm
from licorne_server.wire.responses import nanoseconds

MaySee = Callable[[str], bool] | None
"""The RMs that a caller may see; None for all."""

M = TypeVar("M", bound=Message)
R = TypeVar("R")


def amounts(size: Resources | None) -> Mapping[str, int]:
    """A resource, its amounts clamped to the range of the wire."""
    return {name: clamp(value) for name, value in size.items()} if size else {}


_UNITS: Mapping[Any, Unit] = {Resources: amounts, Moment: nanoseconds}


def filled(
    message: type[M], report: type[R], names: Mapping[str, Source | None] | None = None
) -> Callable[[R], M]:
    """The function that makes a message of a report; `names` has sources of other names.

    A field with None there is filled by the caller.
    """
    known = names or {}
    sources = {item.name: known.get(item.name, item.name) for item in message.DESCRIPTOR.fields}
    given = {name: source for name, source in sources.items() if source is not None}
    return renamed(report, given, _UNITS, message)


def mark_message(mark: OperatorMark | None) -> pb.OperatorMark | None:
    """What an operator did; None for nothing."""
    if mark is None:
        return None
    return pb.OperatorMark(by=mark.by, time=nanoseconds(mark.time), message=mark.message)


partition_message = filled(pb.Partition, PartitionReport)
_fair_share = filled(pb.FairShare, FairShareReport)
_hours_budget = filled(pb.HoursBudget, HoursReport, {"resets_at": ("resets_at", nanoseconds)})


def fair_share_message(report: FairShareReport | None) -> pb.FairShare | None:
    """Decayed usage; None for nothing."""
    return None if report is None else _fair_share(report)


queue_message = filled(
    pb.Queue,
    QueueReport,
    {
        "stop": ("stop", mark_message),
        "fair_share": ("fair_share", fair_share_message),
        "hours_budgets": lambda queue: map(_hours_budget, queue.hours_budgets),
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
        "backoff_deadline": "backoff_until",
        "reservations": "reserved",
        "gang_scheduling_style": "gang_style",
        "task_groups": lambda app: map(_task_group_message, app.task_groups),
        "asks": None,
        "allocations": None,
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
_allocation_message = filled(
    pb.Allocation,
    Allocation,
    {
        **_ASKED,
        "request_time": ("request_time", nanoseconds),
        "allocation_time": ("allocation_time", nanoseconds),
        "stopping": None,
        "notice_deadline": None,
        "checkpoint": None,
    },
)


def allocation_message(report: AllocationReport) -> pb.Allocation:
    """One allocation, with the notice or the stop of a victim."""
    message = _allocation_message(report.allocation)
    message.stopping = report.stopping
    message.notice_deadline = nanoseconds(report.notice_deadline)
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
    """One victim of preemption, with its preemptor or the reason."""
    message = _preemption_message(record)
    message.partition = partition
    return message


def _reason_message(reason: HolderReason) -> pb.HolderReason:
    return pb.HolderReason(code=reason.code, message=reason.text, lacks=amounts(reason.lacks))


reservation_message = filled(
    pb.Reservation,
    ReservationReport,
    {"application_id": "app_id", "allocation_key": "key", "reason": ("reason", _reason_message)},
)
_drain_message = filled(pb.NodeDrain, DrainReport)
_node_message = filled(
    pb.Node,
    NodeReport,
    {
        "reservation_count": "reserved",
        "reservations": None,
        "cordon": ("cordon", mark_message),
        "drain": ("drain", lambda drain: drain and _drain_message(drain)),
    },
)


def node_message(report: NodeReport, reservations: Iterable[ReservationReport]) -> pb.Node:
    """One node, without its allocations, and the first of its reservations."""
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
        "fair_share": ("fair_share", fair_share_message),
    },
    _UNITS,
    dict,
)


def usage_messages(reports: Iterable[UsageReport | None]) -> Iterator[pb.Usage | None]:
    """Usage of each user or group, queue by queue; a None wherever the reader may pause."""
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
    """Add the queues below, one by one."""
    yield
    for child in usage.children:
        yield from _add_below(message.children.add(**_queue_usage(child)), child)


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
    """One budget, with the RMs that the caller may see."""
    message = _budget_message(budget)
    message.holdings.extend(
        _holding_message(one) for one in budget.holdings if may_see is None or may_see(one.rm_id)
    )
    return message


outstanding_message = filled(pb.OutstandingShape, OutstandingShape)

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
    """One RM with its usage and its limits."""
    message = _rm_message(report)
    message.connected = rm.connected
    message.since = nanoseconds(rm.since)
    message.over_session = rm.session is not None
    message.caps.CopyFrom(_counts_message(caps))
    return message


def explain_message(report: Explanation, may_see: MaySee) -> pb.ExplainResponse:
    """The explanation of an ask's state, with the RMs that the caller may see."""
    return pb.ExplainResponse(
        allocation_key=report.key,
        application_id=report.app_id,
        queue=report.queue,
        verdict=report.verdict,
        summary=report.summary,
        checks=[_check_message(_seen(check, may_see)) for check in report.checks],
        asks_ahead=report.asks_ahead,
        applications_ahead=report.applications_ahead,
    )


def _seen(check: Check, may_see: MaySee) -> Check:
    """The check without RMs that the caller may not see."""
    if may_see is None or not isinstance(check, BudgetCheck):
        return check
    return replace(check, holders=tuple(held for held in check.holders if may_see(held[0])))


def _check_message(check: Check) -> pb.Check:
    code = "" if check.passed else check.code
    message = pb.Check(passed=check.passed, code=code, message=check.message())
    match check:
        case PartitionCheck():
            message.kind, message.subject = "partition", check.partition
        case StateCheck() | HeldCheck():
            message.kind, message.subject = "application", check.app_id
            message.since = nanoseconds(check.mark.time) if isinstance(check, HeldCheck) else 0
        case StartingCheck() | StoppedQueueCheck():
            message.kind = "starting" if isinstance(check, StartingCheck) else "stopped"
            message.subject = check.queue
        case BackOffCheck() | AskBackOffCheck():
            message.kind = "backoff"
            message.subject = check.app_id if isinstance(check, BackOffCheck) else check.key
            message.until = nanoseconds(check.until)
        case RunningCheck():
            message.kind, message.subject = "running", check.subject
        case LimitCheck() | QueueCheck() | HoursCheck():
            _add_quota(message, check)
        case BudgetCheck():
            _add_budget(message, check)
        case AnswersCheck():
            message.kind = "predicates"
        case GangCheck() | TopologyCheck():
            _add_gang(message, check)
        case PreemptionCheck():
            _add_preemption(message, check)
        case BehindReservationCheck() | NodesCheck():
            _add_nodes(message, check)
        case _:
            assert_never(check)
    return message


def _add_gang(message: pb.Check, check: GangCheck | TopologyCheck) -> None:
    if isinstance(check, GangCheck):
        message.kind, message.subject = "gang", check.task_group
        message.until = nanoseconds(check.until)
    else:
        message.kind, message.subject = "topology", check.domain


def _add_budget(message: pb.Check, check: BudgetCheck) -> None:
    message.kind, message.subject = "budget", check.budget
    message.requested.update(amounts(check.requested))
    message.used.update(amounts(check.used))
    message.limit.update(amounts(check.bound))
    message.holders.extend(pb.BudgetHolder(rm_id=rm_id, used=amounts(used)) for rm_id, used in check.holders)


def _add_quota(message: pb.Check, check: LimitCheck | QueueCheck | HoursCheck) -> None:
    message.requested.update(amounts(check.requested))
    if isinstance(check, HoursCheck):
        message.kind, message.subject = "hours", check.queue
        message.until = nanoseconds(check.until)
        return
    if isinstance(check, LimitCheck):
        message.kind, message.subject = check.kind, f"{check.name} in {check.queue}"
    else:
        message.kind, message.subject = "queue", check.queue
    message.used.update(amounts(check.allocated))
    message.limit.update(amounts(check.max))


def _add_nodes(message: pb.Check, check: BehindReservationCheck | NodesCheck) -> None:
    if isinstance(check, BehindReservationCheck):
        message.kind, message.subject = "backfill", check.app_id
        message.until = nanoseconds(check.start)
        return
    message.kind, message.subject = "nodes", check.required_node or ""
    message.causes.update(check.causes)
    message.more_queues = check.more_queues
    message.reserved_for.extend(
        pb.QueueReservations(
            queue=found.queue,
            nodes=found.nodes,
            idle=found.idle,
            kept=amounts(found.kept),
            reason=_reason_message(found.reason),
        )
        for found in check.reserved_for
    )
    bound = check.bound
    if bound is not None:
        message.reservation_bound.CopyFrom(
            pb.ReservationBound(whom=bound.whom, reserved=bound.reserved, most=bound.most, key=bound.key)
        )


def _add_preemption(message: pb.Check, check: PreemptionCheck) -> None:
    message.kind, message.subject = "preemption", check.queue
    message.until = nanoseconds(check.until)
    message.causes.update(check.causes)
    message.requested.update(amounts(check.requested))
    message.used.update(amounts(check.settled))
    message.limit.update(amounts(check.guaranteed))
