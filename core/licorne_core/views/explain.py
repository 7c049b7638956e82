"""Explanation of an ask: every check made afresh, with its operands (DESIGN § 2).

The rules and their order are those of the pass (`scheduling/checks.py`). All are evaluated, also
after a failed one, so that all obstacles are reported at once.
"""

from collections.abc import Generator, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from licorne_core.messages.backfill import BehindReservationCheck
from licorne_core.messages.operators import APPLICATION_HELD, OperatorMark, told
from licorne_core.messages.reasons import KINDS, Check, NodesCheck, QueueCheck
from licorne_core.messages.reports import Explanation
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.groups import AskGroup, group_key, waits
from licorne_core.model.apps.requests import (
    ASSUMED,
    PENDING,
    STOPPING,
    TO_REPLACE,
    Place,
    Request,
    RequestState,
)
from licorne_core.model.apps.states import SCHEDULABLE, AppState
from licorne_core.model.memory import HoursBudget
from licorne_core.model.queues.queue import Queue
from licorne_core.model.quotas import Quota
from licorne_core.partitions.partition import Partition
from licorne_core.scheduling.checks import APPLICATION_RULES, ASK_RULES, Asking
from licorne_core.scheduling.order import app_key
from licorne_core.scheduling.preemption.ledger import PreemptionRecord, PreemptionRule
from licorne_core.scheduling.rules import CheckContext, Rule
from licorne_core.values.asks import HolderReason, Reservation
from licorne_core.values.errors import NotFound, shown
from licorne_core.values.ids import AllocationKey
from licorne_core.views.explain_checks import (
    STEP,
    UNDER_WAY,
    Holders,
    behind_checks,
    bound_of,
    nodes_asked,
    preemption_check,
    why_not_there,
)

_CHANGES = "asks of application {} change faster than one can be explained: ask again"

_DROPS_ASKS = frozenset({AppState.RESUMING, AppState.FAILING})
"""States of an application that has lost its asks because its gang timed out."""

ROUNDS = 5
"""Most restarts because the ask has changed meanwhile."""


def explain(partition: Partition, app: Application, key: str) -> Iterator[Explanation | None]:
    """Explain an ask, or for an empty key the first waiting ask; raises NotFound.

    A None comes before the explanation wherever the reader may pause. Later changes may be missed,
    but an ask that is explained as pending is pending.
    """
    for _ in range(ROUNDS):
        request = yield from _request(app, key)
        if not request.is_pending:
            yield _explain_settled(partition, app, request)
            return
        asks = yield from asks_ahead(app, request.place)
        applications = yield from applications_ahead(app)
        holders = Holders(partition.wakeups.reserved)
        nodes = yield from nodes_asked(partition, request, holders)
        largest = yield from holders.largest()
        if partition.applications.get(app.app_id) is not app:
            raise NotFound(f"application {app.app_id} is {app.state.value}")
        if app.requests.get(request.key) is request and request.state is PENDING:
            nodes = replace(
                nodes,
                reserved_for=tuple(of.report(why_waits(partition, of.shown)) for of in largest),
                more_queues=len(holders) - len(largest),
                bound=bound_of(partition, request),
            )
            yield _explain_pending(partition, app, request, nodes, (asks, applications))
            return
    raise NotFound(_CHANGES.format(app.app_id))


def _request(app: Application, key: str) -> Generator[None, None, Request]:
    """The ask of the key, or for an empty key the first waiting ask of the application."""
    who = f"application {app.app_id}"
    if app.state in _DROPS_ASKS:
        who = f"{who} is {app.state.value} and"
    if key:
        request = app.requests.get(AllocationKey(key))
        if request is None:
            raise NotFound(f"{who} has no ask {shown(key)}")
        return request
    for _ in range(ROUNDS):
        first: Place | None = None
        for number, place in enumerate(_first_places(app), 1):
            if place is not None and (first is None or place < first):
                first = place
            if not number % STEP:
                yield
        if first is None:
            raise NotFound(f"{who} has no pending ask")
        if app.requests.get(first.request.key) is first.request:
            return first.request
    raise NotFound(_CHANGES.format(app.app_id))


def _first_places(app: Application) -> Iterator[Place | None]:
    """Place of the first ask of each group, and of each ask that backs off or has an unreported node."""
    for group in list(app.groups.values()):
        yield group.first() if group.waiting else None
    for request in list(app.backing_off.values()):
        yield request.place
    if app.assumed_count or app.replacing_count:
        for request in list(app.requests.values()):
            is_one = request.state is ASSUMED or request.state in TO_REPLACE
            yield request.place if is_one else None


def _explain_settled(partition: Partition, app: Application, request: Request) -> Explanation:
    """Explain a request that is not pending."""
    verdict, summary = _whereabouts(partition, request)
    return Explanation(
        app_id=app.app_id,
        key=request.key,
        queue=app.queue_path,
        verdict=verdict,
        summary=summary,
        node_id=node_of(request),
        is_victim=_record(partition, request) is not None,
    )


