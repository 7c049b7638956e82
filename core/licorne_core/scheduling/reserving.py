"""Making and ending reservations, in all books at once (spec §§ 8.5-8.7)."""

from licorne_core.apps.application import Application
from licorne_core.apps.runs import PendingAsk
from licorne_core.apps.states import AppState
from licorne_core.events import Journal
from licorne_core.facts.nodes import NodeReserved, ReservationEnded
from licorne_core.ids import AllocationKey, AppId
from licorne_core.nodes.book import NodeBook
from licorne_core.nodes.node import Node
from licorne_core.queues.queue import Queue
from licorne_core.reservations import Reservation
from licorne_core.scheduling.frontier import Frontier
from licorne_core.timers import TimerName, Timers

RESERVATION_TIME = 3600.0
"""Seconds after which a reservation ends if its ask could not be placed (spec § 8.6)."""

UNRESERVE = "unreserve"


class Reservations:
    """Owns what is reserved for whom in one partition."""

    __slots__ = ("_frontier", "_journal", "_nodes", "_timers")

    def __init__(
        self, nodes: NodeBook, frontier: Frontier, timers: Timers[TimerName], journal: Journal
    ) -> None:
        """None yet."""
        self._nodes = nodes
        self._journal = journal
        self._frontier = frontier
        self._timers = timers

    def reserve(
        self,
        leaf: Queue,
        app: Application,
        entry: PendingAsk,
        node: Node,
        now: float,
        *,
        since: float | None = None,
    ) -> Reservation:
        """Keep the node for the ask, counted from unix seconds `since`, or else from now on.

        An ask that may go nowhere else ends the reservations of those that may.
        """
        ask = entry[3]
        since = now if since is None else since
        required = ask.ask_class.required_node is not None
        if required:
            self.give_way(node, now)
        reservation = Reservation(app.app_id, ask.key, node.node_id, since, required)
        app.reservations[ask.key] = reservation
        node.add_reservation(reservation)
        self._frontier.reserved.add(reservation, (leaf, app, ask.ask_class))
        self._timers.set(_name(app.app_id, ask.key), since + RESERVATION_TIME)
        note_allocating(leaf, app)
        self._frontier.app_changed(app, leaf)
        size = ask.ask_class.resources
        self._journal.note(NodeReserved(now, node.node_id, ask.key, size))
        return reservation

    def end(self, app: Application, key: AllocationKey, now: float) -> None:
        """The ask was served or dropped, or has lost its node; it may then claim another one."""
        reservation = app.reservations.pop(key)
        leaf, _, ask_class = self._frontier.reserved.remove(reservation)
        node = self._nodes.by_id[reservation.node_id]
        node.drop_reservation(reservation)
        self._timers.cancel(_name(app.app_id, key))
        note_allocating(leaf, app)
        if not app.is_allocating:
            self._frontier.may_run_again(leaf.lineage)
        entry = app.pending.get(key)
        if entry is not None:
            claim = app.runs[ask_class].claim
            if claim is not None:
                app.claim_again(claim, entry)
        self._frontier.app_changed(app, leaf)
        self._frontier.node_changed(node)
        size = ask_class.resources
        self._journal.note(ReservationEnded(now, node.node_id, key, size))

    def give_way(self, node: Node, now: float) -> None:
        """An ask that requires the node takes it from those that do not (spec § 8.7)."""
        for reservation in [r for r in node.reservations.values() if not r.required]:
            self.end_one(reservation, now)

    def leave(self, node: Node, now: float) -> None:
        """The node goes: nothing is reserved there any more."""
        for reservation in list(node.reservations.values()):
            self.end_one(reservation, now)

    def end_one(self, reservation: Reservation, now: float) -> None:
        """End a reservation, whosever it is."""
        _, app, _ = self._frontier.reserved.owner(reservation)
        self.end(app, reservation.key, now)

    def shrunk(self, node: Node, now: float) -> None:
        """The node has another capacity: asks that it can never hold need another one."""
        for reservation in list(node.reservations.values()):
            _, _, ask_class = self._frontier.reserved.owner(reservation)
            if not (reservation.required or node.holds(ask_class.items)):
                self.end_one(reservation, now)


def note_allocating(leaf: Queue, app: Application) -> None:
    """Keep the queues' lists of accepted applications that are about to run (spec § 4.12)."""
    if app.state is AppState.ACCEPTED and app.is_allocating:
        for queue in leaf.lineage:
            queue.allocating[app.app_id] = None
    elif app.app_id in leaf.allocating:
        for queue in leaf.lineage:
            del queue.allocating[app.app_id]


def _name(app_id: AppId, key: AllocationKey) -> TimerName:
    return (UNRESERVE, app_id, key)
