"""The core's own queues, nodes and applications, built from records; and random changes of them.

The changes occur between two searches, and affect records, versions and counters as in the core.
"""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from licorne_core.config.schema import NodeSortPolicy, QueueConfig
from licorne_core.extensions.elastic.sizes import Elastic
from licorne_core.extensions.elastic.terms import ElasticTerms
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import Gang
from licorne_core.model.apps.requests import TO_REPLACE, VICTIMS, Request, RequestEvent, RequestState
from licorne_core.model.books import (
    book,
    book_demand,
    book_foreign,
    book_on_node,
    book_preempting,
    unbook_in_quotas,
    unbook_on_node,
    unbook_preempting,
)
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.model.queues.tree import QueueTree
from licorne_core.standard.preemption.losses import Losses, loss_of
from licorne_core.standard.preemption.search import PreemptionSearch
from licorne_core.values.asks import Allocation, Ask, AskClass, Reservation
from licorne_core.values.ids import AllocationKey, AppId, NodeId, UserGroup
from licorne_core.values.resources import Items, charge
from support.core.trees import whole_tree
from support.preemption.drawing import NOW
from support.preemption.records import Cluster, QueueRecord, RequestRecord, Size


class Built(NamedTuple):
    """A cluster in the core's own objects."""

    tree: QueueTree
    nodes: NodeBook
    applications: dict[AppId, Application]
    reserved: list[Reservation]
    losses: Losses
    search: PreemptionSearch

    def request(self, key: str) -> tuple[Application, Request]:
        """A request and its application; keys are unique in a cluster."""
        for app in self.applications.values():
            if AllocationKey(key) in app.requests:
                return app, app.requests[AllocationKey(key)]
        raise KeyError(key)

    def queue(self, path: str) -> Queue:
        """The queue of that path."""
        queue = self.tree.get(path)
        assert queue is not None, path
        return queue


PART = 1_000
"""The number of nodes that a search measures at a time: more than any cluster here has."""


def build(cluster: Cluster, first_nodes: int = 32) -> Built:
    """Everything in the records, and a search over it that examines the `first_nodes` first."""
    tree = whole_tree(_config(cluster, cluster.queue("root")))
    nodes = NodeBook(NodeSortPolicy())
    for record in cluster.nodes:
        node = Node(NodeId(record.name), record.capacity, {}, schedulable=record.schedulable)
        nodes.add(node)
        book_foreign((), items_of(record.occupied), node)
        nodes.count_usable(node)
    applications: dict[AppId, Application] = {}
    losses = Losses()
    reserved: list[Reservation] = []
    elastic = [AppId(app) for app in cluster.elastic]
    search = PreemptionSearch(
        tree.root, nodes, applications, reserved, losses, elastic, part=PART, first_nodes=first_nodes
    )
    built = Built(tree, nodes, applications, reserved, losses, search)
    for queue_record in cluster.queues:
        queue = built.queue(queue_record.path)
        queue.guaranteed, queue.max = queue_record.guaranteed, queue_record.max
        queue.settings = queue_record.settings
    tree.root.max = nodes.total
    for request_record in cluster.requests:
        _add(built, request_record, cluster.elastic.get(request_record.app))
    for loss in sorted(cluster.losses, key=lambda loss: loss.time):
        path = built.queue(loss.leaf).path
        losses.add(path, loss_of(items_of(loss.size), loss.seconds), loss.time)
    for record in cluster.nodes:
        _refuse(built, record.name, record.refused, cluster.requests)
    return built


def items_of(size: Size) -> Items:
    """The amounts as asks carry them."""
    return tuple(sorted(size.items()))


def _config(cluster: Cluster, record: QueueRecord) -> QueueConfig:
    below = [queue for queue in cluster.queues if queue.path.rpartition(".")[0] == record.path]
    return QueueConfig(
        name=record.path.rpartition(".")[2],
        parent=not record.is_leaf,
        queues=tuple(_config(cluster, queue) for queue in below),
    )


