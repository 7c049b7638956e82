"""The order of decisions in the words of the specification: §§ 4, 5.2, 5.3, 7.5 and 8.2-8.4.

Every decision starts from nothing: usage is added up, queues, applications, asks and nodes
are sorted, and the first ask with a node wins.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from support.oracle.books import (
    Amounts,
    AppRecord,
    AskRecord,
    NodeRecord,
    QueueRecord,
    lineage,
    total,
)

SCHEDULABLE = ("Accepted", "Running")


class Decision(NamedTuple):
    """Which ask goes to which node."""

    app_id: str
    key: str
    node_id: str


class Usage:
    """What each queue has, waits for and may have, added up for one decision."""

    def __init__(
        self,
        queues: dict[str, QueueRecord],
        apps: dict[str, AppRecord],
        nodes: dict[str, NodeRecord],
    ) -> None:
        """Add up everything."""
        self.cluster = total([node.capacity for node in nodes.values()])
        self.allocated: dict[str, Amounts] = {path: {} for path in queues}
        self.pending: dict[str, Amounts] = {path: {} for path in queues}
        self.app_allocated: dict[str, Amounts] = {}
        self.available = {node.node_id: node.free() for node in nodes.values()}
        self.waiting_priority: dict[str, int | None] = dict.fromkeys(queues)
        for app in apps.values():
            self._count(app)
        for path in sorted(queues, key=lambda path: -path.count(".")):
            self._raise_priority(queues, path)

    def _count(self, app: AppRecord) -> None:
        allocated, pending = app.allocated(), app.pending()
        self.app_allocated[app.app_id] = allocated
        for path in lineage(app.queue):
            self.allocated[path] = total([self.allocated[path], allocated])
            self.pending[path] = total([self.pending[path], pending])
        for allocation in app.allocations.values():
            available = self.available[allocation.node_id]
            for name, value in allocation.ask.size.items():
                available[name] = available.get(name, 0) - value
        if app.asks:
            before = self.waiting_priority[app.queue]
            here = app.priority()
            self.waiting_priority[app.queue] = here if before is None else max(before, here)

    def _raise_priority(self, queues: dict[str, QueueRecord], path: str) -> None:
        """Turn a queue's inside priority into the one seen outside, and tell the parent."""
        queue = queues[path]
        outside = queue.priority_seen_outside(self.waiting_priority[path])
        self.waiting_priority[path] = outside
        if queue.parent and outside is not None:
            above = self.waiting_priority[queue.parent]
            self.waiting_priority[queue.parent] = outside if above is None else max(above, outside)


