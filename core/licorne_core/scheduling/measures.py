"""Measures for asks that no node takes (spec §§ 8.5, 8.7, 9.2, 9.5).

A measure is a node to reserve, or victims to stop. This module chooses them.
"""

from math import inf
from typing import NamedTuple

from licorne_core.config.schema import Backfill
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.groups import (
    ANY_VERSION,
    SEARCH_INTERVAL,
    AskGroup,
    PreemptionRequest,
    ReservationRequest,
    StartRequest,
)
from licorne_core.model.apps.members import first_asks, gather_gang, next_members
from licorne_core.model.apps.requests import Request
from licorne_core.model.apps.states import SCHEDULABLE
from licorne_core.model.budgets import BudgetQuota
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.checks import Asking, application_blocker, ask_blocker
from licorne_core.scheduling.escalation import start_unknown, want_start
from licorne_core.scheduling.node_search.candidates import refusals
from licorne_core.scheduling.predicates import NodeQuestion
from licorne_core.scheduling.preempting import DOES_NOT_HELP, REASONS, ToClear, ToPreempt
from licorne_core.scheduling.preemption import Law, Refusal, required_node_victims, stays_too_full
from licorne_core.scheduling.rules import CheckContext
from licorne_core.scheduling.shadows import NodesAsked, Plan
from licorne_core.scheduling.start_search import Kind
from licorne_core.scheduling.unplanned import RETRY_TIME, Likeness, likeness
from licorne_core.scheduling.waiting.blockers import Blocker, FullRoot
from licorne_core.scheduling.waiting.shortages import Kept, QuotaShortage
from licorne_core.scheduling.waiting.supply import Supply
from licorne_core.values.asks import AskClass

REFUSAL_TIME = 15.0
"""Least seconds between two log entries about the refusals of an ask (spec §§ 8.4, 9.5)."""

NO_USER_QUOTA = "Not enough user quota"
NO_BUDGET = "Not enough budget"
NO_QUEUE_QUOTA = "Not enough queue quota"
NO_FIT_ON_REQUIRED_NODE = "No fit on required node, preemption does not help"


class ToReserve(NamedTuple):
    """A decision: reserve the node for the ask (spec §§ 8.5, 8.7)."""

    app: Application
    request: Request
    node: Node


