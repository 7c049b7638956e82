"""The pass: finds the next ask to serve and its node (spec §§ 8.1-8.7).

Reserved asks come first. Then the regular pass goes down from root in key order: queues,
applications, ask groups; the first ask that passes every check is served. Blocked items are parked
with their blockers, so the next pass does not try them again.
"""

from math import inf
from typing import Any, Final

from licorne_core.messages.commands import Options
from licorne_core.model.apps.application import Application, Asking
from licorne_core.model.apps.groups import AgedAsks, AskGroup, ReservationRequest
from licorne_core.model.apps.requests import Place, Request
from licorne_core.model.apps.states import SCHEDULABLE
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.model.quotas import Quota
from licorne_core.scheduling.checks import QUEUE_RUNS, STOPPABLE, application_blocker, ask_blocker
from licorne_core.scheduling.gang_placement import NODES_OF_A_TRY, GangSearch, Together
from licorne_core.scheduling.measures import (
    Candidate,
    Preempting,
    Remedies,
    Reserving,
    ToReserve,
    first_blocker,
    note_passed_over,
    to_clear,
)
from licorne_core.scheduling.node_search.candidates import WORK_OF_A_TRY
from licorne_core.scheduling.node_search.heaps import StillLooking
from licorne_core.scheduling.preempting import ALLOCATIONS_OF_A_TRY, PreemptionRequest, ToClear, ToPreempt
from licorne_core.scheduling.replacing import (
    PLACEHOLDERS_OF_A_TRY,
    Cancellation,
    Obstacles,
    Replacement,
    ReplacementSearch,
)
from licorne_core.scheduling.reservations.review import LOOKS_OF_A_TRY, OVERDUE, Review, ToGiveUp
from licorne_core.scheduling.rules import CheckContext
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.scheduling.waiting.shortages import QuotaShortage
from licorne_core.scheduling.waiting.waiting import Parked
from licorne_core.values.app_states import AppState
from licorne_core.values.asks import Reservation

# Reading it from the enumeration costs as much as two calls, for every allocation.
_ACCEPTED: Final = AppState.ACCEPTED


Measure = ToReserve | Replacement | Cancellation | ToPreempt | ToClear | ToGiveUp | Together | Any
"""Decisions by which no single ask is placed, those of extensions among them."""
Decision = Candidate | Measure


