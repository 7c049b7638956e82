"""One partition: owns its queues, applications and nodes, and keeps their books in step.

Everything that changes usage goes through here, so that a queue, its ancestors, the
application and the node can never disagree.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from licorne_core.apps.application import Application
from licorne_core.asks import Allocation, Ask
from licorne_core.config.schema import PartitionConfig
from licorne_core.counters import Counters
from licorne_core.ids import AllocationKey, AppId, NodeId, PartitionName, RmId, rm_of
from licorne_core.limits.book import LimitBook
from licorne_core.nodes.book import NodeBook
from licorne_core.nodes.node import Node
from licorne_core.options import Options
from licorne_core.placement.chain import Placer
from licorne_core.queues.queue import Queue
from licorne_core.queues.tree import QueueTree
from licorne_core.resources import Items, Resources, charge, refund
from licorne_core.scheduling.candidates import NodeIndex
from licorne_core.scheduling.cycle import Candidate, Cycle
from licorne_core.scheduling.frontier import Frontier
from licorne_core.scheduling.order import settle_priority
from licorne_core.scheduling.questions import Questions
from licorne_core.scheduling.reserving import Reservations, note_allocating
from licorne_core.scheduling.watching import Watch
from licorne_core.shared import Shared
from licorne_core.timers import TimerName, Timers

CLEAN_QUEUES = "clean queues"


class Partition:
    """A partition's things and their books.

    `foreign` says on which node a foreign allocation is; `types` are the resource types heard of;
    `walking` is the walk over what waits for a larger cluster, if one is under way.
    """

    def __init__(
        self,
        name: PartitionName,
        shared: Shared,
        config: PartitionConfig,
        now: float,
        options: Options,
    ) -> None:
        """An empty partition; raises ConfigError if it cannot be built."""
        self.name = name
        self.config = config
        self.state_time = now
        self.rm_id: RmId = rm_of(name)
        self.holds = shared.holds
        self.journal = shared.journal
        self.predicates = shared.predicates
        self.container_states = shared.container_states
        self.walking: Iterator[Any] | None = None
        self.tree = QueueTree(config.root)
        self.tree.root.max = {}
        self.placer = Placer(config.placement_rules)
        self.applications: dict[AppId, Application] = {}
        self.completed: dict[AppId, Application] = {}
        self.rejected: dict[AppId, Application] = {}
        self.nodes = NodeBook(config.node_sort)
        self.timers: Timers[TimerName] = Timers()
        self.counters = Counters()
        self.index = NodeIndex(self.nodes, indexed=options.tuning.node_index)
        self.frontier = Frontier(self.tree, self.index)
        self.reservations = Reservations(self.nodes, self.frontier, self.timers, self.journal)
        self.questions = Questions(name, shared, self.index, self.timers)
        self.cycle = Cycle(
            self.tree.root,
            self.nodes,
            self.index,
            self.frontier,
            self.questions,
            Watch(self.journal),
            options.tuning,
            reserving=options.reservations,
        )
        self.limits = LimitBook()
        self.foreign: dict[AllocationKey, Node] = {}
        self.types: dict[str, None] = {}

    @property
    def is_runnable(self) -> bool:
        """Whether a turn could decide anything."""
        return self.frontier.runnable and not self.holds and bool(self.nodes.by_id)

    def leaf_of(self, app: Application) -> Queue:
        """The leaf that the application is in."""
        leaf = self.tree.get(app.queue_path)
        assert leaf is not None, f"application {app.app_id} is in no queue"
        return leaf

    # Asks

    def add_ask(self, app: Application, ask: Ask, create_time: float, arrival: int = 0) -> None:
        """Book a pending ask; `arrival` keeps the place of one that was pending before."""
        leaf = self.leaf_of(app)
        items = ask.ask_class.items
        before = (app.priorities.top, app.submission_time)
        run = app.run_of(ask.ask_class)
        if run.is_idle:
            self.frontier.class_came(ask.ask_class)
        was_first = app.add_ask(run, ask, create_time, arrival)
        for queue in leaf.lineage:
            charge(queue.pending, items)
        if leaf.priorities.add(ask.priority):
            settle_priority(leaf)
        counts_asks = leaf.settings.backoff_threshold > 0
        if was_first or counts_asks or before != (app.priorities.top, app.submission_time):
            self.frontier.app_changed(app, leaf)
        else:
            self.frontier.leaf_changed(leaf)

    def drop_ask(self, app: Application, key: AllocationKey, now: float) -> Ask:
        """Forget a pending ask that the RM does not want any more."""
        leaf = self.leaf_of(app)
        ask, run = app.drop_ask(key)
        if run.is_idle:
            self.frontier.class_went(ask.ask_class, app.quotas)
        for queue in leaf.lineage:
            refund(queue.pending, ask.ask_class.items)
        if leaf.priorities.remove(ask.priority):
            settle_priority(leaf)
        self.frontier.app_changed(app, leaf)
        if key in app.reservations:
            self.reservations.end(app, key, now)
        return ask

    # Allocations

    def commit(self, candidate: Candidate, now: float, *, seen: bool = True) -> Allocation:
        """Carry out a decision: the ask becomes an allocation, in all books at once.

        The hot path: only what lies on the way from root to the ask is ranked anew. Whoever tells
        the RM of the allocation, now or when it is `seen`, counts it.
        """
        leaf, app, (_, create_time, _, ask), node = candidate
        allocation = Allocation(ask, node.node_id, create_time, now)
        top = app.priorities.top
        _, run = app.drop_ask(ask.key) if seen else app.hold_ask(ask.key)
        if run.is_idle:
            self.frontier.class_went(ask.ask_class, app.quotas)
        if leaf.priorities.remove(ask.priority):
            settle_priority(leaf)
        items = ask.ask_class.items
        for queue in leaf.lineage:
            pending = queue.pending
            for name, value in items:
                left = pending[name] - value
                if left:
                    pending[name] = left
                else:
                    del pending[name]
        self._book(allocation, app, node, seen=seen)
        if app.reservations and ask.key in app.reservations:
            self.reservations.end(app, ask.key, now)
        if node.reservations and ask.ask_class.required_node is not None:
            self.reservations.give_way(node, now)
        self.frontier.allocated(app, leaf, same_priority=app.priorities.top == top)
        return allocation

    def put_back(self, app: Application, key: AllocationKey) -> None:
        """An allocation that was held, and never told, is a pending ask again, in its old place."""
        _, create_time, arrival, ask = app.held[key]
        allocation = app.allocations[key]
        node = self.nodes.by_id[allocation.node_id]
        self._unbook(allocation, app, node, seen=False)
        self.add_ask(app, ask, create_time, arrival)
        app.end_hold(key)
        self._freed(app, node)
        leaf = self.leaf_of(app)
        note_allocating(leaf, app)
        self.frontier.may_run_again(leaf.lineage)

    def reveal(self, app: Application, key: AllocationKey) -> Allocation:
        """An allocation that was held is told to the RM, which may judge its node anew now."""
        run = app.end_hold(key)
        if run.is_idle:
            self.frontier.class_went(run.ask_class, app.quotas)
        allocation = app.allocations[key]
        node = self.nodes.by_id[allocation.node_id]
        refused = any(node.verdicts.values())
        node.reveal()
        if refused:
            self.frontier.node_changed(node)
        return allocation

    def take(self, app: Application, allocation: Allocation) -> None:
        """Book an allocation that exists already, whatever the limits say (spec § 11.3)."""
        leaf = self.leaf_of(app)
        self._book(allocation, app, self.nodes.by_id[allocation.node_id])
        self.frontier.app_changed(app, leaf)
        leaf.counters.allocations_made += 1

    def release(self, app: Application, key: AllocationKey) -> Allocation:
        """Free an allocation in all books."""
        allocation = app.allocations[key]
        node = self.nodes.by_id[allocation.node_id]
        self._unbook(allocation, app, node)
        self._freed(app, node)
        self.counters.allocations_released += 1
        self.leaf_of(app).counters.allocations_released += 1
        return allocation

    def resize(self, app: Application, key: AllocationKey, ask: Ask) -> None:
        """Put a running allocation's ask in another size in its place, in all books."""
        allocation = app.allocations[key]
        node = self.nodes.by_id[allocation.node_id]
        self._unbook(allocation, app, node)
        self._book(replace(allocation, ask=ask), app, node)
        self._freed(app, node)

    def _book(
        self, allocation: Allocation, app: Application, node: Node, *, seen: bool = True
    ) -> None:
        refused = bool(node.verdicts) and seen and any(node.verdicts.values())
        app.add_allocation(allocation)
        node.add_allocation(allocation, seen=seen)
        items = allocation.ask.ask_class.items
        for quota in app.quotas:
            allocated = quota.allocated
            for name, value in items:
                allocated[name] = allocated.get(name, 0) + value
        if len(app.allocations) == 1:
            for tracker in app.trackers:
                tracker.applications[app.app_id] = None
        if refused:
            self.node_changed(node)
            return
        order = self.nodes.order
        node.score = order.score(node)
        if order.fullest_first:
            self.index.moved(node)

    @staticmethod
    def _unbook(allocation: Allocation, app: Application, node: Node, *, seen: bool = True) -> None:
        app.drop_allocation(allocation.key)
        node.drop_allocation(allocation, seen=seen)
        items = allocation.ask.ask_class.items
        for quota in app.quotas:
            refund(quota.allocated, items)
        if not app.allocations:
            for tracker in app.trackers:
                del tracker.applications[app.app_id]

    def _freed(self, app: Application, node: Node) -> None:
        """Something of the application on the node may have become free: who waits for it?"""
        if not app.allocations:
            self.frontier.may_run_again(app.trackers)
        self.frontier.app_changed(app, self.leaf_of(app))
        self.frontier.room_in(app.quotas)
        self.node_changed(node)

    # Nodes

    def add_node(self, node: Node) -> None:
        """Take a node in; the cluster grows."""
        self.nodes.add(node)
        self.cluster_resized()
        self.node_changed(node)

    def resize_node(self, node: Node, capacity: Resources, now: float) -> None:
        """Replace a node's capacity (spec § 7.2: nothing is killed)."""
        self.nodes.resize(node, capacity)
        self.reservations.shrunk(node, now)
        self.cluster_resized()
        self.node_changed(node)

    def remove_node(self, node_id: NodeId, now: float) -> Node:
        """Let an empty node go; the cluster shrinks."""
        node = self.nodes.by_id[node_id]
        self.reservations.leave(node, now)
        self.nodes.remove(node)
        self.cluster_resized()
        return node

    def occupy(self, node: Node, before: Items, after: Items) -> None:
        """Replace what a foreign allocation takes of a node (spec § 7.3)."""
        refund(node.occupied, before)
        charge(node.occupied, after)
        node.resize(node.capacity)
        self.node_changed(node)

    def node_changed(self, node: Node) -> None:
        """The node has more room, may be schedulable again or come earlier in the order."""
        node.score = self.nodes.order.score(node)
        self.frontier.node_changed(node)

    def cluster_resized(self) -> None:
        """Root's maximum is the size of the cluster (spec § 4.5), and shares follow from it."""
        root = self.tree.root
        root.max = self.nodes.total
        self.tree.shares_stale = True
        self.frontier.room_in((root,))
        self.frontier.runnable = True
