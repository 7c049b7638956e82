"""Books each step of a request from pending to released.

Every step books or unbooks, follows the request's table of states, and then reports the change.
"""

from dataclasses import replace
from typing import Final

from licorne_core.ledger.pending import PendingAsks
from licorne_core.ledger.placeholders import Placeholders
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import ASSUMED, Request, RequestEvent, RequestState, Setback
from licorne_core.model.apps.usage import note_highest
from licorne_core.model.books import book, book_as_real, book_preempting, unbook, unbook_preempting
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.cycle import Candidate
from licorne_core.scheduling.listeners import Listeners
from licorne_core.scheduling.predicates.results import forget_results, note_known_change
from licorne_core.scheduling.reservations.reserving import Reservations, note_allocating
from licorne_core.values.asks import Allocation, Ask
from licorne_core.values.counters import Counters

# Read from their enumerations once: that costs as much as two calls, for every allocation.
_ALLOCATE: Final = RequestEvent.ALLOCATE
_KEEP_ROOM: Final = RequestEvent.KEEP_ROOM


class Allocations:
    """Makes, confirms, takes back and ends the allocations of one partition."""

    __slots__ = (
        "_asks",
        "_changes",
        "_counters",
        "_nodes",
        "_placeholders",
        "_reservations",
        "_wakeups",
    )

    def __init__(
        self,
        listeners: Listeners,
        asks: PendingAsks,
        placeholders: Placeholders,
        reservations: Reservations,
        counters: Counters,
    ) -> None:
        """Start empty."""
        self._nodes, _, self._changes, self._wakeups = listeners
        self._asks = asks
        self._placeholders = placeholders
        self._reservations = reservations
        self._counters = counters

    def allocate(self, candidate: Candidate, now: float) -> Allocation:
        """Carry out a decision that the RM hears of at once."""
        _, app, request, node = candidate
        allocation = self._place(
            candidate, _KEEP_ROOM if request.ask.placeholder else _ALLOCATE, now
        )
        if request.ask.placeholder:
            self._placeholders.keep(app, request)
        self._note_known(node)
        return allocation

    def assume(self, candidate: Candidate, now: float) -> None:
        """Carry out a decision that the RM has to agree to first (spec § 8.4)."""
        self._place(candidate, RequestEvent.ASSUME, now)
        _, app, _, node = candidate
        self._wakeups.node_filled(node)
        note_allocating(app)

    def _place(self, candidate: Candidate, event: RequestEvent, now: float) -> Allocation:
        """Book a pending ask on its node, and rank the queues between it and root.

        The hot path: nothing else is looked at.
        """
        leaf, app, request, node = candidate
        top = app.priorities.top
        request.follow(event)
        if request.state is ASSUMED:
            request.group.assumed += 1
        self._asks.leave(app, request)
        allocation = Allocation(request.ask, node.node_id, request.create_time, now)
        _book(request, allocation, app, node)
        if request.reservation is not None:
            self._reservations.placed(request, now)
        if node.reservations and request.ask.ask_class.required_node is not None:
            self._reservations.give_way(node, now)
        if app.reserved and app.allocation_count == 1:
            self._wakeups.app_counts(app)
        self._changes.allocated(app, leaf, same_priority=app.priorities.top == top)
        return allocation

    def confirm(self, app: Application, request: Request, now: float) -> Allocation:
        """The RM agrees to an assumed request's node, and counts the ask as placed there."""
        allocation, node = self._where(request)
        self._end_assumption(app, request)
        if request.ask.placeholder:
            request.follow(_KEEP_ROOM)
            self._placeholders.keep(app, request)
        else:
            request.follow(RequestEvent.CONFIRM)
        self._reservations.placed(request, now)
        self._note_results_void(node, void=forget_results(node))
        return allocation

    def note_unknown(self, node: Node) -> None:
        """Void the RM's answers about a node with a confirmation that the RM does not count."""
        self._note_results_void(node, void=note_known_change(node, narrowed=True))

    def roll_back(self, app: Application, request: Request, now: float) -> None:
        """An assumed request, of which the RM never heard, is pending again in its old place."""
        allocation, node = self._where(request)
        _unbook(request, allocation, app, node)
        app.assumed_count -= 1
        app.tally.allocations += 1
        request.follow(RequestEvent.ROLL_BACK)
        self._asks.enter(app, request, now)
        request.group.assumed -= 1
        self._reservations.resume(request)
        self._freed(app, node)
        self._note_not_allocating(app)

    def take(self, app: Application, request: Request, node: Node, now: float) -> Allocation:
        """Book an existing allocation regardless of limits (spec § 11.3).

        The request is new, or it was pending and is not counted as such any more.
        """
        request.follow(_KEEP_ROOM if request.ask.placeholder else _ALLOCATE)
        allocation = Allocation(request.ask, node.node_id, request.create_time, now)
        _book(request, allocation, app, node)
        if request.ask.placeholder:
            self._placeholders.keep(app, request)
        self._note_known(node)
        self._changes.app_changed(app)
        leaf: Queue = app.leaf
        leaf.counters.allocations_made += 1
        return allocation

    def take_place(
        self, app: Application, placeholder: Request, request: Request, node: Node, now: float
    ) -> Allocation:
        """End a placeholder, and book the request on the node that was linked to it (§ 6.6)."""
        kept, place = self._where(placeholder)
        asked = kept.request_time
        allocation = Allocation(request.ask, node.node_id, asked, now, placeholder_used=True)
        if node is place and request.ask.ask_class.items == kept.ask.ask_class.items:
            # As for most. No other item can have any of it, so that none is woken.
            self._placeholders.end(app, placeholder, RequestEvent.RELEASE)
            _hand_over(placeholder, request, allocation, app, node)
            if note_known_change(node, narrowed=True):
                self._wakeups.node_improved(node)
            else:
                self._wakeups.victims_changed(node)
            _count_release(self._counters, app)
        else:
            self.release(app, placeholder)
            _book(request, allocation, app, node)
            self._note_known(node)
        self._changes.app_changed(app)
        return allocation

    def preempt(self, app: Application, request: Request) -> None:
        """Book a victim that the RM is asked to stop; its resources count as preempting (§ 9.4.8)."""
        if request.ask.placeholder:
            self._placeholders.give_up(app, request)
        request.follow(RequestEvent.PREEMPT)
        _, node = self._where(request)
        book_preempting(request.ask.ask_class.items, node, app)
        self._wakeups.victims_changed(node)

    def release(self, app: Application, request: Request) -> Allocation:
        """Free an allocation; nothing is left of the request."""
        allocation = self._end(app, request, RequestEvent.RELEASE)
        del app.requests[request.key]
        app.holdings.ask_went(request.ask.footprint)
        app.tally.requests -= 1
        return allocation

    def ask_back(self, app: Application, request: Request, setback: Setback) -> Allocation:
        """Free an allocation that could not be run: it waits again, last among its equals.

        It is not tried before its back-off is over.
        """
        allocation = self._end(app, request, RequestEvent.ASK_BACK)
        app.arrivals += 1
        request.arrival = app.arrivals
        request.is_queued = False
        request.reported = False
        request.triggered = False
        request.ask = replace(request.ask, node_id=None)
        self._asks.set_back(app, request, setback)
        return allocation

    def resize(self, app: Application, request: Request, ask: Ask) -> None:
        """Give an allocation another size in its place."""
        allocation, node = self._where(request)
        stopping = request.state is RequestState.PREEMPTING
        if stopping:
            unbook_preempting(request.ask.ask_class.items, node, app)
        _unbook(request, allocation, app, node)
        app.holdings.memory += ask.footprint - request.ask.footprint
        request.ask = ask
        _book(request, replace(allocation, ask=ask), app, node)
        if stopping:
            book_preempting(ask.ask_class.items, node, app)
            self._reservations.promises.victim_resized(request)
        note_known_change(node, narrowed=True)
        self._freed(app, node)

    def _end(self, app: Application, request: Request, event: RequestEvent) -> Allocation:
        allocation, node = self._where(request)
        if request.state is RequestState.PREEMPTING:
            unbook_preempting(request.ask.ask_class.items, node, app)
            self._reservations.victim_gone(request)
        if request.ask.placeholder:
            self._placeholders.end(app, request, event)
        _unbook(request, allocation, app, node)
        request.follow(event)
        note_known_change(node, narrowed=False)
        self._freed(app, node)
        if request.ask.placeholder:
            self._note_not_allocating(app)
        _count_release(self._counters, app)
        return allocation

    def _note_not_allocating(self, app: Application) -> None:
        """The application may have lost all that it had; then another one may start instead."""
        note_allocating(app)
        self._wakeups.may_run_again(app.leaf.lineage)

    def _end_assumption(self, app: Application, request: Request) -> None:
        app.assumed_count -= 1
        app.tally.allocations += 1
        group = request.group
        group.assumed -= 1
        if group.is_idle:
            self._asks.class_went(app, group)

    def _where(self, request: Request) -> tuple[Allocation, Node]:
        allocation = request.allocation
        assert allocation is not None, f"{request!r} is not booked"
        return allocation, self._nodes.by_id[allocation.node_id]

    def _note_known(self, node: Node) -> None:
        """Void results on the node, as the RM made or will hear of the booking."""
        if note_known_change(node, narrowed=True):
            self._wakeups.node_improved(node)
        else:
            self._wakeups.node_filled(node)

    def _note_results_void(self, node: Node, *, void: bool) -> None:
        """Wake items for the node after a booking that has voided refusals."""
        if void:
            self._wakeups.node_improved(node)
        else:
            self._wakeups.node_filled(node)

    def _freed(self, app: Application, node: Node) -> None:
        """Wake items that wait for resources of the application or the node."""
        if not app.allocation_count:
            self._wakeups.may_run_again(app.trackers)
        self._changes.app_changed(app)
        self._wakeups.room_in(app.quotas)
        self._wakeups.node_improved(node)


