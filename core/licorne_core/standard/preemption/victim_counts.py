"""Least numbers of victims by node, for asks of one size, cached between searches.

All allocations count as victims, except those of leaves that law 5 protects from every ask. The counts save a
search nearly all nodes: once it has a plan, only nodes with smaller counts matter. The room that nodes lack
often shows that there is no plan, or that the ask only has to wait.
"""

from collections.abc import Iterator

from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.node_search.index import StillLooking
from licorne_core.standard.preemption.laws import keeps_all
from licorne_core.standard.preemption.victim_index import VictimIndex, promised_on, removed_of, room_shortage
from licorne_core.standard.preemption.victims import Vector
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.ids import NodeId
from licorne_core.values.resources import EMPTY, Items
from licorne_core.values.sorted_parts import SortedParts

SHAPES = 64
"""Maximum number of ask sizes with cached counts. The size used longest ago is dropped first."""


class CountsBySize:
    """The victim counts for the sizes of the latest searches."""

    __slots__ = ("_by_size", "_index", "_part")

    def __init__(self, index: VictimIndex, part: int) -> None:
        """Start without counts; no more than `part` nodes are measured at a time."""
        self._index = index
        self._part = part
        self._by_size: dict[Items, VictimCounts] = {}

    def of(self, wanted: Items) -> "VictimCounts":
        """The victim counts for asks of this size; the caller refreshes them."""
        known = self._by_size.pop(wanted, None)
        if known is None:
            if len(self._by_size) >= SHAPES:
                del self._by_size[next(iter(self._by_size))]
            known = VictimCounts(self._index, wanted, self._part)
        self._by_size[wanted] = known
        return known

    def check(self) -> None:
        """Check rule P5. Raises InvariantBroken."""
        for counts in self._by_size.values():
            counts.check()


class _Known:
    """Cached data of a node: room lacking, minimum number of victims, and leaves not counted in it."""

    __slots__ = ("least", "left_out", "short")

    def __init__(self) -> None:
        """Start as a node that cannot host the ask."""
        self.short: Vector | None = None
        self.least: int | None = None
        self.left_out: tuple[Queue, ...] = ()


