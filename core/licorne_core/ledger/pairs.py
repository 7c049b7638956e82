"""A placeholder and the real request that replaces it, in all books at once (spec §§ 6.5, 6.6).

Each step's effect on the other one is in `model/apps/gang_rules.py`. While a real request waits
for its placeholder's end it takes room on its node only if that is another room than the
placeholder's, and it counts in no queue.
"""

from licorne_core.ledger.allocating import Allocations
from licorne_core.ledger.pending import PendingAsks
from licorne_core.ledger.placeholders import Placeholders
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang_rules import PAIRS, Count, PairEvent, PairStep
from licorne_core.model.apps.requests import Request, RequestEvent, RequestState
from licorne_core.model.books import book_on_node, unbook_on_node
from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.listeners import Listeners
from licorne_core.scheduling.predicates.results import forget_results, note_known_change
from licorne_core.scheduling.replacing import Replacement
from licorne_core.scheduling.reservations.reserving import Reservations
from licorne_core.values.asks import Allocation, Ask


class Pairs:
    """Makes, carries through and parts the pairs of one partition.

    Always true: two partners name each other, and their states have a row in the table of pairs.
    """

    __slots__ = (
        "_allocations",
        "_asks",
        "_changes",
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
        allocations: Allocations,
    ) -> None:
        """Start empty."""
        self._nodes, _, self._changes, self._wakeups = listeners
        self._asks = asks
        self._placeholders = placeholders
        self._reservations = reservations
        self._allocations = allocations

    def match(self, found: Replacement, now: float) -> None:
        """The pair is made, and the RM is asked about the node."""
        # First: as long as an ask waits for an answer its class is known.
        found.request.group.assumed += 1
        self._pair(found, RequestEvent.MATCH, now)

    def link(self, found: Replacement, now: float) -> None:
        """Link the pair; the RM is asked to stop the placeholder."""
        self._pair(found, RequestEvent.LINK, now)
        found.placeholder.follow(RequestEvent.STOP)

    def agree(self, app: Application, request: Request) -> Request:
        """The RM agrees to the node of a matched request; the placeholder that it is to stop."""
        placeholder = _partner(request)
        step = self.step(request, PairEvent.AGREED)
        if request.allocation is not None:
            # The RM counts it as placed there.
            node = self._nodes.by_id[request.allocation.node_id]
            node.linked += 1
            if forget_results(node):
                self._wakeups.node_improved(node)
        self._end_question(app, request)
        self._take_step(app, request, step)
        return placeholder

    def step(self, request: Request, event: PairEvent) -> PairStep:
        """Return the table's step for the event on the pair of a real request."""
        return PAIRS[_partner(request).state, request.state, event]

    def part(self, app: Application, request: Request, event: PairEvent, now: float) -> None:
        """The pair comes apart: the real request waits again, or ends, as the table says."""
        placeholder = _partner(request)
        step = self.step(request, event)
        was_matched = request.state is RequestState.MATCHED
        if not was_matched:
            self._note_known(request, narrowed=False)
        self._leave_node(request)
        self._take_step(app, request, step)
        request.partner = placeholder.partner = None
        if request.is_pending:
            self._asks.enter(app, request, now)
            if was_matched:
                request.group.assumed -= 1
        else:
            del app.requests[request.key]
            app.holdings.ask_went(request.ask.footprint)
            app.tally.requests -= 1
        if placeholder.state is RequestState.PLACEHOLDER:
            app.gang.keep(placeholder)
        self._changes.app_changed(app)

    def take_place(
        self, app: Application, request: Request, step: PairStep, now: float
    ) -> Allocation:
        """Give the gone placeholder's place to its request. `step` is that of the table."""
        placeholder = _partner(request)
        where = request.allocation or placeholder.allocation
        assert where is not None, f"{placeholder!r} keeps room somewhere"
        node = self._nodes.by_id[where.node_id]
        self._leave_node(request)
        self._take_step(app, request, step)
        request.partner = placeholder.partner = None
        return self._allocations.take_place(app, placeholder, request, node, now)

    def stop(self, app: Application, request: Request) -> None:
        """Book the stop of a free placeholder, or of an unpaired real allocation."""
        if request.ask.placeholder:
            self._placeholders.give_up(app, request)
        elif request.allocation is not None:
            # It is no possible victim any more.
            self._wakeups.victims_changed(self._nodes.by_id[request.allocation.node_id])
        request.follow(RequestEvent.STOP)
        self._changes.app_changed(app)

    def cancel(self, app: Application, placeholder: Request) -> None:
        """Cancel a free placeholder that is too small for a real ask; the RM is asked to stop it."""
        self._placeholders.cancel(app, placeholder)
        placeholder.follow(RequestEvent.STOP)
        self._changes.app_changed(app)

    def end_cancelled(self, app: Application) -> None:
        """End the cancelled placeholders of the application: their time is up."""
        self._placeholders.end_cancelled(app)

    def resize(self, app: Application, request: Request, ask: Ask) -> None:
        """A linked request has another size: so has the room that it takes on its own node."""
        before = request.allocation
        self._note_known(request, narrowed=True)
        self._leave_node(request)
        app.holdings.memory += ask.footprint - request.ask.footprint
        request.ask = ask
        if before is not None:
            node = self._nodes.by_id[before.node_id]
            self._enter_node(request, node, before.request_time, before.allocation_time)

    def _take_step(self, app: Application, request: Request, step: PairStep) -> None:
        """Let both of a pair follow the table's step, and count the placeholder by it."""
        placeholder = _partner(request)
        request.follow(step.real)
        if step.placeholder is not None:
            placeholder.follow(step.placeholder)
        group = app.gang.group_of(placeholder.ask)
        if step.counts_as is Count.REPLACED:
            self._placeholders.replace(group)
        elif step.counts_as is Count.TIMED_OUT:
            self._placeholders.time_out(group)

    def _pair(self, found: Replacement, event: RequestEvent, now: float) -> None:
        leaf, app, request, placeholder, node, elsewhere = found
        top = app.priorities.top
        request.follow(event)
        self._asks.leave(app, request)
        request.partner, placeholder.partner = placeholder, request
        app.gang.take(placeholder)
        if elsewhere:
            self._enter_node(request, node, placeholder.create_time, now)
        if request.reservation is not None:
            self._reservations.end(request.reservation, now)
        self._changes.allocated(app, leaf, same_priority=app.priorities.top == top)

    def _enter_node(self, request: Request, node: Node, asked: float, now: float) -> None:
        book_on_node(request.ask.ask_class.items, node)
        request.allocation = Allocation(request.ask, node.node_id, asked, now)
        node.allocations[request.allocation] = None
        node.linked += request.state is RequestState.LINKED
        self._wakeups.node_filled(node)

    def _leave_node(self, request: Request) -> None:
        allocation = request.allocation
        if allocation is not None:
            node = self._nodes.by_id[allocation.node_id]
            unbook_on_node(allocation.ask.ask_class.items, node)
            del node.allocations[allocation]
            node.linked -= request.state is RequestState.LINKED
            request.allocation = None
            self._wakeups.node_improved(node)

    def _note_known(self, request: Request, *, narrowed: bool) -> None:
        """Void results on the other node, where the RM has changed or dropped the real request."""
        if request.allocation is not None:
            note_known_change(self._nodes.by_id[request.allocation.node_id], narrowed=narrowed)

    def _end_question(self, app: Application, request: Request) -> None:
        group = request.group
        group.assumed -= 1
        if group.is_idle:
            self._asks.class_went(app, group)


def _partner(request: Request) -> Request:
    assert request.partner is not None, f"{request!r} is of a pair"
    return request.partner
