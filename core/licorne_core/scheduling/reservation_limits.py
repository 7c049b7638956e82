"""How many nodes may be reserved at a time: for an application, in a queue, in the partition.

What is reserved stands idle until its ask fits, so it is bounded: by `reservation.max.nodes` of
each queue, by a tenth of the nodes where root has none, and for an application by
`application.reservation.max.nodes`, or else by half of what the partition may have. Reservations
of asks that require their node do not count (spec § 8.7).
"""

from collections.abc import Iterator

from licorne_core.apps.application import Application
from licorne_core.nodes.book import NodeBook
from licorne_core.queues.queue import Queue
from licorne_core.scheduling.blockers import Blocker

PART_OF_NODES = 10
"""Of so many nodes one may be reserved, unless root's property says otherwise; one in any case."""

Owner = Application | Queue


class ReservationLimit(Blocker):
    """As many nodes are reserved for an application, or in a queue, as may be."""

    __slots__ = ("_all", "owner")

    def __init__(self, owner: Owner, limits: "ReservationLimits") -> None:
        """It is one of those limits."""
        super().__init__()
        self.owner = owner
        self._all = limits

    def lets_through(self) -> bool:
        """Whether one more node may be reserved."""
        return self._all.has_room(self.owner)

    def retire(self) -> None:
        """Forget it."""
        self._all.drop(self)


class ReservationLimits:
    """Reserved nodes by owner, and the limits that block a reservation request.

    Always true: `_reserved` counts the reservations with a node whose asks do not require it.
    """

    __slots__ = ("_limits", "_nodes", "_reserved")

    def __init__(self, nodes: NodeBook) -> None:
        """Nothing is reserved."""
        self._nodes = nodes
        self._limits: dict[Owner, ReservationLimit] = {}
        self._reserved: dict[Owner, int] = {}

    def __iter__(self) -> Iterator[ReservationLimit]:
        """The limits that block somebody."""
        return iter(self._limits.values())

    def reserved(self, owner: Owner) -> int:
        """Nodes that are reserved for the application, or in the queue and below."""
        return self._reserved.get(owner, 0)

    def most(self, owner: Owner) -> int | None:
        """Nodes that may be; None for no bound of its own."""
        if isinstance(owner, Application):
            leaf: Queue = owner.leaf
            own = leaf.settings.app_reserved_nodes
            return (self._most_of_root(leaf.lineage[-1]) + 1) // 2 if own is None else own
        return self._most_of_root(owner) if owner.parent is None else owner.settings.reserved_nodes

    def _most_of_root(self, root: Queue) -> int:
        own = root.settings.reserved_nodes
        return max(1, len(self._nodes.by_id) // PART_OF_NODES) if own is None else own

    def has_room(self, owner: Owner) -> bool:
        """Whether one more node may be reserved, as far as this owner is concerned."""
        most = self.most(owner)
        return most is None or self.reserved(owner) < most

    def full(self, app: Application) -> Owner | None:
        """The first owner whose bound lets the application have no further node reserved."""
        for owner in owners(app):
            if not self.has_room(owner):
                return owner
        return None

    def blocker(self, app: Application) -> ReservationLimit | None:
        """The limit that lets the application have no further node reserved."""
        owner = self.full(app)
        if owner is None:
            return None
        limit = self._limits.get(owner)
        if limit is None:
            limit = self._limits[owner] = ReservationLimit(owner, self)
        return limit

    def find(self, owner: Owner) -> ReservationLimit | None:
        """The limit of the owner, if it blocks somebody."""
        return self._limits.get(owner)

    def count(self, app: Application, change: int) -> None:
        """One node more (1) or less (-1) is reserved for an ask that does not require it."""
        for owner in owners(app):
            count = self._reserved.get(owner, 0) + change
            if count:
                self._reserved[owner] = count
            else:
                del self._reserved[owner]

    def drop(self, limit: ReservationLimit) -> None:
        """It blocks nobody any more."""
        del self._limits[limit.owner]


def owners(app: Application) -> tuple[Owner, ...]:
    """Everything that a reservation for the application counts in."""
    return (app, *app.leaf.lineage)