def _add(built: Built, record: RequestRecord, elastic: tuple[int, int] | None) -> None:
    app = _app(built, record, elastic)
    app.arrivals += 1
    request = Request(_ask(record), record.created, app.arrivals)
    request.state = record.state
    request.triggered = record.triggered
    request.checkpoint = record.checkpoint
    app.leaf.counters.checkpoints += record.checkpoint is not None
    app.requests[request.key] = request
    items = request.ask.ask_class.items
    if record.state is RequestState.PENDING:
        book_demand(items, app, app.leaf)
    if record.node is not None:
        node = built.nodes.by_id[NodeId(record.node)]
        allocation = Allocation(request.ask, node.node_id, record.created, record.started)
        request.allocation = allocation
        node.allocations[allocation] = None
        if record.state in TO_REPLACE:
            book_on_node(items, node)
        else:
            book(items, node, app)
        if record.state is RequestState.PREEMPTING:
            book_preempting(items, node, app)
        built.nodes.count_usable(node)
    if app.gang.units is not None and record.is_member and record.counts:
        app.gang.units.add_booked(request)
        if record.state in VICTIMS:
            app.gang.units.mark_leaving(request, 1)
    if record.hold is not None:
        hold = record.hold
        reservation = Reservation(app.app_id, request.key, NodeId(hold.node), hold.time, hold.required, items)
        reservation.exclusive = hold.exclusive
        reservation.provisional = hold.provisional
        request.reservation = reservation
        built.nodes.by_id[NodeId(hold.node)].add_reservation(reservation)
        built.reserved.append(reservation)
    if record.promised:
        for quota in app.quotas:
            charge(quota.promised, items)


def _app(built: Built, record: RequestRecord, elastic: tuple[int, int] | None) -> Application:
    app_id = AppId(record.app)
    app = built.applications.get(app_id)
    if app is None:
        leaf = built.queue(record.leaf)
        app = Application(app_id, leaf.path, UserGroup("ann", ()), {}, 0.0)
        if elastic is not None:
            app.gang = Gang(units=Elastic(ElasticTerms(elastic[0], 0, elastic[1])))
        app.leaf = leaf
        app.quotas = leaf.lineage
        built.applications[app_id] = leaf.applications[app_id] = app
    return app


def _ask(record: RequestRecord) -> Ask:
    required = None if record.required_node is None else NodeId(record.required_node)
    return Ask(
        key=AllocationKey(record.key),
        app_id=AppId(record.app),
        ask_class=AskClass.of(dict(record.size), required, record.predicate),
        priority=record.priority,
        create_time=record.created,
        node_id=NodeId(record.node) if record.brought and record.node else None,
        originator=record.originator,
        allow_preempt_self=record.opted_in,
        allow_preempt_other=True,
        tags=record.tags,
        task_group="workers" if record.is_member else "",
    )


def _refuse(built: Built, node: str, refused: frozenset[bool], requests: tuple[RequestRecord, ...]) -> None:
    for record in requests:
        if record.predicate is not None:
            ask_class = built.request(record.key)[1].ask.ask_class
            for allocate in refused:
                built.nodes.by_id[NodeId(node)].results[ask_class, allocate] = "does not like it"


