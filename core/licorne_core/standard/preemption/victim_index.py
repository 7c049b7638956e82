"""Index of nodes and leaves for victim searches, cached between searches.

The index is derived from nodes and applications, and derived again after their changes. No caller
has to report a change.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import RequestState
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import Node, Recent
from licorne_core.model.queues.queue import Queue
from licorne_core.standard.preemption.losses import Losses
from licorne_core.standard.preemption.victims import LeafAllocations, Vector
from licorne_core.values.asks import Reservation
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.ids import AppId, NodeId
from licorne_core.values.resources import EMPTY, Items, charge
from licorne_core.values.sorted_parts import SortedParts

# Looked up once: for every allocation, a lookup in the enumeration would cost as much as two calls.
NOTICED: Final = RequestState.NOTICED


class NodeContents(NamedTuple):
    """Contents of a node."""

    change: int
    """Number of the node's last change at the time of reading."""
    apps: tuple[tuple[AppId, int], ...]
    """Applications on the node, each with the lowest priority of its possible victims."""
    largest: tuple[tuple[AppId, dict[str, int]], ...]
    """Largest amount of one allocation, by application and type."""


MOST_LEAVES = 10_000
"""Maximum number of cached orders of leaves; beyond it the cache is emptied, also of removed leaves."""


MOST_REMOVED = 64
"""Maximum number of removed nodes in a cache, in addition to an eighth of the current ones."""


def removed_of(known: Collection[NodeId], nodes: Mapping[NodeId, Node]) -> list[NodeId]:
    """Removed nodes among the `known` ones; empty while there are few, as finding them examines all."""
    if len(known) <= len(nodes) + len(nodes) // 8 + MOST_REMOVED:
        return []
    return [node_id for node_id in known if node_id not in nodes]