def explain_preempted(record: PreemptionRecord) -> Explanation:
    """Explain a victim that has ended."""
    return Explanation(
        app_id=record.app_id,
        key=record.key,
        queue=record.victim_queue.path,
        verdict="preempted",
        summary=f"preempted on node {record.node_id} {_cause(record)}{_losses(record)}",
        node_id=record.node_id,
        is_victim=True,
    )


def why_stopped(request: Request) -> str:
    """Reason why the RM was told to stop a request; empty for a request that is not stopping.

    A placeholder whose real request was removed meanwhile counts as timed out (spec § 6.12).
    """
    if request.state is RequestState.PREEMPTING:
        return "preempted"
    if request.state is RequestState.RELEASING:
        if not request.ask.placeholder:
            return "application stopped"
        return "timeout" if request.partner is None else "replaced"
    return ""


def _whereabouts(partition: Partition, request: Request) -> tuple[str, str]:
    """The verdict and the summary of a request that is not pending."""
    node_id = node_of(request)
    if request.state in TO_REPLACE and request.partner is not None:
        placeholder = f"placeholder {request.partner.key}"
        if request.state is RequestState.MATCHED:
            return "assumed", f"runs on node {node_id} instead of {placeholder} if the RM agrees"
        return "replacing", f"runs on node {node_id} once the RM has stopped {placeholder}"
    if request.state is RequestState.ASSUMED:
        return "assumed", f"assumed on node {node_id} until the RM agrees"
    notice = partition.ledger.notices.get(request)
    if notice is not None:
        return "noticed", f"runs on node {node_id}, and will be preempted {_cause(notice.record)}"
    if request.state in STOPPING:
        why = _stop(partition, request)
        return "stopping", f"on node {node_id} until the RM has stopped it: {why}"
    return "allocated", f"allocated on node {node_id}"


def node_of(request: Request) -> str:
    """Node of a request, or of the placeholder that it replaces; empty for none."""
    here = request if request.allocation is not None else request.partner
    return "" if here is None or here.allocation is None else here.allocation.node_id


def _stop(partition: Partition, request: Request) -> str:
    """Reason why a request is being stopped, in words."""
    if request.state is RequestState.PREEMPTING:
        record = _record(partition, request)
        if record is not None and record.rule is PreemptionRule.DRAIN:
            node = partition.nodes.by_id[record.node_id]
            if node.cordon is not None:
                return f"node drained{told(node.cordon.mark)}"
        return "preempted" if record is None else f"preempted {_cause(record)}{_losses(record)}"
    if request.partner is not None:
        return f"{request.partner.key} takes its place"
    if not request.ask.placeholder:
        return "an operator has stopped its application"
    return "no real allocation takes its place"


def _record(partition: Partition, request: Request) -> PreemptionRecord | None:
    """Preemption record of the request, or of an earlier one of its key; None for neither."""
    return partition.ledger.find(request.ask.app_id, request.key)


def _losses(record: PreemptionRecord) -> str:
    """Work that a victim lost, and what the next one would have lost; empty where neither is known."""
    if record.spared is None and record.checkpoint is None:
        return ""
    lost = f"; it lost {record.lost:.0f} s of work"
    if record.spared is None:
        return lost
    other = record.spared
    return f"{lost}, where {other.app_id}/{other.key}, the next to go, would have lost {other.lost:.0f} s"


def _cause(record: PreemptionRecord) -> str:
    """Beneficiary of a victim, or another reason for its end, in words."""
    if record.rule is PreemptionRule.DRAIN:
        return "because its node was drained"
    if record.beneficiary_queue is None or record.rule is PreemptionRule.QUOTA:
        queue = record.beneficiary_queue or record.victim_queue
        return f"because queue {queue.path} had more than its maximum"
    whom = f"for ask {record.beneficiary_key} of application {record.beneficiary_app_id}"
    if record.rule is PreemptionRule.REQUIRED_NODE:
        return f"{whom}, which may go to no other node"
    return f"{whom}, as queue {record.beneficiary_queue.path} was below its guarantee"


def _explain_pending(
    partition: Partition,
    app: Application,
    request: Request,
    nodes: Check,
    ahead: tuple[int, int],
) -> Explanation:
    """Explain a pending ask; `ahead` has the numbers of asks and of applications ahead."""
    asking = subject_of(app, request)
    behind = behind_checks(partition, request) if not nodes.passed else ()
    before = checks_before_nodes(partition.check_context, asking)
    checks: tuple[Check, ...] = (*before, *behind, nodes)
    blocking = next((check for check in checks if not check.passed), None)
    summary = "schedulable, waiting for its turn" if blocking is None else blocking.message()
    if isinstance(blocking, QueueCheck | BehindReservationCheck | NodesCheck):
        preemption = preemption_check(partition, app, request)
        checks += (preemption,)
        if preemption.code == UNDER_WAY:
            summary = preemption.text
    return Explanation(
        app_id=app.app_id,
        key=request.key,
        queue=app.queue_path,
        verdict="waiting" if blocking is None else "pending",
        summary=summary,
        checks=checks,
        asks_ahead=ahead[0],
        applications_ahead=ahead[1],
        is_victim=_record(partition, request) is not None,
    )


