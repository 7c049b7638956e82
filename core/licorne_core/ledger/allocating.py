"""Posts each step of a request from pending to released, and of a pair (spec §§ 6.5, 6.6).

Every step follows the request's table of states, moves it between accounts, and counts. A pair is a
placeholder and the real request that replaces it: the effect of each step on the other one is in
`model/apps/gang.py`. While a real request waits for the end of its placeholder, it takes room on its node
only if that room is not the placeholder's, and it counts in no queue.
"""

from dataclasses import replace
from typing import Final

from licorne_core.ledger.moves import Moves
from licorne_core.ledger.pending import PendingAsks, Placeholders
from licorne_core.ledger.reserving import Reservations
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import PAIRS, Count, PairEvent, PairStep
from licorne_core.model.apps.requests import ASSUMED, Request, RequestEvent, RequestState, Setback
from licorne_core.model.books import book, note_allocating
from licorne_core.model.claims import Claims
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.model.runtimes import Runtimes
from licorne_core.scheduling.measures import Candidate
from licorne_core.scheduling.replacing import Replacement
from licorne_core.scheduling.waiting.dirty import Dirty
from licorne_core.values.asks import Allocation
from licorne_core.values.counters import Counters

# Looked up once: for every allocation, a lookup in the enumeration would cost as much as two calls.
_ALLOCATE: Final = RequestEvent.ALLOCATE
_KEEP_ROOM: Final = RequestEvent.KEEP_ROOM


