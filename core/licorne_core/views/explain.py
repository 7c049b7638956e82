"""Explanation of an ask: every check is evaluated again, with its operands (DESIGN § 2).

The rules and their order are those of the pass (`scheduling/checks.py`), after the rule for asks that can
never start. All rules are evaluated, even after a failed one, so that all obstacles are reported together.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from licorne_core.messages.claims import BehindReservationCheck
from licorne_core.messages.reasons import UNDER_WAY, Check, NodesCheck, QueueCheck, SizeBound
from licorne_core.messages.reports import Explanation
from licorne_core.model.apps.application import Application, Asking
from licorne_core.model.apps.groups import AskGroup, group_key, waits
from licorne_core.model.apps.requests import ASSUMED, PENDING, TO_REPLACE, AskPlace, Request
from licorne_core.model.apps.states import SCHEDULABLE
from licorne_core.model.queues.queue import Queue
from licorne_core.partitions.partition import Partition
from licorne_core.scheduling.checks import APPLICATION_RULES, ASK_RULES, EVER_FITS
from licorne_core.scheduling.order import place_in_leaf
from licorne_core.scheduling.rules import WITH_PREDICATE, CheckContext, Rule
from licorne_core.values.app_states import AppState
from licorne_core.values.asks import HolderReason, Reservation
from licorne_core.values.errors import NotFound, shown
from licorne_core.values.ids import AllocationKey
from licorne_core.values.ranking import Key
from licorne_core.views.explain_checks import (
    STEP,
    Holders,
    behind_checks,
    bound_of,
    help_check,
    nodes_asked,
    why_not_there,
)
from licorne_core.views.explain_settled import explain_settled, record_of, whereabouts

_CHANGES = "asks of application {} change faster than one can be explained: ask again"

_DROPS_ASKS = frozenset({AppState.RESUMING, AppState.FAILING})
"""States of an application whose asks were dropped at the timeout of its gang."""

ROUNDS = 5
"""Maximum number of attempts to explain an ask that changes meanwhile."""


def explain(partition: Partition, app: Application, key: str) -> Iterator[Explanation | None]:
    """Explain an ask, or for an empty key the first waiting ask; raises NotFound.

    None marks a possible pause of the reader; the explanation is the last item. Later changes may be
    missed, but an ask that is explained as pending is still pending.
    """
    for _ in range(ROUNDS):
        request = yield from _request(app, key)
        if not request.is_pending:
            yield explain_settled(partition, app, request)
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
    """The ask with this key, or for an empty key the first waiting ask; raises NotFound."""
    who = f"application {app.app_id}"
    if app.state in _DROPS_ASKS:
        who = f"{who} is {app.state.value} and"
    if key:
        request = app.requests.get(AllocationKey(key))
        if request is None:
            raise NotFound(f"{who} has no ask {shown(key)}")
        return request
    for _ in range(ROUNDS):
        first: AskPlace | None = None
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


def _first_places(app: Application) -> Iterator[AskPlace | None]:
    """The place of the first ask of each group, and of each ask that backs off or has an unreported node."""
    for group in list(app.groups.values()):
        yield group.first() if group.waiting else None
    for request in list(app.backing_off.values()):
        yield request.place
    if app.assumed_count or app.replacing_count:
        for request in list(app.requests.values()):
            is_one = request.state is ASSUMED or request.state in TO_REPLACE
            yield request.place if is_one else None


def _explain_pending(
    partition: Partition, app: Application, request: Request, nodes: Check, ahead: tuple[int, int]
) -> Explanation:
    """Explain a pending ask; `ahead` are the numbers of asks and of applications ahead of it."""
    asking = subject_of(app, request)
    behind = behind_checks(partition, request) if not nodes.passed else ()
    before = checks_before_nodes(partition.check_context, asking)
    checks: tuple[Check, ...] = (*before, *behind, nodes)
    blocking = next((check for check in checks if not check.passed), None)
    summary = "schedulable, waiting for its turn" if blocking is None else blocking.message()
    if isinstance(blocking, QueueCheck | BehindReservationCheck | NodesCheck):
        preemption = help_check(partition, app, request)
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
        age_bonus=app.bonus,
        is_victim=record_of(partition, request) is not None,
    )


def asks_ahead(app: Application, place: AskPlace) -> Generator[None, None, int]:
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


def _places(group: AskGroup) -> list[AskPlace]:
    """Places of the asks of a group, including stale places."""
    return [group.first()] if group.waiting == 1 else group.heap.copy()


def applications_ahead(app: Application) -> Generator[None, None, int]:
    """Number of applications ahead in the same leaf, in the order in force when the count begins."""
    leaf = app.leaf
    if not isinstance(leaf, Queue):
        return 0
    second = leaf.ranking.second
    place: Callable[[Application], Key] = place_in_leaf
    if second is not None and second.leads:
        place = second.key
    key = place(app)
    count = 0
    for number, other in enumerate(list(leaf.applications.values()), 1):
        count += (
            other is not app
            and other.leaf is leaf
            and other.pending_count > 0
            and other.state in SCHEDULABLE
            and not other.held
            and place(other) < key
        )
        if not number % STEP:
            yield
    return count


def subject_of(app: Application, request: Request) -> Asking:
    """The subject of the rules for one pending ask."""
    return Asking(app, request.group or AskGroup(app, group_key(request.ask)), request)


def checks_before_nodes(context: CheckContext, asking: Asking) -> Iterator[Check]:
    """All checks of a pending ask except the check of nodes, in the order of the pass."""
    for rule, who in _rules_for(asking):
        yield from rule.reports(context, who, rule.obstacle(context, who))


def first_failing(context: CheckContext, asking: Asking) -> Check | None:
    """The first failing check of a pending ask, without the check of nodes; None if all others pass."""
    for rule, who in _rules_for(asking):
        obstacle = rule.obstacle(context, who)
        if obstacle is not None:
            return _failing(rule.reports(context, who, obstacle))
    return None


def obstacle(context: CheckContext, asking: Asking) -> "Obstacle | None":
    """The first obstacle to a pending ask except the nodes; None if there is none."""
    return _first_obstacle(context, _rules_for(asking))


def obstacle_to_group(
    context: CheckContext, asking: Asking, to_all: "Obstacle | None" = None
) -> "Obstacle | None":
    """The first obstacle to a group's asks, or None; `to_all` is the result of `obstacle_to_all`."""
    never = _first_obstacle(context, ((EVER_FITS, asking),))
    return never or to_all or _first_obstacle(context, ((rule, asking) for rule in _ask_rules(asking)))