class Cycle:
    """Finds the next decision in one partition.

    It books nothing and reserves nothing. It parks items, starts back-offs, creates requests for
    remedies, and notes the outcome on the groups that it tries.
    """

    __slots__ = (
        "_context",
        "_heaps",
        "_index",
        "_limit",
        "_places",
        "_preemption",
        "_remedies",
        "_replacements",
        "_root",
        "_search",
        "gangs",
        "postponed",
        "reserving",
        "review",
        "tired",
        "tried",
        "turn_time",
    )

    def __init__(self, context: CheckContext, options: Options, remedies: Remedies) -> None:
        """Decide in the partition of the context, with the remedies of extensions."""
        self._context = context
        self._root = context.tree.root
        self._index = context.index
        self._heaps = context.index.heaps
        # In this order they are asked whether they help, `step` is that in which their requests are tried.
        self._remedies: Remedies = {
            ReservationRequest: Reserving(context),
            **remedies,
            PreemptionRequest: Preempting(context),
        }
        self.gangs = GangSearch(context, max(1, options.tuning.fill_work // 4), self._remedies)
        """The search for places of gang members."""
        self._replacements = ReplacementSearch(context.nodes, context.predicates, self.gangs.elsewhere)
        self._preemption = context.preemption
        self._search = context.preemption.search
        self.review = Review(context)
        self.reserving = options.reservations
        """False if no node is ever reserved."""
        self.turn_time = 0.0
        """Time at which the last turn began, in unix seconds; 0 before the first."""
        self._limit = 0
        self.tired = False
        """True if the turn has used up its work, and there is more to try."""
        self.postponed = False
        """True if an item waits for a victim search in another turn."""
        self.tried = 0
        """Number of groups, reserved asks and applications tried so far."""

    def begin_turn(self, now: float, work: int) -> None:
        """Begin a turn at unix seconds `now`, with about so much `work` to spend (see `cost`).

        Claims are tried beside it: a turn that had only them would never go on behind them.
        """
        claims = self._context.claims
        self.turn_time = claims.now = now
        for blocker in self._preemption.begin_turn():
            self._context.wakeups.waiting.changed(blocker)
        self._limit = self.cost + work + len(claims.held)
        self.tired = False
        if claims.rooms:
            # The nodes that have changed are known then.
            self._context.dirty.settle()
            for extension in self._context.seeking:
                extension.seek()

    def next(self) -> Decision | None:
        """The next decision; None if no item can be served before a change.

        None also when the turn has used up its work: then the cycle is `tired`, and continues where it
        stopped.
        """
        self._context.dirty.settle()
        decision: Decision | None = None
        try:
            decision = self._first()
        except StillLooking:
            # No later ask may be served first: the next turn continues this search.
            self.tired = True
        self.postponed = decision is None and self._preemption.is_postponed
        return decision

    def _first(self) -> Decision | None:
        """First decision of the pass; None at its end, or when the cycle is `tired`."""
        wakeups, review = self._context.wakeups, self.review
        decision: Decision | None = None
        if self.turn_time >= review.due_since + OVERDUE:
            decision = review.decide(self.turn_time)
        if decision is None and self._context.claims.held:
            decision = self._among_claims()
        if decision is None and not self.tired and wakeups.reserved.ready:
            decision = self._among_reserved()
        if decision is None and not self.tired and wakeups.replacing.ready:
            decision = self._among_replacing()
        if decision is None and not self.tired:
            decision = self._in_queue(self._root)
            if decision is None and not self.tired:
                wakeups.waiting.end_pass()
                self._index.supplies.end_pass()
                if review.due_since < inf and not self._preemption.is_postponed:
                    decision = review.decide(self.turn_time)
        return decision

    @property
    def cost(self) -> int:
        """Work so far, in tries: items tried, heaps filled, victim and placeholder searches, reviews."""
        return (
            self.tried
            + self._heaps.work // WORK_OF_A_TRY
            + self._search.work // ALLOCATIONS_OF_A_TRY
            + self._context.claims.work // LOOKS_OF_A_TRY
            + self._replacements.looked_at // PLACEHOLDERS_OF_A_TRY
            + self.review.work // LOOKS_OF_A_TRY
            + self.gangs.work // NODES_OF_A_TRY
        )

    def _is_spent(self) -> bool:
        """True if the work of the turn is used up; if not, count another try."""
        if self.cost >= self._limit:
            self.tired = True
            return True
        self.tried += 1
        return False

    # Asks that hold a claim

    def _among_claims(self) -> Decision | None:
        """First decision about a claim: its asks are placed, or it is planned again."""
        for claim in list(self._context.claims.held):
            if self._is_spent():
                return None
            decision: Decision | None = claim.decide(self.turn_time)
            if decision is not None:
                return decision
        return None

    # Reserved asks

    def _among_reserved(self) -> Candidate | ToClear | ToGiveUp | None:
        """First reserved ask that can be placed, on its node or elsewhere (spec § 8.6)."""
        types = self._context.dirty.ranks.types
        reserved = self._context.wakeups.reserved
        while reserved.ready:
            if self._is_spent():
                return None
            reservation = reserved.first(self._root, types)
            leaf, app, request = reserved.holder(reservation)
            found = self._for_reserved(app, request, reservation)
            if isinstance(found, Node):
                leaf, app, request = self.review.served_first(found, reservation)
                return leaf, app, request, found
            if isinstance(found, ToGiveUp):
                return found
            cleared = to_clear(self._context, app, request, found, self.turn_time)
            if isinstance(cleared, ToClear):
                if found is not None:
                    found.retire_if_unused()
                return cleared
            reserved.park(reservation, [one for one in (found, cleared) if one is not None])
        return None

    def _for_reserved(
        self, app: Application, request: Request, reservation: Reservation
    ) -> Node | Blocker | ToGiveUp | None:
        """Return a node, or the blocker; None if only a change of the reserved node helps.

        The reservation ends (`ToGiveUp`) if a claim has room on its node.
        """
        if app.state not in SCHEDULABLE:
            return None
        ask_class = request.ask.ask_class
        blocker = first_blocker(self._context, Asking(app, request.group, request))
        if blocker is not None:
            return blocker
        if self.review.gives_way(reservation):
            return ToGiveUp([], [reservation], None)
        own = reservation.node_id
        if own is not None and self._context.nodes[own].takes(ask_class, reserved=True):
            return self._context.nodes[own]
        return None if reservation.required else self._index.best(ask_class)

    # Applications with placeholders

    def _among_replacing(self) -> Replacement | Cancellation | None:
        """Return the first possible replacement, or a placeholder to cancel (spec § 6.5)."""
        replacing = self._context.wakeups.replacing
        while replacing.ready:
            if self._is_spent():
                return None
            app = replacing.first(self._root, self._context.dirty.ranks.types)
            stopped = QUEUE_RUNS.obstacle(self._context, app)
            if stopped is not None:
                blocker = QUEUE_RUNS.blocker(self._context, app, stopped)
                replacing.watch(app, Obstacles((blocker,), ()))
                continue
            found = self._replacements.find(app)
            if not isinstance(found, Obstacles):
                return found
            replacing.watch(app, found)
        return None

    # The regular pass

    def _in_queue(self, queue: Queue) -> Decision | None:
        """First decision in the queue: its children or applications in key order."""
        ranking = queue.ranking
        waiting = self._context.wakeups.waiting
        while True:
            child = waiting.first(ranking) if waiting.opened else ranking.top()
            if child is None:
                return None
            if queue.is_leaf:
                app: Application = child
                may_be_stopped = app.state is _ACCEPTED or app.interests & STOPPABLE
                stopped = self._application_blocker(app) if may_be_stopped else None
                if stopped is not None:
                    waiting.unpark_inside(app)
                    self._park(app, stopped)
                    continue
                decision = self._in_app(queue, app)
                if isinstance(decision, Blocker):
                    self._park(app, decision)
                    continue
                if decision is not None or self.tired:
                    return decision
            else:
                decision = self._in_queue(child)
                if decision is not None or self.tired:
                    return decision
            ranking.set_aside(child)

    def _application_blocker(self, app: Application) -> Blocker | None:
        """Return the blocker of all asks of the application, if any (spec §§ 4.12, 8.2, 10.5)."""
        blocker = application_blocker(self._context, app)
        starts = app.state is _ACCEPTED and not app.interests & STOPPABLE
        if starts and (blocker is not None or app.blocked_by):
            self._context.watch.may_run(app, self.turn_time)
        return blocker

    def _in_app(self, leaf: Queue, app: Application) -> Decision | Blocker | None:
        """First ask of the application that passes all checks, or a measure (spec § 8.3).

        A blocker if the application pauses, and none of its asks is served.
        """
        ranking = app.ranking
        waiting = self._context.wakeups.waiting
        pausing = leaf.interests & self._context.pausing
        for extension in self._context.visited if pausing else ():
            for group in extension.visited(leaf, app):
                waiting.unpark(group)
        while True:
            item = waiting.first(ranking) if waiting.opened else ranking.top()
            if item is None:
                return self._pause(leaf, app, None) if pausing else None
            if self._is_spent():
                return None
            found: Node | Blocker | Measure | None
            if isinstance(item, AskGroup):
                found = self._for_group(leaf, app, item)
                if isinstance(found, Node):
                    place = item.heap[0]
                    paused = self._pause(leaf, app, place) if pausing else None
                    if paused is not None:
                        return paused
                    item.attempted = True
                    return leaf, app, place.request, found
            else:
                found = self._for_remedy(item)
            if isinstance(found, Blocker):
                self._park(item, found)
            elif found is not None:
                first = item.heap[0] if isinstance(item, AskGroup) else item.first()
                return (self._pause(leaf, app, first) if pausing else None) or found

    def _pause(self, leaf: Queue, app: Application, found: Place | None) -> Blocker | None:
        """The blocker of an application that pauses before an ask of it is served, or as none can be."""
        for extension in self._context.pauses:
            blocker: Blocker | None = extension.pauses(leaf, app, found, self.turn_time)
            if blocker is not None:
                return blocker
        return None

    def _for_group(self, leaf: Queue, app: Application, group: AskGroup) -> Node | Blocker | Together:
        """Return the node for the asks of a group, or their blocker (spec § 8.3)."""
        if app.gang.terms is not None or group.is_bound or (group.key[2] and self.gangs.always):
            together = self.gangs.decide(leaf, app, group, self.turn_time)
            if together is not None:
                return together
        blocker = ask_blocker(self._context, Asking(app, group))
        if blocker is not None or group.over_queue or group.over is not None:
            self._context.watch.room(leaf, group, blocker, self.turn_time)
        found = self._index.best(group.ask_class) if blocker is None else blocker
        if isinstance(found, Node):
            group.unplaceable = group.nowhere = False
            return found
        group.unplaceable = blocker is None
        if isinstance(blocker, QuotaShortage):
            self._want(group, blocker.quota)
            if blocker.quota is self._root:
                group.nowhere = True
        if blocker is None:
            group.attempted = True
            self._want(group, None)
            blocker = found
            group.nowhere = True
        if group.nowhere and self.reserving:
            self._context.wakeups.backlog.note(group)
        note_passed_over(self._context, group, blocker, self.turn_time)
        return blocker

    def _want(self, group: AskGroup, over: Quota | None) -> None:
        """Have asks that exceed a quota, or that no node takes, wait for what may help them."""
        for kind, remedy in self._remedies.items():
            if kind not in group.remedy_requests and remedy.helps(group, over):
                self._context.escalation.want(group, kind, self.turn_time)

    def _for_remedy(self, wants: AgedAsks) -> Measure | Blocker | None:
        """The measure for the first ask that is old enough, or its blocker.

        None if the request pauses from now on, as one of gang members that belong in a domain does, or is
        ranked anew as another ask comes first by now.
        """
        if wants.group.is_bound:
            self._context.wakeups.waiting.withdraw(wants)
            return None
        first, entry = wants.first(), wants.app.ranking.entry(wants)
        if first is None or entry is None or entry.key != wants.key():
            self._context.escalation.rank(wants, self.turn_time)
            return None
        decision: Measure | Blocker | None
        decision = self._remedies[type(wants)].decide(wants, first.request, self.turn_time)
        return decision

    def _park(self, item: Parked, blocker: Blocker) -> None:
        self._context.wakeups.waiting.park(item, blocker)
