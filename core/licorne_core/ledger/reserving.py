"""Makes and ends reservations, in all books together (spec §§ 8.5-8.7)."""

from collections.abc import Iterable, Mapping

from licorne_core.ledger.promises import MOST_TRIES, Promise, Promises, RefusedStops
from licorne_core.messages.events.cluster import reservation_changed
from licorne_core.messages.events.records import EventChange
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import ASSUMED, Request
from licorne_core.model.books import note_allocating
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import Node
from licorne_core.model.quotas import note_freed
from licorne_core.model.rm_context import Journal
from licorne_core.scheduling.escalation import Escalation, readmit
from licorne_core.scheduling.order import Holder
from licorne_core.scheduling.stays import Stay
from licorne_core.scheduling.waiting.dirty import Dirty
from licorne_core.scheduling.waiting.reserved_nodes import reservers
from licorne_core.scheduling.waiting.wakeups import Wakeups
from licorne_core.values.asks import Reservation
from licorne_core.values.ids import NodeId
from licorne_core.values.timers import Due, Timer, Timers

_REVIEW = Timer(Due.REVIEW)

REVIEW_TIME = 1.0
"""Seconds from one review of the reservations to the next."""

RESERVATION_TIME = 3600.0
"""Seconds after which a reservation ends if its ask could not be placed (spec § 8.6)."""


