"""The answer to `State.Explain`, for a running server and for a replayed moment."""

from typing import assert_never

from licorne.v1 import state_pb2 as pb
from licorne_core.messages.checks import ExtensionCheck, RuleCheck, Shown
from licorne_core.messages.operators import HeldCheck, StoppedQueueCheck
from licorne_core.messages.reasons import (
    AnswersCheck,
    AskBackOffCheck,
    Check,
    GangCheck,
    LimitCheck,
    NodesCheck,
    PartitionCheck,
    PreemptionCheck,
    QueueCheck,
    RunningCheck,
    SizeCheck,
    StateCheck,
)
from licorne_core.messages.reports import Explanation
from licorne_core.messages.together import TogetherCheck
from licorne_core.values.asks import Passed, QueueReservations, ReservationBound
from licorne_core.values.ids import PartitionName
from licorne_core.views import Views
from licorne_server.reads.reports import MaySee, amounts, filled, preemption_message, reason_message
from licorne_server.wire.responses import nanoseconds


def answer(
    views: Views, partition: PartitionName, report: Explanation, may_see: MaySee
) -> pb.ExplainResponse:
    """The explanation, with the record of a victim. RMs that the caller may not see are left out."""
    message = explain_message(report, may_see)
    if report.is_victim:
        record = views.preemption(partition, report.app_id, report.key)
        assert record is not None, f"{report.key} is a victim, and has a record"
        message.preemption.CopyFrom(preemption_message(partition, record))
    return message


def explain_message(report: Explanation, may_see: MaySee) -> pb.ExplainResponse:
    """The answer that explains an ask's state. RMs that the caller may not see are left out of its checks."""
    return pb.ExplainResponse(
        allocation_key=report.key,
        application_id=report.app_id,
        queue=report.queue,
        verdict=report.verdict,
        summary=report.summary,
        checks=[_check_message(_seen(check, may_see)) for check in report.checks],
        asks_ahead=report.asks_ahead,
        applications_ahead=report.applications_ahead,
        age_bonus=report.age_bonus,
        passed=_passed(report.passed),
    )


def _passed(start: Passed | None) -> pb.PassedStart | None:
    if start is None:
        return None
    at = nanoseconds(start.start)
    return pb.PassedStart(application_id=start.app_id, allocation_key=start.key, starts_at=at)


def _seen(check: Check, may_see: MaySee) -> Check:
    """The check without RMs that the caller may not see."""
    return check if may_see is None or not isinstance(check, ExtensionCheck) else check.seen_by(may_see)


def _check_message(check: Check) -> pb.Check:
    code = "" if check.passed else check.code
    message = pb.Check(passed=check.passed, code=code, message=check.message())
    match check:
        case SizeCheck():
            _add_size(message, check)
        case PartitionCheck():
            message.kind, message.subject = "partition", check.partition
        case StateCheck() | HeldCheck():
            message.kind, message.subject = "application", check.app_id
            message.since = nanoseconds(check.mark.time) if isinstance(check, HeldCheck) else 0
        case StoppedQueueCheck():
            message.kind, message.subject = "stopped", check.queue
        case AskBackOffCheck():
            message.kind, message.subject, message.until = "backoff", check.key, nanoseconds(check.until)
        case RunningCheck():
            message.kind, message.subject = "running", check.subject
        case LimitCheck() | QueueCheck():
            _add_quota(message, check)
        case ExtensionCheck() | RuleCheck():
            _add_shown(message, check.shown())
        case AnswersCheck() | GangCheck() | TogetherCheck():
            _add_gang(message, check)
        case PreemptionCheck():
            _add_preemption(message, check)
        case NodesCheck():
            _add_nodes(message, check)
        case _:
            assert_never(check)
    return message


def _add_gang(message: pb.Check, check: AnswersCheck | GangCheck | TogetherCheck) -> None:
    if isinstance(check, AnswersCheck):
        message.kind = "predicates"
    elif isinstance(check, GangCheck):
        message.kind, message.subject = "gang", check.task_group
        message.until = nanoseconds(check.until)
    else:
        message.kind, message.subject = "topology", check.where


def _add_shown(message: pb.Check, shown: Shown) -> None:
    message.kind, message.subject, message.until = shown.kind, shown.subject, nanoseconds(shown.until)
    message.requested.update(amounts(shown.requested))
    message.used.update(amounts(shown.used))
    message.limit.update(amounts(shown.limit))
    held = shown.holders.items()
    message.holders.extend(pb.BudgetHolder(rm_id=rm_id, used=amounts(used)) for rm_id, used in held)


def _add_quota(message: pb.Check, check: LimitCheck | QueueCheck) -> None:
    message.requested.update(amounts(check.requested))
    if isinstance(check, LimitCheck):
        message.kind, message.subject = check.kind, f"{check.name} in {check.queue}"
    else:
        message.kind, message.subject = "queue", check.queue
    message.used.update(amounts(check.allocated))
    message.limit.update(amounts(check.max))


def _add_size(message: pb.Check, check: SizeCheck) -> None:
    """Add, for each type, the largest amount that is requested, and the smallest maximum."""
    message.kind = "size"
    for bound in check.bounds:
        for name, value in bound.most.items():
            message.requested[name] = bound.wanted[name]
            message.limit[name] = min(value, message.limit.get(name, value))


_reserved = filled(
    pb.QueueReservations,
    QueueReservations,
    {"kept": ("kept", amounts), "reason": ("reason", reason_message)},
)
_bound = filled(pb.ReservationBound, ReservationBound)


def _add_nodes(message: pb.Check, check: NodesCheck) -> None:
    message.kind, message.subject = "nodes", check.required_node or ""
    message.causes.update(check.causes)
    message.more_queues = check.more_queues
    message.reserved_for.extend(map(_reserved, check.reserved_for))
    if check.bound is not None:
        message.reservation_bound.CopyFrom(_bound(check.bound))


def _add_preemption(message: pb.Check, check: PreemptionCheck) -> None:
    message.kind, message.subject = "preemption", check.queue
    message.until = nanoseconds(check.until)
    message.causes.update(check.causes)
    message.requested.update(amounts(check.requested))
    message.used.update(amounts(check.settled))
    message.limit.update(amounts(check.guaranteed))
