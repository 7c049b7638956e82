"""A placeholder and the real request that replaces it, in all books at once (spec §§ 6.5, 6.6).

Each step's effect on the other one is in `model/apps/gang.py`. While a real request waits
for its placeholder's end it takes room on its node only if that is another room than the
placeholder's, and it counts in no queue.
"""

from licorne_core.ledger.allocating import Allocations
from licorne_core.ledger.placeholders import Placeholders
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import PAIRS, Count, PairEvent, PairStep
from licorne_core.model.apps.requests import Request, RequestEvent, RequestState
from licorne_core.model.nodes.book import NodeBook
from licorne_core.scheduling.replacing import Replacement
from licorne_core.scheduling.reservations.reserving import Reservations
from licorne_core.values.asks import Allocation, Ask


class Pairs:
    """Makes, carries through and parts the pairs of one partition.

    Always true: two partners name each other, and their states have a row in the table of pairs.
    """

    __slots__ = (
        "_allocations",
        "_moves",
        "_nodes",
        "_placeholders",
        "_reservations",
    )

    def __init__(
        self,
        nodes: NodeBook,
        placeholders: Placeholders,
        reservations: Reservations,
        allocations: Allocations,
    ) -> None:
        """Start empty."""
        self._nodes = nodes.by_id
        self._moves = allocations.moves
        self._placeholders = placeholders
        self._reservations = reservations
        self._allocations = allocations

    def match(self, found: Replacement, now: float) -> None:
        """The pair is made, and the RM is asked about the node."""
        self._pair(found, RequestEvent.MATCH, now)

    def link(self, found: Replacement, now: float) -> None:
        """Link the pair; the RM is asked to stop the placeholder."""
        self._pair(found, RequestEvent.LINK, now)
        self._moves.move(found.app, found.placeholder, RequestEvent.STOP)

    def agree(self, app: Application, request: Request) -> Request:
        """The RM agrees to the node of a matched request; the placeholder that it is to stop."""
        placeholder = _partner(request)
        step = self.step(request, PairEvent.AGREED)
        self._moves.move(app, request, step.real)
        if step.placeholder is not None:
            self._moves.move(app, placeholder, step.placeholder)
        return placeholder

    def step(self, request: Request, event: PairEvent) -> PairStep:
        """Return the table's step for the event on the pair of a real request."""
        return PAIRS[_partner(request).state, request.state, event]

    def part(self, app: Application, request: Request, event: PairEvent, now: float) -> None:
        """The pair comes apart: the real request waits again, or ends, as the table says."""
        placeholder = _partner(request)
        step = self.step(request, event)
        request.partner = placeholder.partner = None
        if placeholder.state is RequestState.PLACEHOLDER:
            app.gang.keep(placeholder)
        self._moves.move(app, request, step.real, now=now)
        self._count(app, placeholder, step.counts_as)

    def take_place(self, app: Application, request: Request, step: PairStep, now: float) -> Allocation:
        """Give the gone placeholder's place to its request. `step` is that of the table."""
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

    def end_cancelled(self, app: Application) -> None:
        """End the cancelled placeholders of the application: their time is up."""
        self._placeholders.end_cancelled(app)

    def resize(self, app: Application, request: Request, ask: Ask) -> None:
        """A linked request has another size: so has the room that it takes on its own node."""
        self._moves.resize(app, request, ask)

    def _count(self, app: Application, placeholder: Request, count: Count) -> None:
        group = app.gang.group_of(placeholder.ask)
        if count is Count.REPLACED:
            self._placeholders.replace(group)
        elif count is Count.TIMED_OUT:
            self._placeholders.time_out(group)

    def _pair(self, found: Replacement, event: RequestEvent, now: float) -> None:
        _, app, request, placeholder, node, elsewhere = found
        place = None
        if elsewhere:
            place = Allocation(request.ask, node.node_id, placeholder.create_time, now)
        request.partner, placeholder.partner = placeholder, request
        app.gang.take(placeholder)
        self._moves.move(app, request, event, place=place)
        if request.reservation is not None:
            self._reservations.end(request.reservation, now)


def _partner(request: Request) -> Request:
    assert request.partner is not None, f"{request!r} is of a pair"
    return request.partner