class Measures:
    """Decides measures in one partition; changes waiting lines and deadlines, but no books."""

    __slots__ = ("_context",)

    def __init__(self, context: CheckContext) -> None:
        """Decide in the partition of the context."""
        self._context = context

    def want_victims(self, group: AskGroup, now: float) -> None:
        """Let asks of a blocked group preempt others once they are old enough."""
        if self._context.preemption.enabled and group.ask_class.required_node is None:
            self._context.escalation.want_victims(group, now)

    def want_start(self, group: AskGroup, now: float) -> None:
        """Let asks that no node takes hold a shadow start, where backfill is on."""
        backfills = self._context.shadows.mode is not Backfill.OFF
        if backfills and group.ask_class.required_node is None:
            want_start(self._context.escalation, group, now)

    def note_passed_over(self, group: AskGroup, blocker: Blocker, now: float) -> None:
        """Keep the reason for `explain` (spec § 8.13)."""
        if isinstance(blocker, Supply):
            by_rm = isinstance(blocker.wanted, AskClass)
            if by_rm and now >= group.refused_at + REFUSAL_TIME:
                reasons = refusals(self._context.nodes.values(), group.ask_class)
                if reasons:
                    group.refused_at = now
                    self._context.watch.refused(group, reasons, now)
        elif isinstance(blocker, QuotaShortage):
            note_over_quota(group, blocker, now)

    def decide(
        self, wants: StartRequest | ReservationRequest | PreemptionRequest, now: float
    ) -> ToReserve | Plan | NodeQuestion | ToPreempt | Blocker | None:
        """The measure for the first ask that is old enough, or its blocker.

        None if the request pauses from now on, as one of gang members that belong in a domain does, or is
        ranked anew as another ask comes first by now.
        """
        if wants.group.is_bound:
            self._context.wakeups.waiting.withdraw(wants)
            return None
        first, entry = wants.first(), wants.app.ranking.entry(wants)
        if first is None or entry is None or entry.key != wants.key():
            self._context.escalation.rank(wants, now)
            return None
        if isinstance(wants, PreemptionRequest):
            return self._to_preempt(wants, first.request, now)
        if isinstance(wants, StartRequest):
            return self._to_plan(wants, first.request, now)
        return self._to_reserve(wants, first.request, now)

    def _to_reserve(
        self, wants: ReservationRequest, request: Request, now: float
    ) -> ToReserve | Blocker | None:
        """The node to reserve (spec §§ 8.5, 8.7), or the blocker.

        With backfill nodes are reserved only while no start can be planned: None, and a pause until then.
        """
        context, app, ask_class = self._context, wants.app, wants.group.ask_class
        plans = wants.group.start_request
        if plans is not None and now >= plans.paused_until:
            context.escalation.rest(wants, inf)
            return None
        blocker = ask_blocker(context, Asking(app, wants.group))
        if blocker is None and ask_class.required_node is None:
            blocker = context.wakeups.reservation_limits.blocker(app)
        if blocker is not None:
            return blocker
        found = context.index.to_reserve(ask_class)
        return ToReserve(app, request, found) if isinstance(found, Node) else found

    def _to_plan(
        self, wants: StartRequest, request: Request, now: float
    ) -> Plan | NodeQuestion | Blocker | None:
        """The shadow start, the question to the RM about its nodes, or the blocker.

        None for a pause, as none is found: others are planned then.

        Another ask of its class may have found that out a moment ago.
        """
        context, app, shadows = self._context, wants.app, self._context.shadows
        if app.gang.has_member(request.ask):
            gather_gang(app)
        blocker = ask_blocker(context, Asking(app, wants.group))
        if blocker is not None and is_cluster(blocker, app.leaf):
            blocker.retire_if_unused()
            blocker = None
        if blocker is None and app.gang.questions:
            blocker = context.wakeups.blockers.get(NodesAsked, app)
        blocker = blocker or shadows.blocker()
        if blocker is not None:
            return blocker
        kinds = kinds_of(app, request)
        unplanned, asks = shadows.unplanned, likeness(app, request)
        if any(context.node_book.is_too_large(kind.ask_class.items) for kind in kinds):
            until = now + RETRY_TIME
        elif (until := unplanned.turn(app.app_id, asks, now)) <= now:
            is_gang = app.gang.has_member(request.ask)
            own = next((one for one in shadows if is_gang and one.is_gang and one.app is app), None)
            plan = context.start_search.plan(app, kinds, now, own=own, asked=wants.asked)
            if isinstance(plan, NodeQuestion):
                wants.asked += 1
                return plan
            wants.asked = 0
            if plan is not None:
                unplanned.found(asks)
                return plan
            until = unplanned.failed(app.app_id, asks, now, self._is_waiting)
        start_unknown(context.escalation, wants, until, now)
        return None

    def _is_waiting(self, asks: Likeness) -> bool:
        """True if there are asks of the class, or there is the gang."""
        if isinstance(asks, AskClass):
            return self._context.index.is_wanted(asks)
        return asks in self._context.applications

    def _to_preempt(
        self, wants: PreemptionRequest, request: Request, now: float
    ) -> ToPreempt | Blocker | None:
        """The plans with victims to stop (spec § 9.2), or the blocker; None for a pause."""
        context, app = self._context, wants.app
        leaf: Queue = app.leaf
        blocker = stops_preemption(context, app, wants.group) or self._kept(leaf, wants, request, now)
        if blocker is not None:
            return blocker
        preemption = context.preemption
        if preemption.asks_rm(request) and not preemption.questions_open.lets_through():
            return preemption.questions_open
        if not preemption.has_search(leaf):
            return preemption.next_turn(leaf)
        preemption.count_search(leaf)
        wants.waits_for = None
        version = context.dirty.version + context.index.version
        if wants.searched_at != version or wants.searched_for is not request:
            found = preemption.find(wants, request, now)
            if not isinstance(found, Refusal):
                wants.refusal = None
                return ToPreempt(app, request, found)
            wants.refusal, wants.searched_for = found, request
            wants.group.note(REASONS.get(found.law, DOES_NOT_HELP), now)
            if found.law is Law.NODES_KEPT:
                # Only reserved nodes made the search fail.
                until = now + SEARCH_INTERVAL
                kept = context.wakeups.kept_nodes.note(leaf, request, found, now, until)
                context.escalation.wait_for(wants, kept, now)
                return kept
            # A refusal that time can lift is searched again even without a change.
            wants.searched_at = version if found.until is None else ANY_VERSION
        context.escalation.pause(wants, now)
        return None

    def _kept(self, leaf: Queue, wants: PreemptionRequest, request: Request, now: float) -> Kept | None:
        """Blocker for kept nodes that the ask, or another ask of its likeness, waits for."""
        kept: Kept | None = wants.waits_for
        if kept is not None and now < wants.waits_until and not kept.lets_through():
            return kept
        kept = self._context.wakeups.kept_nodes.find(leaf, request, now)
        if kept is not None:
            wants.refusal, wants.searched_for = kept.refusal, request
            self._context.escalation.wait_for(wants, kept, now)
        return kept

    def to_clear(
        self, app: Application, request: Request, found: Blocker | None, now: float
    ) -> ToClear | FullRoot | None:
        """Victims for an ask that only its required node stops (§ 9.5), or the blocker that keeps them.

        A full cluster does not count as an obstacle, as victims make room in it, if they make enough.
        """
        context = self._context
        required = request.ask.ask_class.required_node
        if required is None or request.triggered or app.state not in SCHEDULABLE:
            return None
        if found is not None and not is_cluster(found, app.leaf):
            return None
        node = context.nodes[required]
        units = context.preemption.search.units()
        victims = required_node_victims(app, request, node, context.applications, units)
        root = app.leaf.lineage[-1]
        if victims and not stays_too_full(root, request, node, victims):
            return ToClear(app, request, node, victims)
        group: AskGroup = request.group
        if now >= group.refused_at + REFUSAL_TIME:
            group.refused_at = now
            group.note(NO_FIT_ON_REQUIRED_NODE, now)
            context.watch.no_victims(request.ask, required, now)
        return context.wakeups.blockers.get(FullRoot, root) if victims else None


