"""The core's reports as messages of `licorne.v1.State`."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar, assert_never

from google.protobuf.message import Message

from licorne.v1 import state_pb2 as pb
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
    StoppedQueueCheck,
)
from licorne_core.messages.reports import (
    AskReport,
    Explanation,
    OutstandingShape,
    QueueUsage,
    ReservationReport,
    UsageReport,
)
from licorne_core.scheduling.preemption.ledger import PreemptionRecord, QueueNumbers
from licorne_core.values.asks import Allocation
from licorne_core.values.ids import PartitionName
from licorne_core.values.reservations import HolderReason
from licorne_core.values.resources import Resources, clamp
from licorne_core.views.applications import AppReport, TaskGroupReport
from licorne_core.views.fields import Moment, Source, Unit, renamed
from licorne_core.views.nodes import NodeReport
from licorne_core.views.partitions import PartitionReport
from licorne_core.views.queues import QueueReport
from licorne_server.wire.responses import nanoseconds

M = TypeVar("M", bound=Message)
R = TypeVar("R")


def amounts(size: Resources | None) -> Mapping[str, int]:
    """A resource, its amounts clamped to the range of the wire."""
    return {name: clamp(value) for name, value in size.items()} if size else {}


_UNITS: Mapping[Any, Unit] = {Resources: amounts, Moment: nanoseconds}


def _filled(
    message: type[M], report: type[R], names: Mapping[str, Source | None] | None = None
) -> Callable[[R], M]:
    """The function that makes a message of a report; `names` has sources of other names.

    A field with None there is filled by the caller.
    """
    known = names or {}
    sources = {item.name: known.get(item.name, item.name) for item in message.DESCRIPTOR.fields}
    given = {name: source for name, source in sources.items() if source is not None}
    form = renamed(report, given, _UNITS)
    return lambda item: message(**form(item))


partition_message = _filled(pb.Partition, PartitionReport)
queue_message = _filled(pb.Queue, QueueReport)
_task_group_message = _filled(pb.TaskGroup, TaskGroupReport)
application_message = _filled(
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
    },
)
_node_message = _filled(
    pb.Node, NodeReport, {"reservation_count": "reserved", "reservations": None}
)


def node_message(report: NodeReport, reservations: Iterable[ReservationReport]) -> pb.Node:
    """One node, without its allocations, and the first of its reservations."""
    message = _node_message(report)
    message.reservations.extend(map(reservation_message, reservations))
    return message


def ask_message(report: AskReport) -> pb.Ask:
    """One ask that the RM has no allocation for yet."""
    ask = report.ask
    return pb.Ask(
        allocation_key=ask.key,
        application_id=ask.app_id,
        resources=amounts(ask.ask_class.resources),
        priority=ask.priority,
        request_time=nanoseconds(report.request_time),
        tags=ask.tags,
        allocation_log=[
            pb.AllocationLogEntry(
                message=entry.message, last_time=nanoseconds(entry.last_time), count=entry.count
            )
            for entry in report.allocation_log
        ],
        scheduling_attempted=report.scheduling_attempted,
        triggered_scale_up=report.triggered_scale_up,
        reserved_node=report.reserved_node,
        assumed_node=report.assumed_node,
        required_node=ask.ask_class.required_node or "",
        placeholder=ask.placeholder,
        task_group=ask.task_group,
        replaces=report.replaces,
        triggered_preemption=report.triggered_preemption,
    )


def allocation_message(allocation: Allocation, stopping: str) -> pb.Allocation:
    """One allocation; `stopping` is the reason of a stop requested from the RM, if any."""
    ask = allocation.ask
    return pb.Allocation(
        allocation_key=ask.key,
        application_id=ask.app_id,
        node_id=allocation.node_id,
        resources=amounts(ask.ask_class.resources),
        priority=ask.priority,
        request_time=nanoseconds(allocation.request_time),
        allocation_time=nanoseconds(allocation.allocation_time),
        tags=ask.tags,
        placeholder=ask.placeholder,
        task_group=ask.task_group,
        placeholder_used=allocation.placeholder_used,
        stopping=stopping,
    )


def preemption_message(partition: PartitionName, record: PreemptionRecord) -> pb.Preemption:
    """One victim of preemption, with its preemptor or the reason."""
    queue = record.beneficiary_queue
    return pb.Preemption(
        partition=partition,
        application_id=record.app_id,
        allocation_key=record.key,
        node_id=record.node_id,
        resources=amounts(record.resources),
        priority=record.priority,
        time=nanoseconds(record.time),
        rule=record.rule.value,
        beneficiary_application_id=record.beneficiary_app_id,
        beneficiary_allocation_key=record.beneficiary_key,
        beneficiary_priority=record.beneficiary_priority,
        victim_queue=_preemption_queue_message(record.victim_queue),
        beneficiary_queue=None if queue is None else _preemption_queue_message(queue),
        released_time=nanoseconds(record.released_time),
    )


def _preemption_queue_message(numbers: QueueNumbers) -> pb.PreemptionQueue:
    return pb.PreemptionQueue(
        path=numbers.path,
        guaranteed=amounts(numbers.guaranteed),
        max=amounts(numbers.max),
        allocated=amounts(numbers.allocated),
        preempting=amounts(numbers.preempting),
        promised=amounts(numbers.promised),
    )


def reservation_message(report: ReservationReport) -> pb.Reservation:
    """One reserved node, and its ask."""
    return pb.Reservation(
        node_id=report.node_id,
        application_id=report.app_id,
        allocation_key=report.key,
        time=nanoseconds(report.time),
        required=report.required,
        queue=report.queue,
        kept=amounts(report.kept),
        exclusive=report.exclusive,
        idle_since=nanoseconds(report.idle_since),
        reason=_reason_message(report.reason),
    )


def _reason_message(reason: HolderReason) -> pb.HolderReason:
    return pb.HolderReason(code=reason.code, message=reason.text, lacks=amounts(reason.lacks))


def usage_messages(reports: Iterable[UsageReport | None]) -> Iterator[pb.Usage | None]:
    """Usage of each user or group, queue by queue; a None wherever the reader may pause."""
    for report in reports:
        if report is None:
            yield None
            continue
        message = pb.Usage(name=report.name)
        for app_id, group in report.groups.items():
            message.application_groups[app_id] = group
            yield None
        for _ in _fill_usage(message.root, report.queues):
            yield None
        yield message


def _fill_usage(message: pb.QueueUsage, usage: QueueUsage) -> Iterator[None]:
    """Fill a message queue by queue."""
    message.queue = usage.path
    message.allocated.update(amounts(usage.allocated))
    message.running_applications.extend(usage.applications)
    message.max.update(amounts(usage.max))
    message.max_applications = usage.max_applications
    yield
    for child in usage.children:
        yield from _fill_usage(message.children.add(), child)


def outstanding_message(shape: OutstandingShape) -> pb.OutstandingShape:
    """One size of asks that need a larger cluster."""
    return pb.OutstandingShape(
        resources=amounts(shape.resources),
        count=shape.count,
        queues={str(path): count for path, count in shape.queues.items()},
    )


def explain_message(report: Explanation) -> pb.ExplainResponse:
    """The explanation of an ask's state."""
    return pb.ExplainResponse(
        allocation_key=report.key,
        application_id=report.app_id,
        queue=report.queue,
        verdict=report.verdict,
        summary=report.summary,
        checks=[_check_message(check) for check in report.checks],
        asks_ahead=report.asks_ahead,
        applications_ahead=report.applications_ahead,
    )


