"""Least number of victims on each node, kept from search to search.

Any allocation counts, unless law 5 protects its leaf from every ask. The numbers spare a search
nearly all nodes: with a plan at hand, only nodes with a smaller number count.

The room that nodes lack is cheap to derive, and kept for all of them. Often it shows already that
there is no plan, or that the ask only has to wait. Numbers are derived when nodes are needed in
order.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.preemption.hosts import is_taken, room_shortage
from licorne_core.scheduling.preemption.laws import keeps_all
from licorne_core.scheduling.preemption.node_contents import NodeContents
from licorne_core.scheduling.preemption.whatif import Vector
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.recent import Recent
from licorne_core.values.resources import Items

SHAPES = 32
"""For so many sizes of asks the numbers are kept, those that were asked for last."""


class VictimCounts:
    """The nodes by the number of victims that they take at least, for some sizes of asks."""

    __slots__ = ("_by_size", "_changed", "_node_contents")

    def __init__(self, node_contents: NodeContents, changed: Recent[Node]) -> None:
        """Start without sizes. `changed` has the nodes by their last changes."""
        self._node_contents = node_contents
        self._changed = changed
        self._by_size: dict[Items, OfSize] = {}

    def of(self, wanted: Items) -> "OfSize":
        """The nodes for asks of this size, as they were when they were asked for last."""
        known = self._by_size.pop(wanted, None)
        if known is None:
            if len(self._by_size) >= SHAPES:
                del self._by_size[next(iter(self._by_size))]
            known = OfSize(wanted, self._node_contents, self._changed)
        self._by_size[wanted] = known
        return known

    def check(self) -> None:
        """Compare kept numbers with the nodes; raises InvariantBroken on a difference."""
        for known in self._by_size.values():
            known.check()


class OfSize:
    """The nodes for asks of one size.

    A node cannot host the ask if it is too small or drained, or reserved for an ask that yields to
    no other. Always true after `refresh`: the room that all other nodes lack is known. Each of them
    that lacks nothing has the number 0; each other one has its number, or is due to get it.

    Always true after `number`: a node is in the rank of its number, or in none if it is no place or
    all that is on it would not do. No leaf that was left out for a node may give by now; some may
    count that are spared by now, so a number may be too small and is never too large.
    """

    __slots__ = (
        "_amounts",
        "_changed",
        "_due",
        "_least",
        "_left_out",
        "_node_contents",
        "_nodes",
        "_places",
        "_ranks",
        "_read",
        "_short",
        "_spared",
        "_wanted",
    )

    def __init__(self, wanted: Items, node_contents: NodeContents, changed: Recent[Node]) -> None:
        """Start without nodes."""
        self._wanted = wanted
        self._node_contents = node_contents
        self._changed = changed
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
        # The places of those whose numbers are to be derived.
        self._due: dict[int, None] = {}
        # By number of victims, the places of its nodes in the order of ids.
        self._ranks: dict[int, list[int]] = {}
        # By type of the ask, what the nodes lack, the smallest first.
        self._amounts: list[list[int]] = [[] for _ in self._wanted]

    def refresh(self) -> int:
        """Take in the nodes that have changed; return their number."""
        nodes = self._node_contents.nodes()
        changed: list[int]
        if nodes is not self._nodes:
            self._start(nodes)
            changed = list(range(len(nodes)))
        else:
            changed = [self._places[node] for node in self._changed.since(self._read)]
        self._read = self._changed.count
        for place in changed:
            self._measure(place)
        return len(changed)

    def number(self) -> int:
        """Derive the numbers that are due; return how many were."""
        for place in self._no_longer_spared():
            self._due[place] = None
        for place in self._due:
            short = self._short[place]
            if short is not None:
                self._move(place, self._fewest(self._nodes[place], short, self._left_out[place]))
        numbered = len(self._due)
        self._due.clear()
        return numbered

    @property
    def due(self) -> int:
        """Number of nodes without a victim count; a newly unprotected leaf may add more."""
        return len(self._due)

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

    def check(self) -> None:
        """Check rule P5: kept numbers are true for all nodes without a logged change.

        Raises InvariantBroken.
        """
        if self._node_contents.nodes() is not self._nodes:
            return
        changed = set(self._changed.since(self._read))
        for place, node in enumerate(self._nodes):
            if node in changed:
                continue
            kept, short = self._short[place], self._lacking(node)
            if kept != short:
                raise InvariantBroken(f"P5: {node!r}: lacking {short}, kept {kept}")
            gives = any(not keeps_all(leaf, self._wanted) for leaf in self._left_out[place])
            if short is None or place in self._due or gives:
                continue
            least = self._node_contents.fewest(node, self._wanted, short, self._is_spared)
            known = self._least[place]
            if least is not None and (known is None or known > least):
                raise InvariantBroken(f"P5: {node!r}: at least {least} victims, kept {known}")

    def _measure(self, place: int) -> None:
        """Derive the room that the node lacks now."""
        node, before = self._nodes[place], self._short[place]
        short = self._lacking(node)
        if short != before:
            self._short[place] = short
            for index, amounts in enumerate(self._amounts):
                if before is not None:
                    del amounts[bisect_left(amounts, before[index])]
                if short is not None:
                    insort(amounts, short[index])
        if short is None or not any(short):
            self._due.pop(place, None)
            self._left_out[place].clear()
            self._move(place, None if short is None else 0)
        else:
            self._due[place] = None
            self._move(place, None)

    def _lacking(self, node: Node) -> Vector | None:
        """Room that the node lacks; None if it cannot host the ask."""
        if not node.schedulable:
            return None
        if node.reservations and is_taken(node, self._node_contents.applications):
            return None
        return room_shortage(node, self._wanted) if node.holds(self._wanted) else None

    def _is_spared(self, leaf: Queue) -> bool:
        return keeps_all(leaf, self._wanted)

    def _no_longer_spared(self) -> Iterable[int]:
        """The places of nodes for which a leaf was left out that may give by now."""
        giving = {leaf for leaf in self._spared if not keeps_all(leaf, self._wanted)}
        if not giving:
            return ()
        for leaf in giving:
            del self._spared[leaf]
        left_out = enumerate(self._left_out)
        return [place for place, leaves in left_out if not giving.isdisjoint(leaves)]

    def _fewest(self, node: Node, short: Vector, left_out: list[Queue]) -> int | None:
        left_out.clear()
        wanted, known = self._wanted, self._spared

        def spared(leaf: Queue) -> bool:
            """True if nothing of the leaf may go; noted, as that can change."""
            if leaf not in known:
                if not keeps_all(leaf, wanted):
                    return False
                known[leaf] = None
            left_out.append(leaf)
            return True

        return self._node_contents.fewest(node, wanted, short, spared)

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