def kinds_of(app: Application, request: Request) -> list[Kind]:
    """The asks that start together with the ask: those of its gang, or itself alone."""
    if not app.gang.has_member(request.ask):
        return [Kind(request.ask.ask_class, [request])]
    return [Kind(share[0].ask_class, first_asks(share)) for share in next_members(app)]


def first_blocker(context: CheckContext, asking: Asking) -> Blocker | None:
    """First blocker of the ask or of its whole application; nodes are not searched."""
    blocker = application_blocker(context, asking.app, reserved=asking.is_reserved)
    return blocker or ask_blocker(context, asking)


def is_cluster(blocker: Blocker, leaf: Queue) -> bool:
    """True if the blocker is the size of the cluster."""
    return isinstance(blocker, QuotaShortage) and blocker.quota is leaf.lineage[-1]


def stops_preemption(context: CheckContext, app: Application, group: AskGroup) -> Blocker | None:
    """Return the blocker that preemption cannot remove; a queue's maximum is none (spec § 9.2)."""
    blocker = ask_blocker(context, Asking(app, group))
    if not (isinstance(blocker, QuotaShortage) and isinstance(blocker.quota, Queue)):
        return blocker
    blocker.retire_if_unused()
    if group.ask_class.predicate is not None and context.predicates.full:
        # Owed answers block the ask in addition to the maximum.
        return context.predicates.owed
    return None


def note_over_quota(group: AskGroup, blocker: QuotaShortage, now: float) -> None:
    """Keep the reason for `explain` that the asks of a group were passed over (spec § 8.13)."""
    by_queue = isinstance(blocker.quota, Queue)
    group.attempted |= by_queue
    by_budget = isinstance(blocker.quota, BudgetQuota)
    group.note(NO_QUEUE_QUOTA if by_queue else NO_BUDGET if by_budget else NO_USER_QUOTA, now)