class Allocations:
    """Makes, confirms, rolls back and ends the allocations of one partition."""

    __slots__ = (
        "_asks",
        "_claims",
        "_counters",
        "_dirty",
        "_moves",
        "_placeholders",
        "_reservations",
        "_runtimes",
    )

    def __init__(
        self,
        moves: Moves,
        dirty: Dirty,
        asks: PendingAsks,
        placeholders: Placeholders,
        reservations: Reservations,
        counters: Counters,
        claims: Claims,
        runtimes: Runtimes,
    ) -> None:
        """Start empty."""
        self._claims = claims
        self._runtimes = runtimes
        self._asks = asks
        self._dirty = dirty
        self._moves = moves
        self._placeholders = placeholders
        self._reservations = reservations
        self._counters = counters

    def allocate(self, candidate: Candidate, now: float) -> Allocation:
        """Book a decision that the RM receives immediately."""
        _, app, request, _ = candidate
        if request.ask.placeholder:
            app.gang.keep(request)
            return self._place(candidate, _KEEP_ROOM, now)
        return self._place(candidate, _ALLOCATE, now)

    def assume(self, candidate: Candidate, now: float) -> None:
        """Book a decision that the RM has to accept first (spec § 8.4)."""
        self._place(candidate, RequestEvent.ASSUME, now)

    def _place(self, candidate: Candidate, event: RequestEvent, now: float) -> Allocation:
        """Book a pending ask on its node, and rank the queues between it and root.

        The hot path: `Moves.move` is written out here, without the cases that a placement does not need.
        """
        _, app, request, node = candidate
        top = app.priorities.top
        request.follow(event)
        is_assumed = request.state is ASSUMED
        if is_assumed:
            request.group.assumed += 1
        if request.claim is not None:
            request.claim.placed(node, now)
        self._asks.leave(app, request, now)
        ask = request.ask
        runtime, _ = self._runtimes.expected(app, ask)
        passed = self._claims.passed
        allocation = Allocation(ask, node.node_id, request.create_time, now, runtime, passed=passed)
        book(ask.ask_class.items, node, app, placeholder=ask.placeholder)
        node.allocations[allocation] = None
        if not node.schedulable:
            self._moves.placed_on_closed(node)
        request.allocation = allocation
        app.take(request, allocation)
        if is_assumed:
            app.assumed_count += 1
        else:
            app.tally.allocations += 1
            app.placeholder_count += ask.placeholder
        if is_assumed or ask.placeholder:
            note_allocating(app)
        if request.reservation is not None:
            self._reservations.placed(request, now)
        if node.reservations and ask.ask_class.required_node is not None:
            self._reservations.give_way(node, now)
        self._dirty.placed(app, request, node, same_priority=app.priorities.top == top)
        return allocation

    def confirm(self, app: Application, request: Request, now: float) -> Allocation:
        """Confirm an assumed request: the RM has accepted the node, and counts the ask as placed on it."""
        allocation = _allocation_of(request)
        if request.ask.placeholder:
            app.gang.keep(request)
            self._moves.move(app, request, _KEEP_ROOM)
        else:
            self._moves.move(app, request, RequestEvent.CONFIRM)
        self._reservations.placed(request, now)
        return allocation

    def note_unknown(self, node: Node) -> None:
        """Void the predicate results of a node after a confirmation of which the RM is not aware."""
        if node.note_known_change(narrowed=True):
            self._dirty.mark_node(node)
        else:
            self._dirty.mark_filled(node)

    def roll_back(self, app: Application, request: Request, now: float) -> None:
        """Return an assumed request to pending, in its old place; the RM never got the allocation."""
        self._moves.move(app, request, RequestEvent.ROLL_BACK, now=now)
        self._reservations.resume(request)

    def take(self, app: Application, request: Request, node: Node, now: float) -> Allocation:
        """Book an existing allocation regardless of limits (spec § 11.3). Its request is new."""
        runtime, _ = self._runtimes.expected(app, request.ask)
        allocation = Allocation(request.ask, node.node_id, request.create_time, now, runtime)
        event = _ALLOCATE
        if request.ask.placeholder:
            event = _KEEP_ROOM
            app.gang.keep(request)
        self._moves.arrive(app, request, event, allocation)
        if app.gang.is_parked:
            self._asks.regroup(app)
        leaf: Queue = app.leaf
        leaf.counters.allocations_made += 1
        return allocation

    def take_place(
        self, app: Application, placeholder: Request, request: Request, node: Node, now: float
    ) -> Allocation:
        """End a placeholder, and book the request on the node that was linked to it (§ 6.6)."""
        kept = _allocation_of(placeholder)
        asked = kept.request_time
        runtime, _ = self._runtimes.expected(app, request.ask)
        allocation = Allocation(
            request.ask, node.node_id, asked, now, runtime, placeholder_used=True, passed=kept.passed
        )
        if request.allocation is None and request.ask.ask_class.items == kept.ask.ask_class.items:
            # Placeholders end with a release, as most allocations do.
            self._placeholders.end(app, placeholder, RequestEvent.RELEASE)
            self._moves.hand_over(app, placeholder, request, allocation)
            self._count_release(app)
        else:
            self.release(app, placeholder)
            self._moves.move(app, request, RequestEvent.CONFIRM, place=allocation)
        return allocation

    def preempt(self, app: Application, request: Request) -> None:
        """Book a victim that the RM is asked to stop; its resources count as preempting (§ 9.4.8)."""
        if request.ask.placeholder:
            self._placeholders.give_up(app, request)
        self._moves.move(app, request, RequestEvent.PREEMPT)

    def release(self, app: Application, request: Request) -> Allocation:
        """Free an allocation, and remove its request."""
        return self._end(app, request, RequestEvent.RELEASE, 0.0)

    def ask_back(self, app: Application, request: Request, setback: Setback, now: float) -> Allocation:
        """Free an allocation that could not be run: its ask is pending again, last of its priority and age.

        It is not tried before the end of its back-off.
        """
        self._asks.set_back(app, request, setback)
        allocation = self._end(app, request, RequestEvent.ASK_BACK, now)
        app.arrivals += 1
        request.arrival = app.arrivals
        request.is_queued = False
        request.reported = False
        request.triggered, request.refused_stops = False, 0
        request.checkpoint = request.started = None
        request.ask = replace(request.ask, node_id=None)
        return allocation

    def _end(self, app: Application, request: Request, event: RequestEvent, now: float) -> Allocation:
        allocation = _allocation_of(request)
        if request.ask.placeholder:
            self._placeholders.end(app, request, event)
        self._moves.move(app, request, event, now=now)
        self._count_release(app)
        return allocation

    def _count_release(self, app: Application) -> None:
        self._counters.allocations_released += 1
        leaf: Queue = app.leaf
        leaf.counters.allocations_released += 1


