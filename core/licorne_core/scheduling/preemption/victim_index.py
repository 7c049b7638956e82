"""Index of the nodes for victim searches, cached between searches: contents, and victim counts.

The index is derived from nodes and applications, and derived again after their changes. No caller
has to report a change.

All allocations count as victims, but those of leaves that law 5 protects from every ask. The counts
spare a search nearly all nodes: once it has a plan, only nodes with smaller counts matter. The room
that nodes lack often shows that no plan exists, or that the ask only has to wait.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from licorne_core.model.apps.application import Application
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import Node, Recent
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.preemption.laws import keeps_all
from licorne_core.scheduling.preemption.ledger import Losses
from licorne_core.scheduling.preemption.victims import LeafAllocations, Vector
from licorne_core.values.asks import Reservation
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.ids import AppId, NodeId
from licorne_core.values.resources import Items


class NodeContents(NamedTuple):
    """Contents of a node."""

    change: int
    """Number of the node's last change at the time of reading."""
    apps: tuple[tuple[AppId, int], ...]
    """Applications on the node, each with the lowest priority of its possible victims."""
    largest: tuple[tuple[AppId, dict[str, int]], ...]
    """Largest amount of one allocation, by application and type."""


SHAPES = 32
"""Most sizes of asks with cached counts. The size used longest ago is dropped first."""

MOST_LEAVES = 10_000
"""Most leaves with a cached order. All orders are dropped beyond, those of removed leaves included."""