def _check_message(check: Check) -> pb.Check:
    message = pb.Check(passed=check.passed, code=check.code, message=check.message())
    match check:
        case PartitionCheck():
            message.kind, message.subject = "partition", check.partition
        case StateCheck():
            message.kind, message.subject = "application", check.app_id
        case StartingCheck() | StoppedQueueCheck():
            message.kind = "starting" if isinstance(check, StartingCheck) else "stopped"
            message.subject = check.queue
        case BackOffCheck() | AskBackOffCheck():
            message.kind = "backoff"
            message.subject = check.app_id if isinstance(check, BackOffCheck) else check.key
            message.until = nanoseconds(check.until)
        case RunningCheck():
            message.kind, message.subject = "running", check.subject
        case LimitCheck():
            message.kind, message.subject = check.kind, f"{check.name} in {check.queue}"
            _add_quota(message, check)
        case QueueCheck():
            message.kind, message.subject = "queue", check.queue
            _add_quota(message, check)
        case AnswersCheck():
            message.kind = "predicates"
        case GangCheck():
            message.kind, message.subject = "gang", check.task_group
            message.until = nanoseconds(check.until)
        case PreemptionCheck():
            _add_preemption(message, check)
        case NodesCheck():
            _add_nodes(message, check)
        case _:
            assert_never(check)
    return message


def _add_quota(message: pb.Check, check: LimitCheck | QueueCheck) -> None:
    message.requested.update(amounts(check.requested))
    message.used.update(amounts(check.allocated))
    message.limit.update(amounts(check.max))


def _add_nodes(message: pb.Check, check: NodesCheck) -> None:
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
            pb.ReservationBound(
                whom=bound.whom, reserved=bound.reserved, most=bound.most, key=bound.key
            )
        )


def _add_preemption(message: pb.Check, check: PreemptionCheck) -> None:
    message.kind, message.subject = "preemption", check.queue
    message.until = nanoseconds(check.until)
    message.causes.update(check.causes)
    message.requested.update(amounts(check.requested))
    message.used.update(amounts(check.settled))
    message.limit.update(amounts(check.guaranteed))