class Reservations:
    """Makes and ends reservations in one partition.

    Always true: a request, its application and its node agree on its reservation, and each
    reservation has a deadline.
    """

    def __init__(
        self,
        nodes: NodeBook,
        wakeups: Wakeups,
        dirty: Dirty,
        escalation: Escalation,
        timers: Timers[Timer],
        journal: Journal,
        stays: Mapping[Request, Stay],
    ) -> None:
        """Start without reservations; `stays` has the noticed victims."""
        self._escalation = escalation
        self._nodes = nodes
        self._journal = journal
        self._dirty = dirty
        self._wakeups = wakeups
        self._timers = timers
        self._stays = stays
        self.promises = Promises()
        """Promises of asks that have a node reserved."""

    def reserve(
        self,
        app: Application,
        request: Request,
        node: Node,
        since: float,
        now: float,
        *,
        provisional: bool = False,
    ) -> Reservation:
        """Reserve the node for the ask; a new reservation begins at unix seconds `since`.

        An ask that requires the node ends the reservations of other asks there. An ask with a promise but
        without a node keeps its reservation, to which this node is added.
        """
        if request.ask.ask_class.required_node is not None:
            self.give_way(node, now)
        reservation = request.reservation or self._start(app, request, since)
        reservation.node_id = node.node_id
        reservation.provisional = provisional
        node.add_reservation(reservation)
        if not reservation.required:
            self._wakeups.reservation_limits.count(app, 1)
        self._dirty.mark_filled(node)
        if _REVIEW not in self._timers:
            self._timers.set(_REVIEW, now + REVIEW_TIME)
        self._escalation.rank_all(request.group, now)
        self._dirty.mark_app(app)
        size = request.ask.ask_class.resources
        self._journal.note(reservation_changed(now, node.node_id, request.key, size, EventChange.ADD))
        return reservation

    def _start(self, app: Application, request: Request, since: float) -> Reservation:
        """Start a reservation without a node, in place of the request's claims."""
        if request.claim is not None:
            request.claim.end()
        required = request.ask.ask_class.required_node is not None
        reservation = Reservation(
            app.app_id,
            request.key,
            None,
            since,
            required,
            request.ask.ask_class.items,
            app.leaf.settings.reservation_exclusive,
        )
        request.reservation = reservation
        app.reserved[request.key] = request
        self._wakeups.reserved.add(reservation, Holder(app.leaf, app, request))
        self._timers.set(_timer(reservation), since + RESERVATION_TIME)
        note_allocating(app)
        return reservation

    def promise(
        self, app: Application, request: Request, victims: Mapping[Request, Application], now: float
    ) -> None:
        """Promise the resources of stopped victims to an ask with a reservation; its hour starts again."""
        reservation = request.reservation
        assert reservation is not None, f"{request!r} has its node"
        if request.promise is not None:
            self.promises.end(request.promise)
        reservation.time, reservation.provisional = now, False
        self._timers.set(_timer(reservation), now + RESERVATION_TIME)
        items = request.ask.ask_class.items
        self.promises.make(Promise(app, request, reservation, victims, items))
        self._wake(reservation)

    def take_over(self, promise: Promise, request: Request, own: NodeId | None, now: float) -> None:
        """Transfer an ended promise to `request`, its ask in another size, which had `own` reserved.

        The promise shrinks to the amounts that the ask still requests, and may be without a node. If the node
        that victims were to clear is now too small for the ask, other victims may be stopped.
        """
        wanted = dict(request.ask.ask_class.items)
        still = ((name, min(value, wanted.get(name, 0))) for name, value in promise.items)
        items = tuple((name, value) for name, value in still if value)
        if items:
            app = promise.app
            reservation = request.reservation
            if reservation is None:
                reservation = self._start(app, request, promise.reservation.time)
            again = Promise(app, request, reservation, promise.outstanding, items)
            again.node_id, again.has_stopped = promise.node_id, promise.has_stopped
            self.promises.make(again)
            if own is not None and own == again.node_id and reservation.node_id is None:
                _stopped_in_vain(self.promises, self._stays, again, now)
                if request.group is not None:
                    readmit(self._escalation, request, now)
        else:
            if not promise.has_stopped:
                request.triggered = False
            self._end_on_shared(request.reservation, now)

    def _end_on_shared(self, reservation: Reservation | None, now: float) -> None:
        """End a reservation that has lost its promise if the node is shared: in addition to promised
        reservations a node has at most one other, and none if it has planned starts.
        """
        if reservation is None or reservation.node_id is None or reservation.required:
            return
        node, reserved = self._nodes.by_id[reservation.node_id], self._wakeups.reserved
        others = [one for one in node.reservations.values() if not (one is reservation or one.required)]
        if node.claims or any(reserved.holder(one).request.promise is None for one in others):
            self.end(reservation, now)

    def placed(self, request: Request, now: float) -> None:
        """End the reservation of a placed ask; while the ask is assumed, only pause its promise."""
        reservation, promise = request.reservation, request.promise
        if reservation is None:
            return
        if promise is None or request.state is not ASSUMED:
            node_id = reservation.node_id
            self.end(reservation, now)
            allocation = request.allocation if promise is not None else None
            if allocation is not None and allocation.node_id == node_id:
                # Only on its reserved node it may have passed claims.
                node = self._nodes.by_id[allocation.node_id]
                for claim in node.claims:
                    claim.give_way(node, now)
        else:
            promise.unbook()
            promise.is_paused = True
            self._wakeups.reserved.forget(reservation)

    def resume(self, request: Request) -> None:
        """Continue the promise of an ask that is pending again, if it has one."""
        promise = request.promise
        if promise is not None:
            promise.is_paused = False
            promise.book()
            self._wake(promise.reservation)

    def refused(self, request: Request, node: Node, now: float) -> None:
        """Take the node from a promise, as the RM has refused the node.

        A refusal does not count while victims remain there, or if the ask requires the node.
        """
        promise = request.promise
        if promise is None or promise.reservation.node_id != node.node_id:
            return
        if not (promise.reservation.required or promise.waits_on(node.node_id)):
            _refused_in_vain(self._nodes, request, node, now)
            self.lose_node(promise.reservation, now)

    def victim_gone(self, victim: Request) -> None:
        """Record that a victim has ended, and wake the ask for which it was stopped."""
        reservation = self.promises.victim_gone(victim)
        if reservation is not None:
            self._wake(reservation)

    def _wake(self, reservation: Reservation) -> None:
        self._wakeups.reserved.wake((reservation,))
        self._wakeups.waiting.runnable = True

    def end(self, reservation: Reservation, now: float) -> None:
        """End a reservation, and its promise; a pending ask may have another node reserved."""
        _, app, request = self._wakeups.reserved.remove(reservation)
        request.reservation = None
        del app.reserved[reservation.key]
        self._timers.cancel(_timer(reservation))
        note_allocating(app)
        if not app.is_allocating:
            self._dirty.mark(app.leaf.lineage)
        promise: Promise | None = request.promise
        if promise is not None:
            if not promise.has_stopped:
                request.triggered = False
            _let_go(self._stays, promise.outstanding, now)
            self.promises.end(promise)
        self._leave_node(reservation, app, request, now)
        if promise is not None:
            self._dirty.mark(app.quotas)
            note_freed(app.further)

    def came_to_nothing(self, promise: Promise, now: float) -> None:
        """End a promise that its ask cannot use, or that the rules of preemption do not allow any more."""
        _stopped_in_vain(self.promises, self._stays, promise, now)
        self.end(promise.reservation, now)

    def lose_node(self, reservation: Reservation, now: float) -> None:
        """Release the node of a reservation; a promise continues without a node.

        An ask that requires the node loses its reservation.
        """
        _, app, request = self._wakeups.reserved.holder(reservation)
        promise: Promise | None = request.promise
        if reservation.required or promise is None:
            self.end(reservation, now)
            return
        if promise.node_id == reservation.node_id:
            _stopped_in_vain(self.promises, self._stays, promise, now)
        self._leave_node(reservation, app, request, now)
        self._wake(reservation)

    def _leave_node(self, reservation: Reservation, app: Application, request: Request, now: float) -> None:
        """Free the reserved node, if there is one; a pending ask may have another one reserved."""
        node_id, reservation.node_id = reservation.node_id, None
        if request.is_pending:
            readmit(self._escalation, request, now)
        self._dirty.mark_app(app)
        if node_id is not None:
            node = self._nodes.by_id[node_id]
            node.drop_reservation(reservation)
            reservation.idle_since, reservation.gives_way = None, False
            if not reservation.required:
                self._wakeups.reservation_limits.count(app, -1)
                self._dirty.mark(reservers(app))
            self._wakeups.reserved_node_waits.give_up(node)
            if node.claims:
                # Their starts may be planned again.
                self._wakeups.waiting.runnable = True
            self._dirty.mark_node(node)
            size = request.ask.ask_class.resources
            ended = reservation_changed(now, node_id, reservation.key, size, EventChange.REMOVE)
            self._journal.note(ended)

    def take_back(self, reservation: Reservation, now: float) -> None:
        """Take the node from an ask that could not use it or has lower precedence; see `lose_node`."""
        if reservation.node_id is not None:
            request = self._wakeups.reserved.holder(reservation).request
            _refused_in_vain(self._nodes, request, self._nodes.by_id[reservation.node_id], now)
        self.lose_node(reservation, now)

    def give_way(self, node: Node, now: float) -> None:
        """Release reservations of the node by asks that do not require it (spec § 8.7)."""
        for reservation in [r for r in node.reservations.values() if not r.required]:
            self.lose_node(reservation, now)

    def leave(self, node: Node, now: float) -> None:
        """Release the reservations of a node that is removed; promises continue without it."""
        for reservation in list(node.reservations.values()):
            request = self._wakeups.reserved.holder(reservation).request
            self.lose_node(reservation, now)
            if reservation.required:
                # A later node of that name would be a different node.
                request.triggered = False

    def shrunk(self, node: Node, now: float) -> None:
        """Take a resized node from asks that it can never hold, except those that require it."""
        for reservation in list(node.reservations.values()):
            request = self._wakeups.reserved.holder(reservation).request
            if not (reservation.required or node.holds(request.ask.ask_class.items)):
                self.lose_node(reservation, now)

    def follow_settings(self, app: Application, request: Request) -> None:
        """Apply the leaf's `reservation_exclusive` to the reservation (spec § 8.4)."""
        reservation, exclusive = request.reservation, app.leaf.settings.reservation_exclusive
        if reservation is None or reservation.exclusive is exclusive:
            return
        node = None if reservation.node_id is None else self._nodes.by_id[reservation.node_id]
        if node is None:
            reservation.exclusive = exclusive
            return
        node.drop_reservation(reservation)
        reservation.exclusive = exclusive
        node.add_reservation(reservation)
        if node.open:
            self._dirty.mark_node(node)
        else:
            self._dirty.mark_filled(node)


def _refused_in_vain(nodes: NodeBook, request: Request, node: Node, now: float) -> None:
    """Pause stops of victims for similar asks, and exclude the cleared node until it changes."""
    promise, group = request.promise, request.group
    if promise is not None and promise.node_id == node.node_id and node.is_refused(request.ask.ask_class):
        group.refused_stops = group.refused_stops or RefusedStops()
        group.refused_stops.note(request, node, nodes, now)


def _stopped_in_vain(promises: Promises, stays: Mapping[Request, Stay], promise: Promise, now: float) -> None:
    """Spare the noticed victims; other victims may be stopped for the ask, up to `MOST_TRIES` times."""
    promise.request.triggered = promise.request.refused_stops >= MOST_TRIES
    _let_go(stays, promises.spare(promise), now)


def _let_go(stays: Mapping[Request, Stay], victims: Iterable[Request], now: float) -> None:
    """Decide immediately whether noticed victims are spared: another promise may count on them."""
    for victim in victims:
        stay = stays.get(victim)
        if stay is not None and not stay.is_due(now):
            stay.reconsider(now)


def _timer(reservation: Reservation) -> Timer:
    return Timer(Due.UNRESERVE, reservation.app_id, reservation.key)
