"""The limits of reserved nodes: of an application, of a queue and of the partition.

A reserved node stands idle until its ask fits, so their number is bounded: by
`reservation.max.nodes` of each queue, by a tenth of the nodes where root has none, and for an
application by `application.reservation.max.nodes`, or else by half of what the partition may have.
Reservations of asks that require their node do not count (spec § 8.7).
"""

from collections.abc import Iterator

from licorne_core.model.apps.application import Application
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.waiting.blockers import Blocker

PART_OF_NODES = 10
"""Of so many nodes one may be reserved, unless root's property says otherwise; one in any case."""

Reserver = Application | Queue
"""An application, or a queue, that reserved nodes count in."""


class ReservationLimit(Blocker):
    """As many nodes are reserved for an application, or in a queue, as may be."""

    __slots__ = ("_all", "reserver")

    def __init__(self, reserver: Reserver, limits: "ReservationLimits") -> None:
        """Create one of `limits`, without blocked items."""
        super().__init__()
        self.reserver = reserver
        self._all = limits

    def lets_through(self) -> bool:
        """True if one more node may be reserved."""
        return self._all.has_room(self.reserver)

    def retire(self) -> None:
        """Forget it."""
        self._all.drop(self)


class ReservationLimits:
    """The counts of reserved nodes, and the limits that block a reservation request.

    Always true: `_reserved` counts the reservations with a node whose asks do not require it.
    """

    __slots__ = ("_limits", "_nodes", "_reserved")

    def __init__(self, nodes: NodeBook) -> None:
        """Start empty."""
        self._nodes = nodes
        self._limits: dict[Reserver, ReservationLimit] = {}
        self._reserved: dict[Reserver, int] = {}

    def __iter__(self) -> Iterator[ReservationLimit]:
        """Iterate over the limits with blocked items."""
        return iter(self._limits.values())

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
        if reserver is None:
            return None
        limit = self._limits.get(reserver)
        if limit is None:
            limit = self._limits[reserver] = ReservationLimit(reserver, self)
        return limit

    def find(self, reserver: Reserver) -> ReservationLimit | None:
        """Return the limit of the reserver, if it has blocked items."""
        return self._limits.get(reserver)

    def count(self, app: Application, change: int) -> None:
        """Count a node (1), or one less (-1), for an ask that does not require it."""
        for reserver in reservers(app):
            count = self._reserved.get(reserver, 0) + change
            if count:
                self._reserved[reserver] = count
            else:
                del self._reserved[reserver]

    def drop(self, limit: ReservationLimit) -> None:
        """Forget a limit without blocked items."""
        del self._limits[limit.reserver]


def reservers(app: Application) -> tuple[Reserver, ...]:
    """The application and its queues: a reservation for it counts in all of them."""
    return (app, *app.leaf.lineage)