def asks_ahead(app: Application, place: Place) -> Generator[None, None, int]:
    """Number of pending asks of an application ahead of a place."""
    count = looks = 0
    for group in list(app.groups.values()):
        for one in _places(group):
            count += waits(one) and one < place
            looks += 1
            if not looks % STEP:
                yield
    for request in list(app.backing_off.values()):
        count += request.place < place
        looks += 1
        if not looks % STEP:
            yield
    return count


def _places(group: AskGroup) -> list[Place]:
    """Places of the asks of a group, and of asks that have left it."""
    return [group.first()] if group.waiting == 1 else group.heap.copy()


def applications_ahead(app: Application) -> Generator[None, None, int]:
    """Number of applications ahead in the same leaf."""
    leaf = app.leaf
    if not isinstance(leaf, Queue):
        return 0
    key = app_key(app, leaf)
    count = 0
    for number, other in enumerate(list(leaf.applications.values()), 1):
        count += (
            other is not app
            and other.leaf is leaf
            and other.pending_count > 0
            and other.state in SCHEDULABLE
            and not other.held
            and app_key(other, leaf) < key
        )
        if not number % STEP:
            yield
    return count


def subject_of(app: Application, request: Request) -> Asking:
    """The subject of the rules for one pending ask."""
    return Asking(app, request.group or AskGroup(app, group_key(request.ask)), request)


def checks_before_nodes(context: CheckContext, asking: Asking) -> Iterator[Check]:
    """All checks of a pending ask except that of nodes, in the order of the pass."""
    for rule, who in _rules_for(asking):
        yield from rule.reports(context, who, rule.obstacle(context, who))


def first_failing(context: CheckContext, asking: Asking) -> Check | None:
    """First failing check of a pending ask except that of nodes; None for none."""
    for rule, who in _rules_for(asking):
        obstacle = rule.obstacle(context, who)
        if obstacle is not None:
            return _failing(rule.reports(context, who, obstacle))
    return None


def obstacle(context: CheckContext, asking: Asking) -> "Obstacle | None":
    """First obstacle to a pending ask except the nodes; None for none."""
    return _first_obstacle(context, _rules_for(asking))


def obstacle_to_group(context: CheckContext, asking: Asking) -> "Obstacle | None":
    """First obstacle to the asks of a group, if there is none to all asks of its application."""
    return _first_obstacle(context, ((rule, asking) for rule in _ask_rules(asking)))


def obstacle_to_all(context: CheckContext, app: Application) -> "Obstacle | None":
    """First obstacle to all asks of an application; None for none."""
    return _first_obstacle(context, ((rule, app) for rule in APPLICATION_RULES))


class Obstacle(NamedTuple):
    """The first check that fails, without its operands: making those takes ten times as long."""

    code: str
    subject: str
    """The queue or budget that the check is about, or the user or group ``in`` a queue; empty for others."""


def _first_obstacle(
    context: CheckContext, rules: Iterable[tuple[Rule, Application | Asking]]
) -> Obstacle | None:
    for rule, who in rules:
        found = rule.obstacle(context, who)
        if found is None:
            continue
        if isinstance(found, OperatorMark):
            return Obstacle(APPLICATION_HELD, "")
        if not isinstance(found, Quota):
            return Obstacle(rule.codes[0], found.path if isinstance(found, HoursBudget) else "")
        kind = found.kind
        subject = found.path if kind == "queue" else found.name
        if kind in ("user", "group"):
            subject = f"{found.name} in {found.path}"
        return Obstacle(rule.codes[KINDS.index(kind)], subject)
    return None


def _rules_for(asking: Asking) -> Iterator[tuple[Rule, Application | Asking]]:
    """Rules that apply to an ask, each with its subject."""
    for rule in APPLICATION_RULES:
        if not (asking.is_reserved and rule.spares_reserved):
            yield rule, asking.app
    for rule in _ask_rules(asking):
        yield rule, asking


def _ask_rules(asking: Asking) -> Iterator[Rule]:
    has_predicate = asking.group.ask_class.predicate is not None
    for rule in ASK_RULES:
        spared = asking.is_reserved and rule.spares_reserved
        if not spared and (has_predicate or not rule.only_with_predicate):
            yield rule


def _failing(checks: Iterable[Check]) -> Check:
    return next(check for check in checks if not check.passed)


def why_waits(partition: Partition, reservation: Reservation) -> HolderReason:
    """Reason why the ask of a reservation does not run on its node.

    A lack of headroom in root is no reason, as in a review: room on the node is also room in root.
    """
    node_id = reservation.node_id
    if node_id is None:
        return HolderReason("RESERVATION_ENDED", "its reservation has ended", {})
    _, app, request = partition.wakeups.reserved.holder(reservation)
    if not request.is_pending:
        return HolderReason("WAITS_FOR_ANSWER", _whereabouts(partition, request)[1], {})
    for check in checks_before_nodes(partition.check_context, subject_of(app, request)):
        if not check.passed and not (isinstance(check, QueueCheck) and check.is_root):
            return HolderReason(check.code, check.message(), {})
    return why_not_there(partition.nodes.by_id[node_id], request.ask.ask_class)