class Decider:
    """One look at a partition; finds the next decision and changes nothing."""

    def __init__(
        self,
        queues: dict[str, QueueRecord],
        apps: dict[str, AppRecord],
        nodes: dict[str, NodeRecord],
        node_order: tuple[str, list[tuple[str, float]]],
    ) -> None:
        """Over these records."""
        self.queues = queues
        self.apps = apps
        self.nodes = nodes
        self.node_order = node_order
        self.usage = Usage(queues, apps, nodes)

    def decide(self) -> Decision | None:
        """The first ask in order that every queue lets through and some node takes."""
        for app in self.apps_in_order("root"):
            for ask in sorted(app.asks.values(), key=lambda a: (-a.priority, a.created, a.arrival)):
                if self.within_every_max(app.queue, ask):
                    node_id = self.node_for(ask)
                    if node_id is not None:
                        return Decision(app.app_id, ask.key, node_id)
        return None

    # Queues (spec 4.8 to 4.11)

    def apps_in_order(self, path: str) -> Iterator[AppRecord]:
        """Applications with pending asks below a queue, in the order in which they are asked."""
        queue = self.queues[path]
        if queue.is_leaf:
            yield from self.apps_of_leaf(queue)
            return
        children = [q.path for q in self.queues.values() if q.parent == path]
        waiting = [child for child in children if any(self.usage.pending[child].values())]
        for child in sorted(waiting, key=lambda child: self.queue_key(child, queue.priority_first)):
            yield from self.apps_in_order(child)

    def queue_key(self, path: str, priority_first: bool) -> tuple[Any, ...]:
        """Priority and share, then the larger pending, then the path."""
        priority = self.usage.waiting_priority[path]
        assert priority is not None, f"{path} is sorted though nothing waits in it"
        share = self.share(path)
        pending = self.usage.pending[path]
        tie = tuple(-pending.get(name, 0) for name in sorted(self.usage.pending["root"]))
        if priority_first:
            return (-priority, share, tie, path)
        return (share, -priority, tie, path)

    def share(self, path: str) -> float:
        """The largest part that the queue has of what it is due, over all types it has any of."""
        guaranteed = self.queues[path].guaranteed
        fair_max = self.fair_max(path)
        highest = 0.0
        for name, used in self.usage.allocated[path].items():
            due = guaranteed.get(name, fair_max.get(name))
            if due is None:
                continue
            part = used / due if due > 0 else float(used > 0)
            highest = max(highest, part)
        return highest

    def fair_max(self, path: str) -> Amounts:
        """The cluster, overridden on the way down by what each queue's maximum defines."""
        result = {name: value for name, value in self.usage.cluster.items() if value}
        for ancestor in reversed(lineage(path)):
            result.update(self.queues[ancestor].max)
        return result

    # Applications (spec 5.2)

    def apps_of_leaf(self, leaf: QueueRecord) -> list[AppRecord]:
        """The leaf's applications with pending asks, sorted by its policy."""
        waiting = [
            app
            for app in self.apps.values()
            if app.queue == leaf.path and app.asks and app.state in SCHEDULABLE
        ]
        return sorted(waiting, key=lambda app: self.app_key(app, leaf))

    def app_key(self, app: AppRecord, leaf: QueueRecord) -> tuple[Any, ...]:
        """Priority, usage (fair only), submission time, id."""
        priority = -app.priority()
        if not leaf.fair_apps:
            if leaf.priority_first:
                return (priority, app.submitted, app.app_id)
            return (app.submitted, priority, app.app_id)
        usage = self.fair_usage(app, leaf)
        if leaf.priority_first:
            return (priority, usage, app.submitted, app.app_id)
        return (usage, priority, app.submitted, app.app_id)

    def fair_usage(self, app: AppRecord, leaf: QueueRecord) -> list[float]:
        """Shares of the leaf's guarantee, or the amount itself without one, largest first."""
        shares = []
        for name, used in self.usage.app_allocated[app.app_id].items():
            due = leaf.guaranteed.get(name, 0)
            if used:
                shares.append(used / due if due > 0 else float(used))
        return sorted(shares, reverse=True)

    # Gates (spec 4.5, 8.3) and nodes (spec 7.4, 7.5, 7.7)

    def within_every_max(self, path: str, ask: AskRecord) -> bool:
        """Whether the ask stays within the maximum of the leaf, its ancestors and the cluster."""
        for ancestor in lineage(path):
            used = self.usage.allocated[ancestor]
            is_root = ancestor == "root"
            limit = self.usage.cluster if is_root else self.queues[ancestor].max
            for name, wanted in ask.size.items():
                if name in limit and used.get(name, 0) + wanted > limit[name]:
                    return False
                if name not in limit and is_root:
                    return False
        return True

    def node_for(self, ask: AskRecord) -> str | None:
        """The first node in order that takes the ask."""
        fitting = [node for node in self.nodes.values() if self.takes(node, ask)]
        fitting.sort(key=lambda node: (self.score(node), node.node_id))
        return fitting[0].node_id if fitting else None

    def takes(self, node: NodeRecord, ask: AskRecord) -> bool:
        """Whether the node may take the ask and has room for it; a required one even if drained."""
        if ask.required_node is None:
            if not node.schedulable:
                return False
        elif ask.required_node != node.node_id:
            return False
        available = self.usage.available[node.node_id]
        return all(
            wanted <= available.get(name, 0) and wanted <= node.capacity.get(name, 0)
            for name, wanted in ask.size.items()
        )

    def score(self, node: NodeRecord) -> float:
        """How full the node is, weighted; the negative of it for bin packing."""
        kind, weights = self.node_order
        available = self.usage.available[node.node_id]
        taken = weight_sum = 0.0
        for name, weight in weights:
            capacity = node.capacity.get(name, 0)
            if weight > 0 and capacity > 0:
                taken += weight * (1 - available.get(name, 0) / capacity)
                weight_sum += weight
        used = taken / weight_sum if weight_sum else 0.0
        return -used if kind == "binpacking" else used
