"""Promises and limits of reservations (spec §§ 8.5, 9.4.8).

An ask whose victims are being stopped has its node reserved. Its amounts are promised to it in its
queues, and to its user and group, from the stop of the victims until it is placed or gone, for at most
the hour of its reservation. Each promise is kept by itself: in every quota, others have to leave free
the part that the remaining victims do not cover. So no other ask gets freed resources, in whatever
order victims go.

While the RM is asked about a node for the ask, the promise rests: the ask itself is booked in its
quotas, and no other ask gets the promised node. If the RM refuses, or is not asked any more, the
promise goes on as before.

The promise goes on without its node if the node is lost, or can never hold the ask, or is claimed
by an ask that requires it, or if the RM refuses it. A refusal that comes before all victims on the
node are gone does not count: without them the RM may agree. Nor does silence. From then on others
may have the node. The ask may go to any node, and may have another one reserved. An ask that
requires its node keeps it for as long as it is there, unless the RM refuses it the room that the
victims have left (`review.py`).

An ask of another size keeps its promise up to that size. Freed resources are no more than the old
promise, and no other ask is to have them. An ask that is to replace a placeholder has the
placeholder's room: its promise ends.

A reserved node stands idle until its ask fits, so their number is bounded: by
`reservation.max.nodes` of each queue, by a tenth of the nodes where root has none, and for an
application by `application.reservation.max.nodes`, or else by half of what the partition may have.
Reservations of asks that require their node do not count (spec § 8.7).
"""

from collections.abc import Mapping

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.books import book_promise, unbook_promise
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.queues.queue import Queue
from licorne_core.model.quotas import Quota
from licorne_core.scheduling.waiting.blockers import Blockers, OfThing
from licorne_core.values.asks import Reservation
from licorne_core.values.ids import NodeId
from licorne_core.values.resources import Items, charge, refund


class Promise:
    """Promise of one ask; `outstanding` are its remaining victims, with their applications.

    `items` are the promised amounts, which may be less than the ask wants by now.
    """

    __slots__ = ("app", "is_resting", "items", "kept", "outstanding", "request", "reservation")

    def __init__(
        self,
        app: Application,
        request: Request,
        reservation: Reservation,
        victims: Mapping[Request, Application],
        items: Items,
    ) -> None:
        """Start a promise, as the victims were stopped."""
        self.app = app
        self.items = items
        self.request = request
        self.reservation = reservation
        self.outstanding = dict(victims)
        self.kept: dict[Quota, Items] = {}
        """Amounts that others have to leave free for it now, by quota."""
        self.is_resting = False
        """True if the ask is booked itself, as the RM is asked about a node for it."""

    def waits_on(self, node_id: NodeId) -> bool:
        """True if a victim on the node is not gone yet."""
        return any(
            victim.allocation is not None and victim.allocation.node_id == node_id
            for victim in self.outstanding
        )

    def lacks(self, quota: Quota) -> Items:
        """Amounts that the ask needs in a quota beyond those left free for it; zero for none.

        All its types are named: if the maximum was lowered, the part left free may not be there.
        """
        kept = dict(self.kept.get(quota, ()))
        items = self.request.ask.ask_class.items
        return tuple((name, value - kept.get(name, 0)) for name, value in items)

    def book(self) -> None:
        """Book it in all quotas of its application."""
        book_promise(self.items, self.app)
        for quota in self.app.quotas:
            self._keep(quota)

    def unbook(self) -> None:
        """The inverse of `book`."""
        unbook_promise(self.items, self.app)
        for quota, kept in self.kept.items():
            refund(quota.kept, kept)
        self.kept.clear()

    def follow(self, victim_app: Application) -> None:
        """A victim of the application is gone or has another size: more or less is to be kept."""
        if self.is_resting:
            return
        for quota in self.app.quotas:
            if quota in victim_app.quotas:
                refund(quota.kept, self.kept.pop(quota, ()))
                self._keep(quota)

    def _keep(self, quota: Quota) -> None:
        uncovered = dict(self.items)
        for victim, app in self.outstanding.items():
            if quota in app.quotas:
                for name, value in victim.ask.ask_class.items:
                    if name in uncovered:
                        uncovered[name] -= value
        kept = tuple((name, value) for name, value in uncovered.items() if value > 0)
        if kept:
            self.kept[quota] = kept
            charge(quota.kept, kept)


