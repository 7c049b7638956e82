"""Index of the nodes for victim searches, kept from search to search: contents, and victim counts.

Everything here is derived from nodes and applications, and derived again after they change. No
caller has to report a change.

Any allocation counts as a victim, unless law 5 protects its leaf from every ask. The counts spare a
search nearly all nodes: with a plan at hand, only nodes with a smaller count matter. The room that
nodes lack often shows that there is no plan, or that the ask only has to wait.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from licorne_core.model.apps.application import Application
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import Node, Recent
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.preemption.laws import keeps_all
from licorne_core.scheduling.preemption.ledger import Losses
from licorne_core.scheduling.preemption.victims import InLeaf, Vector
from licorne_core.values.asks import Reservation
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.ids import AppId, NodeId
from licorne_core.values.resources import Items


class OnNode(NamedTuple):
    """Contents of a node."""

    change: int
    """Number of the node's last change when its contents were read."""
    apps: tuple[tuple[AppId, int], ...]
    """Applications on the node, each with the lowest priority of its possible victims."""
    largest: tuple[tuple[AppId, dict[str, int]], ...]
    """By application and type, the largest amount of one allocation."""


SHAPES = 32
"""Sizes of asks with counts, those asked for last."""

MOST_LEAVES = 10_000
"""Leaves to keep an order for; beyond that, everything is forgotten, as leaves come and go."""