class VictimIndex:
    """The parts of a partition that searches read, and the caches derived from them.

    Measured by Python calls of a search in vain among 500 and 2,000 nodes: contents cached, 33,677 and
    41,177; read for each search, 61,005 and 109,005. The order of a node by age is not cached. That
    costs a search that looks at every allocation a third more, and other searches nothing.

    Measured by Python calls of a search for victims on other nodes, in a leaf with 3,500 and 14,000
    allocations: order of the leaf cached, 176 and 176; derived for each search, 17,681 and 70,181.
    """

    __slots__ = (
        "_by_size",
        "_contents",
        "_in_order",
        "_leaves",
        "_newest",
        "applications",
        "changed",
        "elastic",
        "losses",
        "nodes",
        "reserved",
    )

    def __init__(
        self,
        nodes: NodeBook,
        applications: Mapping[AppId, Application],
        reserved: Iterable[Reservation],
        losses: Losses,
        elastic: Collection[AppId] = (),
    ) -> None:
        """Index these live objects of a partition: all its reservations, and its elastic gangs."""
        self.elastic = elastic
        # In the order of birth.
        self.nodes: dict[NodeId, Node] = nodes.by_id
        # In the order of their last changes.
        self.changed: Recent[Node] = nodes.changed
        self.applications = applications
        self.reserved = reserved
        self.losses = losses
        self._in_order: list[Node] = []
        self._newest = 0
        self._contents: dict[Node, NodeContents] = {}
        self._by_size: dict[Items, VictimCounts] = {}
        self._leaves: dict[Queue, LeafAllocations] = {}

    def in_order(self) -> list[Node]:
        """All nodes by id. The list must not be changed; a new one is made when a node comes or goes.

        A new node has the highest birth number. Without new nodes, a removal lowers the length.
        """
        nodes = self.nodes
        newest = next(reversed(nodes.values())).birth if nodes else 0
        if newest != self._newest or len(self._in_order) != len(nodes):
            self._newest = newest
            self._in_order = [nodes[node_id] for node_id in sorted(nodes)]
            self._contents = {
                node: on for node, on in self._contents.items() if nodes.get(node.node_id) is node
            }
        return self._in_order

    def contents(self, node: Node) -> NodeContents:
        """Return the contents of the node."""
        known = self._contents.get(node)
        number = self.changed.number(node)
        if known is None or known.change != number:
            known = self._contents[node] = _contents_of(node, number, self.applications)
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
        """Checkpoint assumed of allocations of the leaf whose RM has said none, in unix seconds.

        A leaf in which none was ever said is not looked through.
        """
        return self.leaf(leaf).median_checkpoint() if leaf.counters.checkpoints else None

    def counts(self, wanted: Items) -> "VictimCounts":
        """Return the victim counts for asks of this size; the caller refreshes them."""
        known = self._by_size.pop(wanted, None)
        if known is None:
            if len(self._by_size) >= SHAPES:
                del self._by_size[next(iter(self._by_size))]
            known = VictimCounts(wanted)
        self._by_size[wanted] = known
        return known

    def check(self) -> None:
        """Check rule P5: the caches agree with nodes and leaves. Raises InvariantBroken."""
        for node, known in self._contents.items():
            number = self.changed.number(node)
            if known.change == number and known != _contents_of(node, number, self.applications):
                raise InvariantBroken(f"P5: {node!r}: other applications are there than are kept")
        for counts in self._by_size.values():
            counts.check(self)
        for leaf in self._leaves.values():
            leaf.check()

    def fewest(self, node: Node, wanted: Items, short: Vector, spared: Callable[[Queue], bool]) -> int | None:
        """Lower bound on the victims that free the shortage on the node; None if none can.

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
    # Most asks on a node are alike, so each kind is looked at once.
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


class VictimCounts:
    """The nodes for asks of one size, by their least number of victims.

    A node cannot host the ask if it is too small or drained, or reserved for an ask that yields to
    no other. Always true after `refresh`: the room that every other node lacks is known. The node is
    in the rank of its least number, or in no rank if all its allocations do not suffice.

    Always true after `recount`: law 5 protects every leaf left out of the number of a node. Leaves
    that have become protected may still count, so a number may be too small but never too large.

    Measured by Python calls of a search among 500 and 2,000 nodes: cached, 4,041 and 4,041; derived
    for each search, 11,151 and 32,151. If protected leaves count, 7,263 and 14,763. Without the
    amounts, a search in vain takes 21,861 and 54,861 in place of 10,230.
    """

    __slots__ = (
        "_amounts",
        "_least",
        "_left_out",
        "_nodes",
        "_places",
        "_ranks",
        "_read",
        "_short",
        "_spared",
        "_wanted",
    )

    def __init__(self, wanted: Items) -> None:
        """Start without nodes."""
        self._wanted = wanted
        # The count of `changed` at the last refresh.
        self._read = 0
        # Protected leaves that were left out of numbers.
        self._spared: dict[Queue, None] = {}
        self._start([])

    def _start(self, nodes: list[Node]) -> None:
        """Start again with these nodes."""
        self._nodes = nodes
        self._places = {node: place for place, node in enumerate(nodes)}
        # By index of the node: room lacking, least number of victims, leaves left out of the number.
        self._short: list[Vector | None] = [None] * len(nodes)
        self._least: list[int | None] = [None] * len(nodes)
        self._left_out: list[list[Queue]] = [[] for _ in nodes]
        # Indices of nodes in the order of ids, by least number of victims.
        self._ranks: dict[int, list[int]] = {}
        # Sorted amounts that nodes lack, by type of the ask.
        self._amounts: list[list[int]] = [[] for _ in self._wanted]

    def refresh(self, index: VictimIndex) -> int:
        """Measure changed nodes again; return their number."""
        nodes = index.in_order()
        changed: list[int]
        if nodes is not self._nodes:
            self._start(nodes)
            changed = list(range(len(nodes)))
        else:
            changed = [self._places[node] for node in index.changed.since(self._read)]
        self._read = index.changed.count
        for place in changed:
            self._measure(index, place)
        return len(changed)

    def recount(self, index: VictimIndex) -> int:
        """Measure nodes again that left out a leaf without protection by now; return their number."""
        giving = {leaf for leaf in self._spared if not keeps_all(leaf, self._wanted)}
        if not giving:
            return 0
        for leaf in giving:
            del self._spared[leaf]
        left_out = enumerate(self._left_out)
        places = [place for place, leaves in left_out if not giving.isdisjoint(leaves)]
        for place in places:
            self._measure(index, place)
        return len(places)

    def in_order(self) -> Iterator[tuple[int, Node]]:
        """Least number of victims, and node: the smallest number first, then by id."""
        for least in sorted(self._ranks):
            for place in self._ranks[least]:
                yield least, self._nodes[place]

    def with_room(self) -> Iterator[Node]:
        """Nodes that will have room without further victims."""
        return (self._nodes[place] for place in self._ranks.get(0, ()))

    def least_lacking(self) -> Vector | None:
        """Least room that any node lacks, by type of the ask; None without nodes."""
        if not all(self._amounts):
            return None
        return tuple([amounts[0] for amounts in self._amounts])

    def check(self, index: VictimIndex) -> None:
        """Check rule P5: the cached data of unchanged nodes is true. Raises InvariantBroken."""
        if index.in_order() is not self._nodes:
            return
        changed = set(index.changed.since(self._read))
        for place, node in enumerate(self._nodes):
            if node in changed:
                continue
            kept, short = self._short[place], self._lacking(index, node)
            if kept != short:
                raise InvariantBroken(f"P5: {node!r}: lacking {short}, kept {kept}")
            gives = any(not keeps_all(leaf, self._wanted) for leaf in self._left_out[place])
            if short is None or gives:
                continue
            least = index.fewest(node, self._wanted, short, self._is_spared)
            known = self._least[place]
            if least is not None and (known is None or known > least):
                raise InvariantBroken(f"P5: {node!r}: at least {least} victims, kept {known}")

    def _measure(self, index: VictimIndex, place: int) -> None:
        """Derive the room that the node lacks, and its least number of victims."""
        node, before = self._nodes[place], self._short[place]
        short = self._lacking(index, node)
        if short != before:
            self._short[place] = short
            for number, amounts in enumerate(self._amounts):
                if before is not None:
                    del amounts[bisect_left(amounts, before[number])]
                if short is not None:
                    insort(amounts, short[number])
        left_out = self._left_out[place]
        left_out.clear()
        self._move(place, None if short is None else self._fewest(index, node, short, left_out))

    def _lacking(self, index: VictimIndex, node: Node) -> Vector | None:
        """Room that the node lacks; None if it cannot host the ask."""
        if not node.schedulable or node.plans:
            return None
        if node.reservations and is_taken(node, index.applications):
            return None
        return room_shortage(node, self._wanted) if node.holds(self._wanted) else None

    def _is_spared(self, leaf: Queue) -> bool:
        return keeps_all(leaf, self._wanted)

    def _fewest(self, index: VictimIndex, node: Node, short: Vector, left_out: list[Queue]) -> int | None:
        wanted, known = self._wanted, self._spared

        def spared(leaf: Queue) -> bool:
            """True if law 5 protects the leaf. It is noted as left out, as that can change."""
            if leaf not in known:
                if not keeps_all(leaf, wanted):
                    return False
                known[leaf] = None
            left_out.append(leaf)
            return True

        return index.fewest(node, wanted, short, spared)

    def _move(self, place: int, least: int | None) -> None:
        before = self._least[place]
        if before == least:
            return
        self._least[place] = least
        if before is not None:
            rank = self._ranks[before]
            del rank[bisect_left(rank, place)]
        if least is not None:
            insort(self._ranks.setdefault(least, []), place)


def is_taken(node: Node, applications: Mapping[AppId, Application]) -> bool:
    """True if the node is reserved for an ask that yields to no other.

    Such an ask requires the node, or had victims stopped for it.
    """
    return any(
        reservation.required or applications[reservation.app_id].requests[reservation.key].triggered
        for reservation in node.reservations.values()
    )


def room_shortage(node: Node, wanted: Items) -> Vector:
    """Amounts to free on the node, by type of the ask, in addition to present victims."""
    available, going = node.available, node.preempting
    short = []
    for name, value in wanted:
        lacking = value - available.get(name, 0)
        if lacking > 0 and going:
            lacking -= going.get(name, 0)
        short.append(lacking if lacking > 0 else 0)
    return tuple(short)