class Changing:
    """Changes a cluster by one random event at a time."""

    def __init__(self, built: Built, random: Random) -> None:
        """Start without changes."""
        self._built = built
        self._random = random
        self._made = 0
        self._changes: list[Callable[[], None]] = [
            *[self._stop] * 3,
            *[self._end] * 3,
            *[self._place] * 3,
            self._resize,
            self._add_node,
            self._remove_node,
            self._drain,
        ]

    def change(self) -> None:
        """Make one change, if the drawn one is possible."""
        self._random.choice(self._changes)()

    def _one(self, *states: RequestState) -> Request | None:
        """A random request in one of these states; None if there is none."""
        found = [
            request
            for app in self._built.applications.values()
            for request in app.requests.values()
            if request.state in states
        ]
        return self._random.choice(found) if found else None

    def _where(self, request: Request) -> tuple[Allocation, Node]:
        assert request.allocation is not None
        return request.allocation, self._built.nodes.by_id[request.allocation.node_id]

    def _note(self, node: Node) -> None:
        """Note that the node has changed."""
        node.version += 1
        self._built.nodes.changed.note(node)
        self._built.nodes.count_usable(node)

    def _stop(self) -> None:
        """Request a victim to stop, which leaves the version of its node unchanged."""
        request = self._one(RequestState.ALLOCATED)
        if request is not None:
            request.follow(RequestEvent.PREEMPT)
            app = self._built.applications[request.ask.app_id]
            node = self._where(request)[1]
            book_preempting(request.ask.ask_class.items, node, app)
            self._built.nodes.changed.note(node)
            self._built.nodes.count_usable(node)

    def _end(self) -> None:
        """Release an allocation, which may be a victim."""
        request = self._one(RequestState.ALLOCATED, RequestState.PREEMPTING)
        if request is None:
            return
        app = self._built.applications[request.ask.app_id]
        allocation, node = self._where(request)
        items = allocation.ask.ask_class.items
        if request.state is RequestState.PREEMPTING:
            unbook_preempting(items, node, app)
        unbook_on_node(items, node)
        unbook_in_quotas(items, app)
        request.follow(RequestEvent.RELEASE)
        request.allocation = None
        del node.allocations[allocation], app.requests[request.key]
        app.leaf.counters.allocations_released += 1
        self._note(node)

    def _place(self) -> None:
        """Give an application a copy of an allocation, on any node."""
        like = self._one(RequestState.ALLOCATED)
        if like is None:
            return
        app = self._built.applications[like.ask.app_id]
        node = self._random.choice(list(self._built.nodes.by_id.values()))
        self._made += 1
        ask = like.ask.__class__(
            key=AllocationKey(f"m{self._made}"),
            app_id=app.app_id,
            ask_class=like.ask.ask_class,
            priority=like.ask.priority,
            allow_preempt_self=self._random.random() < 0.7,
        )
        request = Request(ask, NOW - self._random.randint(1, 99), self._made)
        request.follow(RequestEvent.ALLOCATE)
        request.allocation = Allocation(ask, node.node_id, request.create_time, NOW - 1)
        book(ask.ask_class.items, node, app)
        node.allocations[request.allocation] = None
        app.requests[request.key] = request
        app.leaf.counters.allocations_made += 1
        self._note(node)

    def _resize(self) -> None:
        """Enlarge an allocation on its node."""
        request = self._one(RequestState.ALLOCATED)
        if request is None:
            return
        app = self._built.applications[request.ask.app_id]
        allocation, node = self._where(request)
        unbook_on_node(allocation.ask.ask_class.items, node)
        unbook_in_quotas(allocation.ask.ask_class.items, app)
        del node.allocations[allocation]
        larger = {name: 2 * value for name, value in allocation.ask.ask_class.items}
        request.ask.ask_class = AskClass.of(larger)
        request.allocation = Allocation(request.ask, node.node_id, allocation.request_time, NOW - 1)
        book(request.ask.ask_class.items, node, app)
        node.allocations[request.allocation] = None
        # The allocation that was booked last is the last one among its application's requests.
        app.requests[request.key] = app.requests.pop(request.key)
        self._note(node)

    def _add_node(self) -> None:
        """Add a node that is full of foreign allocations."""
        self._made += 1
        some = self._random.choice(list(self._built.nodes.by_id.values()))
        node_id = NodeId(f"n{self._random.randint(0, 9)}-{self._made}")
        self._built.nodes.add(Node(node_id, dict(some.capacity), {}, schedulable=True))
        self._built.tree.root.max = self._built.nodes.total

    def _remove_node(self) -> None:
        """Remove an empty node."""
        empty = [
            node
            for node in self._built.nodes.by_id.values()
            if not node.allocations and not node.reservations
        ]
        if len(self._built.nodes.by_id) > 1 and empty:
            self._built.nodes.remove(self._random.choice(empty))
            self._built.tree.root.max = self._built.nodes.total

    def _drain(self) -> None:
        """Drain a node, or end its drain."""
        node = self._random.choice(list(self._built.nodes.by_id.values()))
        node.set_schedulable(schedulable=not node.schedulable)
        self._note(node)
