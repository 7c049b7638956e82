"""One partition as the oracle sees it: what commands do to it (spec §§ 2.7, 3, 5, 7, 11)."""

from typing import Any

from licorne_core.asks import Ask
from licorne_core.commands import (
    NewApplication,
    NodeAction,
    NodeUpdate,
    ReleaseRequest,
    TerminationType,
)
from support.oracle.books import (
    AllocationRecord,
    Amounts,
    AppRecord,
    AskRecord,
    NodeRecord,
    QueueRecord,
    lineage,
)
from support.oracle.config import creates_queues, node_order, queue_records
from support.oracle.deciding import Decider, Decision

COMPLETING_SECONDS = 30.0


class PartitionOracle:
    """The records of one partition."""

    def __init__(self, config: dict[str, Any]) -> None:
        """An empty partition."""
        self.queues = queue_records(config)
        self.apps: dict[str, AppRecord] = {}
        self.nodes: dict[str, NodeRecord] = {}
        self.creates_queues = creates_queues(config)
        self.node_order = node_order(config)

    def reload(self, config: dict[str, Any]) -> None:
        """Take another configuration; queues that are not in it any more drain (spec § 2.7)."""
        new = queue_records(config)
        for path, queue in self.queues.items():
            if queue.managed and path not in new:
                queue.draining = True
        self.queues.update(new)
        self.creates_queues = creates_queues(config)
        self.node_order = node_order(config)

    # Nodes

    def update_node(self, update: NodeUpdate) -> None:
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
        elif action is NodeAction.DECOMISSION:
            del self.nodes[update.node_id]
        else:
            known.schedulable = action is NodeAction.DRAIN_TO_SCHEDULABLE

    def drop_allocations_on(self, node_id: str, now: float) -> None:
        """The node is gone, and so is what ran there."""
        for app in self.apps.values():
            gone = [key for key, held in app.allocations.items() if held.node_id == node_id]
            for key in gone:
                del app.allocations[key]
            if gone:
                self._settle(app, now)

    # Applications

    def add_app(self, new: NewApplication, now: float) -> None:
        """Place the application, unless its id is taken or no queue will have it."""
        if new.app_id in self.apps:
            return
        path = self._place(new.queue_name)
        if path is not None:
            self.apps[new.app_id] = AppRecord(new.app_id, path, submitted=now)

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
        """A dynamic leaf has nothing but what the nearest template above it says."""
        for path in lineage(leaf.path)[1:]:
            template = self.queues[path].template
            if template is not None:
                leaf.guaranteed, leaf.max = dict(template.guaranteed), dict(template.max)
                leaf.properties = dict(template.properties)
                return

    def remove_app(self, app_id: str) -> None:
        """Forget an application and all it has."""
        self.apps.pop(app_id, None)

    def complete_due(self, now: float) -> None:
        """Applications that were idle long enough are done."""
        due = [a.app_id for a in self.apps.values() if a.completes_at is not None]
        for app_id in due:
            if (self.apps[app_id].completes_at or 0.0) <= now:
                del self.apps[app_id]

    # Asks, allocations, releases

    def update_ask(self, ask: Ask, now: float) -> None:
        """Take an ask, or an allocation that exists already (spec §§ 5.3, 11.3)."""
        size = {name: value for name, value in ask.ask_class.resources.items() if value}
        if not size or min(size.values()) < 0:
            return
        if "foreign" in ask.tags:
            self._take_foreign(ask, size)
            return
        app = self.apps.get(ask.app_id)
        if app is None:
            return
        if ask.key in app.allocations:
            app.allocations[ask.key].ask.size = size
        elif ask.node_id is not None:
            if ask.node_id in self.nodes:
                record = app.asks.pop(ask.key, None) or self._new_ask(app, ask, size, now)
                record.size = size
                app.allocations[ask.key] = AllocationRecord(record, ask.node_id)
                self._start(app, "Running")
        elif ask.key in app.asks:
            app.asks[ask.key].size = size
        else:
            app.asks[ask.key] = self._new_ask(app, ask, size, now)
            self._start(app, "Accepted" if app.state in ("New", "Accepted") else "Running")

    def _new_ask(self, app: AppRecord, ask: Ask, size: Amounts, now: float) -> AskRecord:
        created = now if ask.create_time is None else ask.create_time
        app.submitted = min(app.submitted, created)
        app.arrivals += 1
        required = ask.ask_class.required_node
        return AskRecord(ask.key, size, ask.priority, created, app.arrivals, required)

    def _start(self, app: AppRecord, state: str) -> None:
        app.state = state
        app.completes_at = None

    def _take_foreign(self, ask: Ask, size: Amounts) -> None:
        if ask.node_id in self.nodes:
            self._drop_foreign(ask.key)
            self.nodes[ask.node_id].foreign[ask.key] = size

    def _drop_foreign(self, key: str) -> None:
        for node in self.nodes.values():
            node.foreign.pop(key, None)

    def release(self, request: ReleaseRequest, now: float) -> None:
        """Free what the request names; TIMEOUT leaves asks alone (spec § 1.6.11)."""
        app = self.apps.get(request.app_id)
        if not request.app_id:
            self._drop_foreign(request.key)
        elif app is None:
            return
        elif request.termination is TerminationType.SCHEDULING_FAILED_ON_RM:
            self._ask_back(app, request.key)
        else:
            self._free(app, request, now)

    def _ask_back(self, app: AppRecord, key: str) -> None:
        """The RM could not run it: the ask waits again, behind its equals."""
        if key in app.allocations and app.state in ("Accepted", "Running"):
            app.arrivals += 1
            app.asks[key] = app.allocations.pop(key).ask
            app.asks[key].arrival = app.arrivals

    def _free(self, app: AppRecord, request: ReleaseRequest, now: float) -> None:
        had = len(app.asks) + len(app.allocations)
        for key in [request.key] if request.key else [*app.asks, *app.allocations]:
            app.allocations.pop(key, None)
            if request.termination is not TerminationType.TIMEOUT:
                app.asks.pop(key, None)
        if len(app.asks) + len(app.allocations) < had:
            self._settle(app, now)

    def _settle(self, app: AppRecord, now: float) -> None:
        """An application with nothing left is completing."""
        if not app.asks and not app.allocations:
            app.state = "Completing"
            app.completes_at = now + COMPLETING_SECONDS

    # Decisions

    def peek(self) -> Decision | None:
        """The next decision, without carrying it out."""
        return Decider(self.queues, self.apps, self.nodes, self.node_order).decide()

    def carry_out(self, decision: Decision) -> None:
        """Turn the ask into an allocation."""
        app = self.apps[decision.app_id]
        ask = app.asks.pop(decision.key)
        app.allocations[ask.key] = AllocationRecord(ask, decision.node_id)
        app.state = "Running"