class VictimCounts:
    """The nodes for asks of one size, by their minimum number of victims.

    A node cannot host the ask if it is too small, drained, or reserved exclusively for another ask. Starts
    that are planned on it do not count, as they may give way. Always true after `refresh`: the room that
    every other node lacks is cached. The node is in the rank of its least number, or in no rank if all its
    allocations do not suffice.

    Always true after `recount`: law 5 protects every leaf left out of the number of a node. Leaves
    that have become protected may still count, so a number may be too small but never too large.

    Removed nodes stay until there are many (`removed_of`): they are not yielded, but the least shortage may
    be that of a removed node.

    Measured by Python calls of a search among 500 and 2,000 nodes: cached, 4,041 and 4,041; derived
    for each search, 11,151 and 32,151. If protected leaves count, 7,263 and 14,763. Without the
    amounts, a failing search takes 21,861 and 54,861 in place of 10,230.
    """

    def __init__(self, index: VictimIndex, wanted: Items, part: int) -> None:
        """Start without nodes; `part` of them are measured at a time."""
        self._index = index
        self._wanted = wanted
        self._part = part
        # The `count` of the log of changes at the last refresh; the nodes that have to be measured.
        self._read = 0
        self._unread: dict[Node, None] = {}
        self._known: dict[NodeId, _Known] = {}
        # Protected leaves that the numbers exclude, each with its nodes.
        self._spared: dict[Queue, dict[NodeId, None]] = {}
        # Nodes by least number of victims; the amounts that nodes lack, by type of the ask.
        self._ranks: dict[int, SortedParts[NodeId]] = {}
        self._amounts: list[SortedParts[int]] = [SortedParts() for _ in wanted]

    def refresh(self) -> int:
        """Measure changed nodes again; return their number.

        Raises:
            StillLooking: more nodes have changed than one call measures.
        """
        changed = self._index.changed
        for node in changed.since(self._read):
            self._unread[node] = None
        self._read = changed.count
        for node_id in removed_of(self._known, self._index.nodes):
            self._keep(node_id, None, None, ())
            del self._known[node_id]
        return self._measure_unread()

    def recount(self) -> int:
        """Measure nodes again whose number left out a leaf that is no longer protected; return how many.

        Raises:
            StillLooking: more nodes have to be measured than one call measures.
        """
        nodes, spared = self._index.nodes, self._spared
        for leaf in [leaf for leaf in spared if not keeps_all(leaf, self._wanted)]:
            for node_id in spared.pop(leaf):
                if node_id in nodes:
                    self._unread[nodes[node_id]] = None
        return self._measure_unread()

    def in_order(self) -> Iterator[tuple[int, Node]]:
        """Minimum number of victims, and node: the smallest number first, then by id."""
        for least in sorted(self._ranks):
            for node in self._in_rank(least):
                yield least, node

    def least(self, node_id: NodeId) -> int | None:
        """Minimum number of victims on the node; None if no number suffices."""
        known = self._known.get(node_id)
        return None if known is None else known.least

    def with_room(self) -> Iterator[Node]:
        """Nodes that will have room without further victims."""
        return self._in_rank(0)

    def least_lacking(self) -> Vector | None:
        """Minimum of the room that any node lacks, by the ask's types; None if there are no nodes."""
        least = [amounts.first() for amounts in self._amounts]
        known = tuple([amount for amount in least if amount is not None])
        return known if len(known) == len(least) else None

    def check(self) -> None:
        """Check rule P5: the cached data of unchanged nodes is true. Raises InvariantBroken."""
        index = self._index
        changed = set(index.changed.since(self._read)) | self._unread.keys()
        for node in index.nodes.values():
            if node in changed:
                continue
            kept, short = self._known[node.node_id], self._lacking(node)
            if kept.short != short:
                raise InvariantBroken(f"P5: {node!r}: lacking {short}, kept {kept.short}")
            gives = any(not keeps_all(leaf, self._wanted) for leaf in kept.left_out)
            if short is None or gives:
                continue
            least = index.fewest(node, self._wanted, short, self._is_spared)
            if least is not None and (kept.least is None or kept.least > least):
                raise InvariantBroken(f"P5: {node!r}: at least {least} victims, kept {kept.least}")

    def _in_rank(self, least: int) -> Iterator[Node]:
        nodes = self._index.nodes
        for node_id in self._ranks.get(least, ()):
            if node_id in nodes:
                yield nodes[node_id]

    def _measure_unread(self) -> int:
        nodes, unread, measured = self._index.nodes, self._unread, 0
        while unread:
            if measured >= self._part:
                raise StillLooking
            node, _ = unread.popitem()
            if nodes.get(node.node_id) is node:
                self._measure(node)
                measured += 1
        return measured

    def _measure(self, node: Node) -> None:
        """Derive the room that the node lacks, and its minimum number of victims."""
        left_out: dict[Queue, None] = {}
        short = self._lacking(node)
        least = None if short is None else self._fewest(node, short, left_out)
        self._keep(node.node_id, short, least, tuple(left_out))

    def _keep(
        self, node_id: NodeId, short: Vector | None, least: int | None, left_out: tuple[Queue, ...]
    ) -> None:
        """Replace the cached data of a node."""
        known = self._known.get(node_id)
        if known is None:
            known = self._known[node_id] = _Known()
        if known.short != short:
            for place, amounts in enumerate(self._amounts):
                if known.short is not None:
                    amounts.remove(known.short[place])
                if short is not None:
                    amounts.add(short[place])
            known.short = short
        if known.least != least:
            if known.least is not None:
                self._ranks[known.least].remove(node_id)
            if least is not None:
                self._ranks.setdefault(least, SortedParts()).add(node_id)
            known.least = least
        if known.left_out != left_out:
            self._leave_out(node_id, known.left_out, left_out)
            known.left_out = left_out

    def _leave_out(self, node_id: NodeId, before: tuple[Queue, ...], now: tuple[Queue, ...]) -> None:
        spared = self._spared
        for leaf in before:
            nodes = spared.get(leaf)
            if nodes is not None and leaf not in now:
                nodes.pop(node_id, None)
                if not nodes:
                    del spared[leaf]
        for leaf in now:
            spared.setdefault(leaf, {})[node_id] = None

    def _lacking(self, node: Node) -> Vector | None:
        """Room that the node lacks; None if it cannot host the ask."""
        if not node.schedulable:
            return None
        promised = promised_on(node, self._index.applications) if node.reservations else EMPTY
        if promised is None or not node.holds(self._wanted):
            return None
        return room_shortage(node, self._wanted, promised)

    def _is_spared(self, leaf: Queue) -> bool:
        return keeps_all(leaf, self._wanted)

    def _fewest(self, node: Node, short: Vector, left_out: dict[Queue, None]) -> int | None:
        wanted = self._wanted

        def spared(leaf: Queue) -> bool:
            """True if law 5 protects the leaf; the leaf is recorded, because the protection may end."""
            if not keeps_all(leaf, wanted):
                return False
            left_out[leaf] = None
            return True

        return self._index.fewest(node, wanted, short, spared)