def obstacle_to_all(context: CheckContext, app: Application) -> "Obstacle | None":
    """The first obstacle to all asks of an application; None if there is none."""
    return _first_obstacle(context, ((rule, app) for rule in APPLICATION_RULES))


class Obstacle(NamedTuple):
    """The first check that fails, without its operands, which would cost ten times as much."""

    code: str
    subject: str
    """The queue or other quota of the check, or the user or group ``in`` a queue; empty for other checks."""
    cause: str = ""
    """Both amounts of an ask that can never start; empty for other checks."""


def _first_obstacle(
    context: CheckContext, rules: Iterable[tuple[Rule, Application | Asking]]
) -> Obstacle | None:
    for rule, who in rules:
        found = rule.obstacle(context, who)
        if found is not None:
            return Obstacle(*rule.named(found), found.text() if isinstance(found, SizeBound) else "")
    return None


def _rules_for(asking: Asking) -> Iterator[tuple[Rule, Application | Asking]]:
    """Rules that apply to an ask, each with its subject."""
    yield EVER_FITS, asking
    for rule in APPLICATION_RULES:
        if not (asking.is_reserved and rule.spares_reserved):
            yield rule, asking.app
    for rule in _ask_rules(asking):
        yield rule, asking


def _ask_rules(asking: Asking) -> Iterator[Rule]:
    has_predicate = asking.group.ask_class.predicate is not None
    for rule in ASK_RULES:
        spared = asking.is_reserved and rule.spares_reserved
        if not spared and (has_predicate or rule.interest != WITH_PREDICATE):
            yield rule


def _failing(checks: Iterable[Check]) -> Check:
    return next(check for check in checks if not check.passed)


def why_waits(partition: Partition, reservation: Reservation) -> HolderReason:
    """Reason why the ask of a reservation does not run on its node.

    As in a review, a lack of headroom in root is not a reason, because room on the node is room in root.
    """
    node_id = reservation.node_id
    if node_id is None:
        return HolderReason("RESERVATION_ENDED", "its reservation has ended", {})
    _, app, request = partition.wakeups.reserved.holder(reservation)
    if not request.is_pending:
        return HolderReason("WAITS_FOR_ANSWER", whereabouts(partition, request)[1], {})
    for check in checks_before_nodes(partition.check_context, subject_of(app, request)):
        if not check.passed and not (isinstance(check, QueueCheck) and check.is_root):
            return HolderReason(check.code, check.message(), {})
    return why_not_there(partition.nodes.by_id[node_id], request.ask.ask_class)
