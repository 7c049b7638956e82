"""One partition as the oracle sees it: queues, nodes and applications (spec §§ 2.7, 3-5, 7)."""

from typing import Any

from licorne_core.commands import NewApplication, NodeAction, NodeUpdate, PredicatePolicy
from support.oracle.books import AppRecord, AskRecord, NodeRecord, QueueRecord, lineage
from support.oracle.config import creates_queues, node_order, queue_records, tagged_amounts
from support.oracle.limits import group_of, is_limited
from support.oracle.predicates import PredicateChecks, put_back
from support.oracle.timers import Timers
from support.oracle.usage import Usage

COMPLETING_SECONDS = 30.0
CLEANING_SECONDS = 10.0
CLEAN = ("clean", "")


class PartitionOracle:
    """The records of one partition.

    `reserving`: nodes are reserved. `policy`: how the RM is asked about nodes, None for not at all.
    `most_assumed`: asks that may wait for its answers at a time, and while it is `unheard`, as it
    was silent in the end and that counts as refusal.
    """

    def __init__(
        self,
        config: dict[str, Any],
        *,
        as_fifo: bool,
        reserving: bool,
        policy: PredicatePolicy | None,
        most_assumed: tuple[int, int],
    ) -> None:
        """An empty partition."""
        self.reserving = reserving
        self.most_assumed = most_assumed
        self.policy = policy
        self.unheard = False
        self.was_full = False
        self.decisions = 0
        self.checks = PredicateChecks()
        self.timers = Timers()
        self.queues = queue_records(config)
        self.apps: dict[str, AppRecord] = {}
        self.nodes: dict[str, NodeRecord] = {}
        self.creates_queues = creates_queues(config)
        self.node_order = node_order(config)
        self.as_fifo = as_fifo

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
            if not is_limited(self.queues, app.queue, app.group):
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
                self.nodes[update.node_id] = NodeRecord(
                    update.node_id, capacity, schedulable, dict(update.attributes)
                )
        elif known is None:
            return
        elif action is NodeAction.UPDATE:
            if update.capacity is not None and dict(update.capacity) != known.capacity:
                known.capacity = dict(update.capacity)
                known.changed()
                self._unreserve_too_large(known)
                self.put_back_unfitting(known)
        elif action is NodeAction.DECOMISSION:
            del self.nodes[update.node_id]
            self._drop_allocations_on(update.node_id, now)
        elif known.schedulable is not (action is NodeAction.DRAIN_TO_SCHEDULABLE):
            known.schedulable = not known.schedulable
            known.changed()
        if action is NodeAction.DRAIN_NODE and known is not None:
            for app, key in self._assumed_on(known):
                if app.allocations[key].ask.required_node is None:
                    self.put_back(app, key)

    def _drop_allocations_on(self, node_id: str, now: float) -> None:
        """The node is gone, and so is what ran there."""
        for _, ask in self.reserved_asks():
            if ask.reservation and ask.reservation.node_id == node_id:
                ask.reservation = None
        for app in self.apps.values():
            gone = [key for key, one in app.allocations.items() if one.node_id == node_id]
            for key in gone:
                if app.allocations[key].assumed:
                    self.put_back(app, key)
                else:
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
        if app is None:
            return
        for key in app.assumed_keys():
            self.put_back(app, key)
        for allocation in app.allocations.values():
            self.nodes[allocation.node_id].changed(narrowed=False)
        self.timers.cancel(("complete", app_id))
        self._clean_later(app.queue, now)

    def put_back(self, app: AppRecord, key: str) -> None:
        """What was assumed is pending again, whatever the RM is going to say."""
        self.checks.let_go(app.app_id, key)
        put_back(app, key)

    def put_back_unfitting(self, node: NodeRecord) -> None:
        """The RM has taken room on the node: the latest that is assumed there gives way first."""
        for app, key in reversed(self._assumed_on(node)):
            available = Usage(self.queues, self.apps, self.nodes).available[node.node_id]
            if any(available.get(name, 0) < 0 for name in app.allocations[key].ask.size):
                self.put_back(app, key)

    def _assumed_on(self, node: NodeRecord) -> list[tuple[AppRecord, str]]:
        assumed = [
            (app.allocations[key].number, app, key)
            for app in self.apps.values()
            for key in app.assumed_keys()
            if app.allocations[key].node_id == node.node_id
        ]
        return [(app, key) for _, app, key in sorted(assumed, key=lambda one: one[0])]

    def note_sent(self, number: int, now: float) -> None:
        """The checks up to this number were written: each has a deadline from now on."""
        for check, asked in self.checks.open.items():
            if check <= number and not asked.sent:
                assert self.policy is not None, "core asks an RM that has no say"
                asked.sent = True
                self.timers.set(("answer", str(check)), now + self.policy.deadline)

    def assumed_on(self, node: NodeRecord) -> int:
        """How many asks wait for an answer, booked on the node."""
        return len(self._assumed_on(node))

    def settle(self, app: AppRecord, now: float) -> None:
        """An application with nothing left is completing."""
        if not app.asks and not app.allocations:
            app.state = "Completing"
            app.starts_until = None
            self.timers.set(("complete", app.app_id), now + COMPLETING_SECONDS)

    # Empty queues

    def _clean_later(self, path: str, now: float) -> None:
        if CLEAN not in self.timers and any(self.queues[up].removable for up in lineage(path)):
            self.timers.set(CLEAN, now + CLEANING_SECONDS)

    def clean(self) -> None:
        """Remove queues that are empty and dynamic, or draining, from the bottom up."""
        for path in sorted(self.queues, key=lambda path: -path.count(".")):
            if self.queues[path].removable and self._is_empty(self.queues[path]):
                del self.queues[path]

    def _is_empty(self, queue: QueueRecord) -> bool:
        return not any(app.queue == queue.path for app in self.apps.values()) and not any(
            other.parent == queue.path for other in self.queues.values()
        )