class VictimIndex:
    """The parts of a partition that searches read, and the caches derived from them.

    Measured by Python calls of a failing search among 500 and 2,000 nodes: contents cached, 33,677 and
    41,177; read for each search, 61,005 and 109,005. The order of a node by age is not cached. That makes a
    search that examines every allocation a third more expensive, but no other search.

    Measured by Python calls of a search for victims on other nodes, in a leaf with 3,500 and 14,000
    allocations: order of the leaf cached, 176 and 176; derived for each search, 17,681 and 70,181.
    """

    def __init__(
        self,
        nodes: NodeBook,
        applications: Mapping[AppId, Application],
        reserved: Iterable[Reservation],
        losses: Losses,
        in_units: Collection[AppId] = (),
    ) -> None:
        """Index these live objects of a partition: all its reservations, and its gangs in units."""
        self.in_units = in_units
        # Nodes in the order in which they were added.
        self.nodes: dict[NodeId, Node] = nodes.by_id
        # Nodes in the order of their last changes.
        self.changed: Recent[Node] = nodes.changed
        self.applications = applications
        self.reserved = reserved
        self.losses = losses
        # All nodes, including some removed ones, and the birth number of the newest node.
        self._ids: SortedParts[NodeId] = SortedParts()
        self._listed: set[NodeId] = set()
        self._newest = 0
        self._contents: dict[NodeId, NodeContents] = {}
        self._leaves: dict[Queue, LeafAllocations] = {}

    def in_order(self) -> Iterator[Node]:
        """All nodes by id. No node may be added or removed meanwhile."""
        nodes = self.nodes
        self._list_new()
        for node_id in self._ids:
            if node_id in nodes:
                yield nodes[node_id]

    def _list_new(self) -> None:
        """List the nodes that were added since the last call; they have the highest birth numbers."""
        listed, newest = self._listed, self._newest
        for node in reversed(self.nodes.values()):
            if node.birth <= newest:
                break
            self._newest = max(self._newest, node.birth)
            if node.node_id not in listed:
                listed.add(node.node_id)
                self._ids.add(node.node_id)
        for node_id in removed_of(listed, self.nodes):
            listed.remove(node_id)
            self._ids.remove(node_id)

    def contents(self, node: Node) -> NodeContents:
        """Return the contents of the node."""
        contents, node_id = self._contents, node.node_id
        known = contents.get(node_id)
        number = self.changed.number(node)
        if known is None or known.change != number:
            known = contents[node_id] = _contents_of(node, number, self.applications)
            for removed in removed_of(contents, self.nodes):
                del contents[removed]
        return known

    def leaf(self, leaf: Queue) -> LeafAllocations:
        """Return the allocations of the leaf by age. The caller must not change them."""
        known = self._leaves.get(leaf)
        if known is None:
            if len(self._leaves) > MOST_LEAVES:
                self._leaves.clear()
            known = self._leaves[leaf] = LeafAllocations(leaf)
        known.refresh()
        return known

    def assumed_checkpoint(self, leaf: Queue) -> float | None:
        """Checkpoint assumed for allocations of the leaf whose RM reported none, in unix seconds.

        A leaf without any reported checkpoint is not searched.
        """
        return self.leaf(leaf).median_checkpoint() if leaf.counters.checkpoints else None

    def check(self) -> None:
        """Check rule P5: the caches agree with nodes and leaves. Raises InvariantBroken."""
        for node in self.nodes.values():
            known, number = self._contents.get(node.node_id), self.changed.number(node)
            if known is None or known.change != number:
                continue
            if known != _contents_of(node, number, self.applications):
                raise InvariantBroken(f"P5: {node!r}: other applications are there than are kept")
        for leaf in self._leaves.values():
            leaf.check()

    def fewest(self, node: Node, wanted: Items, short: Vector, spared: Callable[[Queue], bool]) -> int | None:
        """Lower bound on the number of victims that cover the shortage on the node; None if no number does.

        The bound is the shortage divided by the largest allocation on the node, without leaves for
        which `spared` is true.
        """
        if not any(short):
            return 0
        applications = self.applications
        there = [
            sizes for app_id, sizes in self.contents(node).largest if not spared(applications[app_id].leaf)
        ]
        fewest = 0
        for (name, _), lacking in zip(wanted, short, strict=True):
            if lacking:
                most = max([sizes.get(name, 0) for sizes in there], default=0)
                if not most:
                    return None
                fewest = max(fewest, -(-lacking // most))
        return fewest


def _contents_of(node: Node, change: int, running: Mapping[AppId, Application]) -> NodeContents:
    apps: dict[AppId, int] = {}
    largest: dict[AppId, dict[str, int]] = {}
    asks = [allocation.ask for allocation in node.allocations]
    # Most asks on a node are equal, so each kind is examined once.
    kinds = dict.fromkeys(
        [(ask.app_id, ask.ask_class, running[ask.app_id].requests[ask.key].priority) for ask in asks]
    )
    for app_id, ask_class, priority in kinds:
        sizes = largest.setdefault(app_id, {})
        if ask_class.required_node is None:
            lowest = apps.get(app_id)
            if lowest is None or priority < lowest:
                apps[app_id] = priority
        for name, amount in ask_class.items:
            if amount > sizes.get(name, 0):
                sizes[name] = amount
    return NodeContents(change, tuple(apps.items()), tuple(largest.items()))


def promised_on(node: Node, applications: Mapping[AppId, Application]) -> Mapping[str, int] | None:
    """Amounts promised to asks that have the node reserved; None if no further ask may use it.

    Further asks may use the room that the promises leave. But an ask that requires the node, or whose
    reservation is exclusive, shares the node with no other; and noticed victims may still be spared, which
    leaves no room. An ask with a predicate does not share the node either: the RM judges the node as it is
    and, as it is not notified of promises, would name more victims than needed.
    """
    promised: dict[str, int] = {}
    for reservation in node.reservations.values():
        if reservation.required:
            return None
        request = applications[reservation.app_id].requests[reservation.key]
        if request.triggered:
            if reservation.exclusive or request.ask.ask_class.predicate is not None:
                return None
            charge(promised, reservation.items)
    return None if promised and any_noticed(node, applications) else promised


def any_noticed(node: Node, applications: Mapping[AppId, Application]) -> bool:
    """True if an allocation on the node is NOTICED."""
    for allocation in node.allocations:
        if applications[allocation.ask.app_id].requests[allocation.ask.key].state is NOTICED:
            return True
    return False


def room_shortage(node: Node, wanted: Items, promised: Mapping[str, int] = EMPTY) -> Vector:
    """Amounts to free on the node, by the ask's types, in addition to current victims.

    `promised` are the amounts on it that were promised to other asks.
    """
    available, going = node.available, node.preempting
    short = []
    for name, value in wanted:
        lacking = value + promised.get(name, 0) - available.get(name, 0)
        if lacking > 0 and going:
            lacking -= going.get(name, 0)
        short.append(lacking if lacking > 0 else 0)
    return tuple(short)