def _allocation_of(request: Request) -> Allocation:
    assert request.allocation is not None, f"{request!r} is not booked"
    return request.allocation


class Pairs:
    """Makes, links and parts the pairs of one partition.

    Always true: two partners name each other, and their states have a row in the table of pairs.
    """

    def __init__(
        self,
        nodes: NodeBook,
        placeholders: Placeholders,
        reservations: Reservations,
        moves: Moves,
        allocations: Allocations,
        runtimes: Runtimes,
    ) -> None:
        """Start empty."""
        self._runtimes = runtimes
        self._nodes = nodes.by_id
        self._moves = moves
        self._placeholders = placeholders
        self._reservations = reservations
        self._allocations = allocations

    def match(self, found: Replacement, now: float) -> None:
        """Match the pair; the RM is asked about the node."""
        self._pair(found, RequestEvent.MATCH, now)

    def link(self, found: Replacement, now: float) -> None:
        """Link the pair; the RM is asked to stop the placeholder."""
        self._pair(found, RequestEvent.LINK, now)
        self._moves.move(found.app, found.placeholder, RequestEvent.STOP)

    def agree(self, app: Application, request: Request) -> Request:
        """Link a matched pair, as the RM accepts the node; return the placeholder that the RM has to stop."""
        placeholder = _partner(request)
        step = self.step(request, PairEvent.AGREED)
        self._moves.move(app, request, step.real)
        if step.placeholder is not None:
            self._moves.move(app, placeholder, step.placeholder)
        return placeholder

    def step(self, request: Request, event: PairEvent) -> PairStep:
        """Return the step in the table for the event on the pair of a real request."""
        return PAIRS[_partner(request).state, request.state, event]

    def part(self, app: Application, request: Request, event: PairEvent, now: float) -> None:
        """Separate the pair: the table decides whether the real request is pending again, or ends."""
        placeholder = _partner(request)
        step = self.step(request, event)
        request.partner = placeholder.partner = None
        if placeholder.state is RequestState.PLACEHOLDER:
            app.gang.keep(placeholder)
        self._moves.move(app, request, step.real, now=now)
        self._count(app, placeholder, step.counts_as)

    def take_place(self, app: Application, request: Request, step: PairStep, now: float) -> Allocation:
        """Place the request where its ended placeholder was; `step` is from the table."""
        placeholder = _partner(request)
        where = request.allocation or placeholder.allocation
        assert where is not None, f"{placeholder!r} keeps room somewhere"
        node = self._nodes[where.node_id]
        self._count(app, placeholder, step.counts_as)
        request.partner = placeholder.partner = None
        return self._allocations.take_place(app, placeholder, request, node, now)

    def stop(self, app: Application, request: Request) -> None:
        """Book the stop of a free placeholder, or of an unpaired real allocation."""
        if request.ask.placeholder:
            self._placeholders.give_up(app, request)
        self._moves.move(app, request, RequestEvent.STOP)

    def cancel(self, app: Application, placeholder: Request) -> None:
        """Cancel a free placeholder that is too small for a real ask; the RM is asked to stop it."""
        self._placeholders.cancel(app, placeholder)
        self._moves.move(app, placeholder, RequestEvent.STOP)

    def _count(self, app: Application, placeholder: Request, count: Count) -> None:
        group = app.gang.group_of(placeholder.ask)
        if count is Count.REPLACED:
            self._placeholders.replace(group)
        elif count is Count.TIMED_OUT:
            self._placeholders.time_out(group)

    def _pair(self, found: Replacement, event: RequestEvent, now: float) -> None:
        app, request, placeholder, node, elsewhere = found
        place = None
        if elsewhere:
            runtime, _ = self._runtimes.expected(app, request.ask)
            place = Allocation(request.ask, node.node_id, placeholder.create_time, now, runtime)
        request.partner, placeholder.partner = placeholder, request
        app.gang.take(placeholder)
        self._moves.move(app, request, event, place=place, now=now)
        if request.reservation is not None:
            self._reservations.end(request.reservation, now)


def _partner(request: Request) -> Request:
    assert request.partner is not None, f"{request!r} is of a pair"
    return request.partner
