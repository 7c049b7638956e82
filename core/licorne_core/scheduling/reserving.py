"""Making and ending reservations, in all books at once (spec §§ 8.5-8.7)."""

from collections.abc import Mapping

from licorne_core.apps.application import Application
from licorne_core.apps.requests import Request
from licorne_core.apps.states import AppState
from licorne_core.events import Journal
from licorne_core.facts.nodes import NodeReserved, ReservationEnded
from licorne_core.nodes.book import NodeBook
from licorne_core.nodes.node import Node
from licorne_core.reservations import Reservation
from licorne_core.scheduling.changes import Changes
from licorne_core.scheduling.escalation import Escalation
from licorne_core.scheduling.promises import Promise, Promises
from licorne_core.scheduling.reserved import Owner
from licorne_core.scheduling.wakeups import Wakeups
from licorne_core.timers import Due, Timer, Timers

RESERVATION_TIME = 3600.0
"""Seconds after which a reservation ends if its ask could not be placed (spec § 8.6)."""


class Reservations:
    """Makes and ends what is reserved for whom in one partition.

    Always true: a request, its application and its node agree on its reservation, and each
    reservation has a deadline.
    """

    __slots__ = ("_changes", "_escalation", "_journal", "_nodes", "_timers", "_wakeups", "promises")

    def __init__(
        self,
        nodes: NodeBook,
        changes: Changes,
        wakeups: Wakeups,
        escalation: Escalation,
        timers: Timers[Timer],
        journal: Journal,
    ) -> None:
        """None yet."""
        self._escalation = escalation
        self._nodes = nodes
        self._journal = journal
        self._changes = changes
        self._wakeups = wakeups
        self._timers = timers
        self.promises = Promises()
        """What was promised to asks that have a node reserved."""

    def reserve(
        self, app: Application, request: Request, node: Node, since: float, now: float
    ) -> Reservation:
        """Keep the node for the ask; it counts from unix seconds `since` on.

        An ask that may go nowhere else ends the reservations of those that may.
        """
        ask = request.ask
        required = ask.ask_class.required_node is not None
        if required:
            self.give_way(node, now)
        reservation = Reservation(app.app_id, ask.key, node.node_id, since, required)
        request.reservation = reservation
        app.reserved[ask.key] = request
        node.add_reservation(reservation)
        self._nodes.changed.note(node)
        self._wakeups.reserved.add(reservation, Owner(app.leaf, app, request))
        self._timers.set(_timer(reservation), since + RESERVATION_TIME)
        note_allocating(app)
        self._escalation.rank_all(request.group, now)
        self._changes.app_changed(app)
        self._journal.note(NodeReserved(now, node.node_id, ask.key, ask.ask_class.resources))
        return reservation

    def promise(
        self, app: Application, request: Request, victims: Mapping[Request, Application], now: float
    ) -> None:
        """Victims were told to stop for an ask that has a node reserved: that is kept from now."""
        reservation = request.reservation
        assert reservation is not None, f"{request!r} has its node"
        reservation.time = now
        self._timers.set(_timer(reservation), now + RESERVATION_TIME)
        self.promises.make(Promise(app, request, reservation, victims))
        self._wake(reservation)

    def victim_gone(self, victim: Request) -> None:
        """A victim is gone: is there room now for the ask that it had to go for?"""
        reservation = self.promises.victim_gone(victim)
        if reservation is not None:
            self._wake(reservation)

    def _wake(self, reservation: Reservation) -> None:
        self._wakeups.reserved.wake((reservation,))
        self._wakeups.waiting.runnable = True

    def end(self, reservation: Reservation, now: float) -> None:
        """The ask was served or dropped, or has lost its node; it may then have another one."""
        _, app, request = self._wakeups.reserved.remove(reservation)
        request.reservation = None
        del app.reserved[reservation.key]
        node = self._nodes.by_id[reservation.node_id]
        node.drop_reservation(reservation)
        self._timers.cancel(_timer(reservation))
        note_allocating(app)
        if not app.is_allocating:
            self._wakeups.may_run_again(app.leaf.lineage)
        promise = self.promises.end(reservation)
        if request.is_pending:
            wants = request.group.reservation_request
            if wants is not None:
                wants.add(request.place, now)
                self._escalation.rank(wants, now)
        self._changes.app_changed(app)
        self._wakeups.node_improved(node)
        if promise is not None:
            self._wakeups.room_in(app.quotas)
        size = request.ask.ask_class.resources
        self._journal.note(ReservationEnded(now, node.node_id, reservation.key, size))

    def give_way(self, node: Node, now: float) -> None:
        """An ask that requires the node takes it from those that do not (spec § 8.7)."""
        for reservation in [r for r in node.reservations.values() if not r.required]:
            self.end(reservation, now)

    def leave(self, node: Node, now: float) -> None:
        """The node goes: nothing is reserved there any more."""
        for reservation in list(node.reservations.values()):
            self.end(reservation, now)

    def shrunk(self, node: Node, now: float) -> None:
        """The node has another capacity: asks that it can never hold need another one."""
        for reservation in list(node.reservations.values()):
            request = self._wakeups.reserved.owner(reservation).request
            if not (reservation.required or node.holds(request.ask.ask_class.items)):
                self.end(reservation, now)


def note_allocating(app: Application) -> None:
    """Keep the queues' lists of accepted applications that are about to run (spec § 4.12)."""
    leaf = app.leaf
    if app.state is AppState.ACCEPTED and app.is_allocating:
        for queue in leaf.lineage:
            queue.allocating[app.app_id] = None
    elif app.app_id in leaf.allocating:
        for queue in leaf.lineage:
            del queue.allocating[app.app_id]


def _timer(reservation: Reservation) -> Timer:
    return Timer(Due.UNRESERVE, reservation.app_id, reservation.key)
