"""One partition as the oracle sees it: queues, nodes and applications (spec §§ 2.7, 3-5, 7)."""

from typing import Any

from licorne_core.commands import NewApplication, NodeAction, NodeUpdate
from support.oracle.books import AppRecord, AskRecord, NodeRecord, QueueRecord, lineage
from support.oracle.config import creates_queues, node_order, queue_records, tagged_amounts
from support.oracle.limits import group_of

COMPLETING_SECONDS = 30.0
CLEANING_SECONDS = 10.0
RESERVATION_SECONDS = 3600.0


class PartitionOracle:
    """The records of one partition.

    `clean_at`: when empty queues are removed, if some may be. `reserving`: nodes are reserved.
    """

    def __init__(self, config: dict[str, Any], *, as_fifo: bool, reserving: bool) -> None:
        """An empty partition."""
        self.reserving = reserving
        self.queues = queue_records(config)
        self.apps: dict[str, AppRecord] = {}
        self.nodes: dict[str, NodeRecord] = {}
        self.creates_queues = creates_queues(config)
        self.node_order = node_order(config)
        self.as_fifo = as_fifo
        self.clean_at: float | None = None

    def reload(self, config: dict[str, Any], now: float) -> None:
        """Take another configuration; queues that are not in it any more drain (spec § 2.7)."""
        new = queue_records(config)
        # Root keeps the number of applications that it was created with (spec § 2.7.3).
        new["root"].max_apps = self.queues["root"].max_apps
        for path, queue in self.queues.items():
            if queue.managed and path not in new:
                queue.draining = True
        self.queues.update(new)
        self.creates_queues = creates_queues(config)
        self.node_order = node_order(config)
        for queue in self.queues.values():
            if queue.is_leaf and not queue.managed:
                self._follow_template(queue)
        for app in self.apps.values():
            app.group = group_of(self.queues, app.queue, app.groups)
        for queue in self.queues.values():
            if self._is_empty(queue):
                self._clean_later(queue.path, now)

    # Nodes

    def update_node(self, update: NodeUpdate, now: float) -> None:
        """Do what the action says; what makes no sense does nothing."""
        action, known = update.action, self.nodes.get(update.node_id)
        if action in (NodeAction.CREATE, NodeAction.CREATE_DRAIN):
            if known is None:
                schedulable = action is NodeAction.CREATE
                capacity = dict(update.capacity or {})
                self.nodes[update.node_id] = NodeRecord(update.node_id, capacity, schedulable)
        elif known is None:
            return
        elif action is NodeAction.UPDATE:
            if update.capacity is not None:
                known.capacity = dict(update.capacity)
                self._unreserve_too_large(known)
        elif action is NodeAction.DECOMISSION:
            del self.nodes[update.node_id]
            self._drop_allocations_on(update.node_id, now)
        else:
            known.schedulable = action is NodeAction.DRAIN_TO_SCHEDULABLE

    def _drop_allocations_on(self, node_id: str, now: float) -> None:
        """The node is gone, and so is what ran there."""
        for _, ask in self.reserved_asks():
            if ask.reservation and ask.reservation.node_id == node_id:
                ask.reservation = None
        for app in self.apps.values():
            gone = [key for key, held in app.allocations.items() if held.node_id == node_id]
            for key in gone:
                del app.allocations[key]
            if gone:
                self.settle(app, now)

    def _unreserve_too_large(self, node: NodeRecord) -> None:
        """What the node can never hold it is not kept for; an ask that requires it still waits."""
        for _, ask in self.reserved_asks():
            here = ask.reservation is not None and ask.reservation.node_id == node.node_id
            if here and ask.required_node is None and not node.holds(ask.size):
                ask.reservation = None

    def reserved_asks(self) -> list[tuple[AppRecord, AskRecord]]:
        """All asks that a node is reserved for."""
        return [
            (app, ask)
            for app in self.apps.values()
            for ask in app.asks.values()
            if ask.reservation is not None
        ]

    # Applications

    def add_app(self, new: NewApplication, now: float) -> None:
        """Place the application, unless its id is taken or no queue will have it."""
        if new.app_id in self.apps:
            return
        path = self._place(new.queue_name)
        if path is None:
            return
        user = new.user.user
        app = AppRecord(
            new.app_id, path, now, user, tuple(new.user.groups) or (user,), dict(new.tags)
        )
        app.group = group_of(self.queues, path, app.groups)
        self.apps[new.app_id] = app
        self._follow_tags(app)

    def _place(self, name: str) -> str | None:
        """The leaf that the `provided` rule finds or makes for a full path."""
        queue = self.queues.get(name)
        if queue is not None:
            return name if queue.is_leaf and not queue.draining else None
        above = next(path for path in lineage(name) if path in self.queues)
        nearest = self.queues[above]
        if not self.creates_queues or nearest.is_leaf or nearest.draining:
            return None
        for path in reversed(lineage(name)[: lineage(name).index(above)]):
            self.queues[path] = QueueRecord(path, is_leaf=path == name, managed=False)
        self._follow_template(self.queues[name])
        return name

    def _follow_template(self, leaf: QueueRecord) -> None:
        """A dynamic leaf has what the nearest template above it says, and what was brought."""
        above = (self.queues[path].template for path in lineage(leaf.path)[1:])
        nothing = QueueRecord(leaf.path, is_leaf=True)
        template = next((found for found in above if found), nothing)
        brought = leaf.brought or nothing
        leaf.properties = dict(template.properties)
        leaf.guaranteed = dict(brought.guaranteed or template.guaranteed)
        leaf.max = dict(brought.max or template.max)
        leaf.max_apps = brought.max_apps or template.max_apps

    def _follow_tags(self, app: AppRecord) -> None:
        """What the tags of an application say holds for a dynamic leaf from now on (§ 3.13)."""
        leaf = self.queues[app.queue]
        if leaf.managed:
            return
        brought = leaf.brought = leaf.brought or QueueRecord(leaf.path, is_leaf=True)
        brought.max = tagged_amounts(app.tags, "namespace.resourcequota") or brought.max
        brought.guaranteed = (
            tagged_amounts(app.tags, "namespace.resourceguaranteed") or brought.guaranteed
        )
        brought.max_apps = int(app.tags.get("namespace.resourcemaxapps", "0")) or brought.max_apps
        self._follow_template(leaf)

    def remove_app(self, app_id: str, now: float) -> None:
        """Forget an application and all it has."""
        app = self.apps.pop(app_id, None)
        if app is not None:
            self._clean_later(app.queue, now)

    def settle(self, app: AppRecord, now: float) -> None:
        """An application with nothing left is completing."""
        if not app.asks and not app.allocations:
            app.state = "Completing"
            app.starts_until = None
            app.completes_at = now + COMPLETING_SECONDS

    # Time

    def pass_time(self, now: float) -> None:
        """Applications that were idle long enough are done, rests and starts end, queues go.

        In the order of their deadlines: a queue that is looked at before its last application
        is done has to wait for the next look.
        """
        while True:
            due = [app for app in self.apps.values() if (app.completes_at or now + 1) <= now]
            done = min(due, key=lambda app: app.completes_at or 0.0, default=None)
            clean_first = done is None or (self.clean_at or now + 1) < (done.completes_at or 0.0)
            if clean_first and self.clean_at is not None and self.clean_at <= now:
                self.clean_at = None
                self._clean()
            elif done is not None:
                self.remove_app(done.app_id, now)
            else:
                break
        for _, ask in self.reserved_asks():
            if ask.reservation and ask.reservation.since + RESERVATION_SECONDS <= now:
                ask.reservation = None
        for app in self.apps.values():
            if app.rests_until <= now:
                app.rests_until = 0.0
            if app.starts_until is not None and app.starts_until <= now:
                app.starts_until = None

    def _clean_later(self, path: str, now: float) -> None:
        if self.clean_at is None and any(self.queues[above].removable for above in lineage(path)):
            self.clean_at = now + CLEANING_SECONDS

    def _clean(self) -> None:
        for path in sorted(self.queues, key=lambda path: -path.count(".")):
            if self.queues[path].removable and self._is_empty(self.queues[path]):
                del self.queues[path]

    def _is_empty(self, queue: QueueRecord) -> bool:
        return not any(app.queue == queue.path for app in self.apps.values()) and not any(
            other.parent == queue.path for other in self.queues.values()
        )