class Promises:
    """The promises of one partition.

    Always true: an ask with a promise has a reservation, and is pending; or it is assumed, and the
    promise rests. Each remaining victim of an ask is outstanding for it alone.
    """

    __slots__ = ("_by_victim",)

    def __init__(self) -> None:
        """Start empty."""
        self._by_victim: dict[Request, Promise] = {}

    def make(self, promise: Promise) -> None:
        """Make a promise to an ask with a reserved node, whose victims were stopped."""
        promise.request.promise = promise
        promise.book()
        for victim in promise.outstanding:
            self._by_victim[victim] = promise

    def victim_gone(self, victim: Request) -> Reservation | None:
        """Note that a victim is gone; return the reservation to try."""
        promise = self._by_victim.pop(victim, None)
        if promise is None:
            return None
        promise.follow(promise.outstanding.pop(victim))
        return promise.reservation

    def victim_resized(self, victim: Request) -> None:
        """A victim that is not gone yet has another size."""
        promise = self._by_victim.get(victim)
        if promise is not None:
            promise.follow(promise.outstanding[victim])

    def end(self, promise: Promise) -> None:
        """The reservation has ended, and the promise with it."""
        for victim in promise.outstanding:
            del self._by_victim[victim]
        if not promise.is_resting:
            promise.unbook()
        promise.request.promise = None


PART_OF_NODES = 10
"""Of so many nodes one may be reserved, unless root's property says otherwise; one in any case."""

Reserver = Application | Queue
"""An application, or a queue, that reserved nodes count in."""


class ReservationLimit(OfThing):
    """As many nodes are reserved for an application, or in a queue, as may be."""

    __slots__ = ("_limits",)

    def __init__(self, reserver: Reserver, blockers: Blockers, limits: "ReservationLimits") -> None:
        """Create one of `limits`, without blocked items."""
        super().__init__(reserver, blockers)
        self._limits = limits

    def lets_through(self) -> bool:
        """True if one more node may be reserved."""
        return self._limits.has_room(self.thing)


class ReservationLimits:
    """The counts of reserved nodes, and the limits that block a reservation request.

    Always true: `_reserved` counts the reservations with a node whose asks do not require it.
    """

    __slots__ = ("_blockers", "_nodes", "_reserved")

    def __init__(self, nodes: NodeBook, blockers: Blockers) -> None:
        """Start empty."""
        self._nodes = nodes
        self._blockers = blockers
        self._reserved: dict[Reserver, int] = {}

    def reserved(self, reserver: Reserver) -> int:
        """The nodes that are reserved for the application, or in the queue and below."""
        return self._reserved.get(reserver, 0)

    def most(self, reserver: Reserver) -> int | None:
        """The bound of reserved nodes; None for no bound of its own."""
        if isinstance(reserver, Application):
            leaf: Queue = reserver.leaf
            own = leaf.settings.app_reserved_nodes
            return (self._most_of_root(leaf.lineage[-1]) + 1) // 2 if own is None else own
        if reserver.parent is None:
            return self._most_of_root(reserver)
        return reserver.settings.reserved_nodes

    def _most_of_root(self, root: Queue) -> int:
        own = root.settings.reserved_nodes
        return max(1, len(self._nodes.by_id) // PART_OF_NODES) if own is None else own

    def has_room(self, reserver: Reserver) -> bool:
        """True if one more node may be reserved in it."""
        most = self.most(reserver)
        return most is None or self.reserved(reserver) < most

    def full(self, app: Application) -> Reserver | None:
        """Return the first reserver that allows the application no further reservation."""
        return next((one for one in reservers(app) if not self.has_room(one)), None)

    def blocker(self, app: Application) -> ReservationLimit | None:
        """The limit that lets the application have no further node reserved."""
        reserver = self.full(app)
        return None if reserver is None else self._blockers.get(ReservationLimit, reserver, self)

    def count(self, app: Application, change: int) -> None:
        """Count a node (1), or one less (-1), for an ask that does not require it."""
        for reserver in reservers(app):
            count = self._reserved.get(reserver, 0) + change
            if count:
                self._reserved[reserver] = count
            else:
                del self._reserved[reserver]


def reservers(app: Application) -> tuple[Reserver, ...]:
    """The application and its queues: a reservation for it counts in all of them."""
    return (app, *app.leaf.lineage)
