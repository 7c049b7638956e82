"""What everybody has, waits for and may have, added up from the records for one decision."""

from support.oracle.books import (
    Amounts,
    AppRecord,
    NodeRecord,
    QueueRecord,
    add_to,
    lineage,
    total,
)

Tracker = tuple[str, str, str]
"""A kind, ``user`` or ``group``, a name, and the path of a queue."""


class Usage:
    """All sums over one partition's records.

    `running` counts applications by queue that run or are about to, `tracked_apps` has those with
    allocations by user or group and queue, `reserved` the nodes with reservations.
    """

    def __init__(
        self,
        queues: dict[str, QueueRecord],
        apps: dict[str, AppRecord],
        nodes: dict[str, NodeRecord],
    ) -> None:
        """Add up everything."""
        self.cluster = total(node.capacity for node in nodes.values())
        self.allocated: dict[str, Amounts] = {path: {} for path in queues}
        self.pending: dict[str, Amounts] = {path: {} for path in queues}
        self.running = dict.fromkeys(queues, 0)
        self.app_allocated: dict[str, Amounts] = {}
        self.available = {node.node_id: node.free() for node in nodes.values()}
        self.waiting_priority: dict[str, int | None] = dict.fromkeys(queues)
        self.reserved: set[str] = set()
        self.tracked: dict[Tracker, Amounts] = {}
        self.tracked_apps: dict[Tracker, set[str]] = {}
        for app in apps.values():
            self._count(app)
        for path in sorted(queues, key=lambda path: -path.count(".")):
            self._hand_up(queues[path])

    def _count(self, app: AppRecord) -> None:
        """Add an application to its leaf, to its nodes and to its user and group."""
        allocated = total(allocation.ask.size for allocation in app.allocations.values())
        self.app_allocated[app.app_id] = allocated
        add_to(self.allocated[app.queue], allocated)
        self.running[app.queue] += app.state == "Running" or app.allocating
        self.reserved |= {ask.reservation.node_id for ask in app.asks.values() if ask.reservation}
        for allocation in app.allocations.values():
            taken = {name: -value for name, value in allocation.ask.size.items()}
            add_to(self.available[allocation.node_id], taken)
        if app.allocations:
            for kind, name in app.trackers():
                for path in lineage(app.queue):
                    add_to(self.tracked.setdefault((kind, name, path), {}), allocated)
                    self.tracked_apps.setdefault((kind, name, path), set()).add(app.app_id)
        if app.asks:
            add_to(self.pending[app.queue], total(ask.size for ask in app.asks.values()))
            before = self.waiting_priority[app.queue]
            here = app.priority()
            self.waiting_priority[app.queue] = here if before is None else max(before, here)

    def _hand_up(self, queue: QueueRecord) -> None:
        """Add a queue to its parent, and turn its inside priority into the one seen outside."""
        path, parent = queue.path, queue.parent
        outside = queue.priority_seen_outside(self.waiting_priority[path])
        self.waiting_priority[path] = outside
        if not parent:
            return
        add_to(self.allocated[parent], self.allocated[path])
        add_to(self.pending[parent], self.pending[path])
        self.running[parent] += self.running[path]
        if outside is not None:
            above = self.waiting_priority[parent]
            self.waiting_priority[parent] = outside if above is None else max(above, outside)