def _book(request: Request, allocation: Allocation, app: Application, node: Node) -> None:
    ask = allocation.ask
    book(ask.ask_class.items, node, app, placeholder=ask.placeholder)
    node.allocations[allocation] = None
    app.take(request, allocation)
    if app.allocation_count == 1:
        for tracker in app.trackers:
            tracker.applications[app.app_id] = None


def _forget(request: Request, app: Application, node: Node) -> None:
    """Drop the allocation from its node and application; amounts are booked by the caller."""
    assert request.allocation is not None, f"{request!r} is booked"
    del node.allocations[request.allocation]
    request.allocation = None
    app.allocation_count -= 1
    app.tally.allocations -= 1


def _unbook(request: Request, allocation: Allocation, app: Application, node: Node) -> None:
    ask = allocation.ask
    note_highest(app, ask.ask_class.items, placeholder=ask.placeholder)
    unbook(ask.ask_class.items, node, app, placeholder=ask.placeholder)
    _forget(request, app, node)
    if not app.allocation_count:
        for tracker in app.trackers:
            del tracker.applications[app.app_id]


def _hand_over(
    placeholder: Request, request: Request, allocation: Allocation, app: Application, node: Node
) -> None:
    """Hand the placeholder's books over to the request."""
    items = request.ask.ask_class.items
    note_highest(app, items, placeholder=True)
    book_as_real(items, app)
    _forget(placeholder, app, node)
    placeholder.follow(RequestEvent.RELEASE)
    del app.requests[placeholder.key]
    app.holdings.ask_went(placeholder.ask.footprint)
    app.tally.requests -= 1
    node.allocations[allocation] = None
    app.take(request, allocation)


def _count_release(counters: Counters, app: Application) -> None:
    counters.allocations_released += 1
    leaf: Queue = app.leaf
    leaf.counters.allocations_released += 1
