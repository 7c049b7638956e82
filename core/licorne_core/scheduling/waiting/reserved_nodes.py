"""The bound on the number of reserved nodes, and the requests that wait for it (spec § 8.5).

A reserved node is idle until its ask fits. So the number of reserved nodes is bounded: by
`reservation.max.nodes` of each queue, by a tenth of the nodes if root has no such property, and for
an application by `application.reservation.max.nodes`, or else by half of the partition's bound.
Reservations of asks that require their node do not count (spec § 8.7).
"""

from licorne_core.model.apps.application import Application
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.waiting.blockers import Blockers, OfThing

PART_OF_NODES = 10
"""One node in this number may be reserved, but at least one node, if root has no bound of its own."""

Reserver = Application | Queue
"""An application or a queue, in which reserved nodes count."""


class ReservationLimit(OfThing):
    """No further node may be reserved for an application, or in a queue."""

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

    def __init__(self, nodes: NodeBook, blockers: Blockers) -> None:
        """Start empty."""
        self._nodes = nodes
        self._blockers = blockers
        self._reserved: dict[Reserver, int] = {}

    def reserved(self, reserver: Reserver) -> int:
        """Number of nodes reserved for the application, or in the queue and below."""
        return self._reserved.get(reserver, 0)

    def most(self, reserver: Reserver) -> int | None:
        """Maximum number of reserved nodes of the application or queue; None if it has no own bound."""
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
        """True if one more node may be reserved in the queue or application."""
        most = self.most(reserver)
        return most is None or self.reserved(reserver) < most

    def full(self, app: Application) -> Reserver | None:
        """First reserver, from the application up to root, that may reserve no further node; or None."""
        return next((one for one in reservers(app) if not self.has_room(one)), None)

    def blocker(self, app: Application) -> ReservationLimit | None:
        """Blocker of further reservations for the application, if any."""
        reserver = self.full(app)
        return None if reserver is None else self._blockers.get(ReservationLimit, reserver, self)

    def count(self, app: Application, change: int) -> None:
        """Add `change` (1 or -1) to the counts of reserved nodes; not for asks that require their node."""
        for reserver in reservers(app):
            count = self._reserved.get(reserver, 0) + change
            if count:
                self._reserved[reserver] = count
            else:
                del self._reserved[reserver]


def reservers(app: Application) -> tuple[Reserver, ...]:
    """The application and its queues, in all of which its reservations count."""
    return (app, *app.leaf.lineage)