class VictimIndex:
    """The parts of a partition that searches read, and what is derived from them.

    Measured by Python calls of a search in vain among 500 and 2,000 nodes: contents kept, 33,677 and
    41,177; read for each search, 61,005 and 109,005. The order of a node by age is not kept: it takes
    a search that looks at every allocation a third more, and others nothing.

    And of a search for victims on other nodes, in a leaf with 3,500 and 14,000 allocations: order of
    the leaf kept, 176 and 176; derived for each search, 17,681 and 70,181.
    """

    __slots__ = (
        "_by_size",
        "_in_order",
        "_leaves",
        "_newest",
        "_on",
        "applications",
        "changed",
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
    ) -> None:
        """Read the partition's live things; `reserved` are all its reservations."""
        # In the order of their births.
        self.nodes: dict[NodeId, Node] = nodes.by_id
        # By their last changes.
        self.changed: Recent[Node] = nodes.changed
        self.applications = applications
        self.reserved = reserved
        self.losses = losses
        self._in_order: list[Node] = []
        self._newest = 0
        self._on: dict[Node, OnNode] = {}
        self._by_size: dict[Items, VictimCounts] = {}
        self._leaves: dict[Queue, InLeaf] = {}

    def in_order(self) -> list[Node]:
        """All nodes by id; another list when a node came or went, and not to be changed.

        A node that came has been born after all others, and without one that came fewer are left
        when one went.
        """
        nodes = self.nodes
        newest = next(reversed(nodes.values())).birth if nodes else 0
        if newest != self._newest or len(self._in_order) != len(nodes):
            self._newest = newest
            self._in_order = [nodes[node_id] for node_id in sorted(nodes)]
            self._on = {node: on for node, on in self._on.items() if nodes.get(node.node_id) is node}
        return self._in_order

    def on(self, node: Node) -> OnNode:
        """Return the contents of the node."""
        known = self._on.get(node)
        number = self.changed.number(node)
        if known is None or known.change != number:
            known = self._on[node] = _on(node, number)
        return known

    def leaf(self, leaf: Queue) -> InLeaf:
        """Return the allocations of the leaf by age; they must not be changed."""
        known = self._leaves.get(leaf)
        if known is None:
            if len(self._leaves) > MOST_LEAVES:
                self._leaves.clear()
            known = self._leaves[leaf] = InLeaf(leaf)
        known.catch_up()
        return known

    def counts(self, wanted: Items) -> "VictimCounts":
        """The nodes for asks of this size, as they were when they were asked for last."""
        known = self._by_size.pop(wanted, None)
        if known is None:
            if len(self._by_size) >= SHAPES:
                del self._by_size[next(iter(self._by_size))]
            known = VictimCounts(wanted)
        self._by_size[wanted] = known
        return known

    def check(self) -> None:
        """Check rule P5: all that is kept agrees with nodes and leaves. Raises InvariantBroken."""
        for node, known in self._on.items():
            number = self.changed.number(node)
            if known.change == number and known != _on(node, number):
                raise InvariantBroken(f"P5: {node!r}: other applications are there than are kept")
        for counts in self._by_size.values():
            counts.check(self)
        for leaf in self._leaves.values():
            leaf.check()

    def fewest(self, node: Node, wanted: Items, short: Vector, spared: Callable[[Queue], bool]) -> int | None:
        """Least number of victims that free the ask's shortage there; None if all are too few.

        It is the shortage, divided by the largest allocation on the node in leaves that are not
        spared.
        """
        if not any(short):
            return 0
        applications = self.applications
        there = [sizes for app_id, sizes in self.on(node).largest if not spared(applications[app_id].leaf)]
        fewest = 0
        for (name, _), lacking in zip(wanted, short, strict=True):
            if lacking:
                most = max([sizes.get(name, 0) for sizes in there], default=0)
                if not most:
                    return None
                fewest = max(fewest, -(-lacking // most))
        return fewest


def _on(node: Node, change: int) -> OnNode:
    apps: dict[AppId, int] = {}
    largest: dict[AppId, dict[str, int]] = {}
    asks = [allocation.ask for allocation in node.allocations]
    # Most are alike: each kind is looked at once.
    kinds = dict.fromkeys([(ask.app_id, ask.ask_class, ask.priority) for ask in asks])
    for app_id, ask_class, priority in kinds:
        sizes = largest.setdefault(app_id, {})
        if ask_class.required_node is None:
            lowest = apps.get(app_id)
            if lowest is None or priority < lowest:
                apps[app_id] = priority
        for name, amount in ask_class.items:
            if amount > sizes.get(name, 0):
                sizes[name] = amount
    return OnNode(change, tuple(apps.items()), tuple(largest.items()))


class VictimCounts:
    """The nodes for asks of one size, by the number of victims that they take at least.

    A node cannot host the ask if it is too small or drained, or reserved for an ask that yields to
    no other. Always true after `refresh`: the room that all other nodes lack is known, and each is
    in the rank of its number, or in none if all that is on it would not do.

    Always true after `recount`: no leaf that was left out for a node may give by now. Some may count
    that are spared by now, so a number may be too small and is never too large.

    Measured by Python calls of a search among 500 and 2,000 nodes: kept, 4,041 and 4,041; derived for
    each search, 11,151 and 32,151. Without leaves left out, 7,263 and 14,763. Without the amounts,
    a search in vain takes 21,861 and 54,861 in place of 10,230.
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
        # The count of `changed` up to which changes are taken in.
        self._read = 0
        # Leaves that are spared.
        self._spared: dict[Queue, None] = {}
        self._start([])

    def _start(self, nodes: list[Node]) -> None:
        """Start anew with these nodes."""
        self._nodes = nodes
        self._places = {node: place for place, node in enumerate(nodes)}
        # By place: what the node lacks, its number, and the leaves that were left out for that.
        self._short: list[Vector | None] = [None] * len(nodes)
        self._least: list[int | None] = [None] * len(nodes)
        self._left_out: list[list[Queue]] = [[] for _ in nodes]
        # By number of victims, the places of its nodes in the order of ids.
        self._ranks: dict[int, list[int]] = {}
        # By type of the ask, what the nodes lack, the smallest first.
        self._amounts: list[list[int]] = [[] for _ in self._wanted]

    def refresh(self, index: VictimIndex) -> int:
        """Take in the nodes that have changed; return their number."""
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
        """Take in the nodes where a leaf was left out that may give by now; return their number."""
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
        """Nodes with their numbers, the smallest first, then by id."""
        for least in sorted(self._ranks):
            for place in self._ranks[least]:
                yield least, self._nodes[place]

    def with_room(self) -> Iterator[Node]:
        """The nodes that will have room without victims."""
        return (self._nodes[place] for place in self._ranks.get(0, ()))

    def least_lacking(self) -> Vector | None:
        """Least room that any node lacks, by type of the ask; None without nodes."""
        if not all(self._amounts):
            return None
        return tuple([amounts[0] for amounts in self._amounts])

    def check(self, index: VictimIndex) -> None:
        """Check rule P5: kept numbers are true for all nodes without a logged change."""
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
        """Derive the room that the node lacks now."""
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
        if not node.schedulable:
            return None
        if node.reservations and is_taken(node, index.applications):
            return None
        return room_shortage(node, self._wanted) if node.holds(self._wanted) else None

    def _is_spared(self, leaf: Queue) -> bool:
        return keeps_all(leaf, self._wanted)

    def _fewest(self, index: VictimIndex, node: Node, short: Vector, left_out: list[Queue]) -> int | None:
        wanted, known = self._wanted, self._spared

        def spared(leaf: Queue) -> bool:
            """True if nothing of the leaf may go; noted, as that can change."""
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
    """True if the node is reserved for an ask that yields to no other ask.

    For that ask, no victims are searched for any more.
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
