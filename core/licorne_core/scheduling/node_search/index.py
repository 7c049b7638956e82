"""Node index: finds the first node on which an ask fits, without sorting (spec §§ 7.4-7.6, 8.4).

One heap holds all open nodes. A supply that takes none of the first few of them gets a heap of its own,
unless it wants more of a resource type than any node has (`Greatest`). Changes of nodes are written to a
log, which a heap reads before each search: a node with a better score or more room is added again; a worse
or full node is removed when it reaches the top. So a decision costs about log(nodes), and a class that fits
nowhere costs nothing until a node changes that takes it.

A supply's own heap is filled in parts. Until it is full the first node of the supply is not known, and
the search raises `StillLooking`. This ends the turn, so few heaps are filled at a time.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Final

from licorne_core.config.schema import NodeSortPolicy
from licorne_core.model.effort import Search
from licorne_core.model.nodes.book import NodeBook, NodeOrder, Packing
from licorne_core.model.nodes.node import NO_ANSWER, Node
from licorne_core.scheduling.node_search.node_heap import Greatest, NodeEntry, NodeHeap
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.scheduling.waiting.supply import (
    MAX_ROOMS,
    HeapRoom,
    ReservableSupply,
    Supplies,
    Supply,
    SupplyHeap,
)
from licorne_core.values.asks import AskClass, Shape
from licorne_core.values.slices import Tuning, parts_of

WORK_OF_A_TRY: Final = 10
"""Work of the heaps, in about microseconds, that costs as much as trying one ask."""

LOG_SLACK = 256
"""Maximum number of changes in the log, beyond two for each node, before all heaps read it."""

PROBES = 8
"""Number of nodes at the top of the heap of all nodes that are tried before a supply gets its own heap."""


class StillLooking(Exception):
    """Not all nodes have been searched yet; the next call continues the search."""


class NodeHeaps(Search):
    """The heap of all open nodes, and the heaps of supplies.

    Always true: the log after a heap's position has all nodes that became better since its last use. `work`
    counts operations on many nodes at once, in units of about a microsecond.
    """

    __slots__ = ("_everything", "_greatest", "_log", "_nodes", "_part", "_room", "closed")

    def __init__(self, nodes: NodeBook, part: int) -> None:
        """Index these nodes; filling a heap costs no more than about `part` of `work` at a time."""
        super().__init__(WORK_OF_A_TRY)
        self._nodes = nodes
        self._part = part
        self._room = HeapRoom(nodes)
        self.closed = False
        """True while there are no heaps, and nodes may have scores of different node orders."""
        self._log: list[Node] = []
        self._everything = NodeHeap()
        self._everything.fill(nodes.by_id.values())
        self._greatest: dict[type[Supply], Greatest] = {}
        for kind in (Supply, ReservableSupply):
            self._greatest[kind] = Greatest(kind.amounts, self._changes)
            self._greatest[kind].note(nodes.by_id.values())

    def close(self) -> Iterator[int]:
        """Release all heaps, step by step; no search may run until they are `reopened`."""
        self.closed = True
        for supply in list(self._room.supplies):
            heap = supply.heap
            self.drop(supply)
            if heap is not None:
                yield from heap.empty()
        yield from self._everything.empty()
        # The log of changes also refers to nodes: empty it.
        self._catch_up()

    def reopen(self) -> Iterator[int]:
        """Make the heap of all nodes, which have scores of another order now, step by step."""
        self.closed = False
        everything = self._everything = NodeHeap()
        everything.read = len(self._log)
        for part in parts_of(list(self._nodes.by_id.values())):
            for node in part:
                everything.offer(node)
            yield 1

    def write(self, node: Node) -> None:
        """Log a node that has a better score or more room, or that may be chosen again."""
        self._log.append(node)
        if len(self._log) > LOG_SLACK + 2 * len(self._nodes.by_id):
            self._catch_up()

    def top(self) -> Node | None:
        """The first of all open nodes; None if no node is open, or while a search for a supply continues."""
        if self._room.filling:
            return None
        everything = self._everything
        if everything.read < len(self._log):
            everything.read_on(self._log)
        return everything.best()

    def first(self, supply: Supply) -> Node | None:
        """First node of the supply; None if there is none.

        Raises:
            StillLooking: not all nodes have been searched yet.
        """
        heap = supply.heap
        if heap is None:
            node = None if isinstance(supply, ReservableSupply) else self._probe(supply)
            if node is not None or self._is_ruled_out(supply):
                return node
            if not supply.is_short and supply.nodes.rules_out(supply.wanted):
                supply.run_short()
            heap = self._start(supply)
        else:
            self._room.supplies.move_to_end(supply)
            if heap.read < len(self._log):
                self._read_for(heap)
                self._room.check(supply)
        if heap.is_filling:
            self._fill_on(supply, heap)
            if heap.is_filling:
                raise StillLooking
        return heap.best()

    def ahead(self, supply: Supply, count: int) -> list[Node]:
        """First `count` nodes of the supply, after a search of all nodes if necessary."""
        heap = supply.heap
        if heap is None:
            self._everything.read_on(self._log)
            found = self._everything.first(count)
            if all(node.takes(supply.wanted) for node in found):
                return found
            heap = self._start(supply)
        self._read_for(heap)
        while heap.is_filling:
            self._fill_on(supply, heap)
        return heap.first(count)

    def drop(self, supply: Supply) -> None:
        """Drop the heap of the supply, if it has one."""
        self._room.drop(supply)

    def _probe(self, supply: Supply) -> Node | None:
        """First node of the supply; None if it is not among the first few of all nodes."""
        everything = self._everything
        if everything.read < len(self._log):
            everything.read_on(self._log)
        wanted = supply.wanted
        node = everything.best()
        if node is None or node.refusal(wanted) is None:
            return node
        if self._is_ruled_out(supply):
            return None
        aside: list[NodeEntry] = []
        while node is not None and len(aside) < PROBES and not node.takes(wanted):
            aside.append(heappop(everything.entries))
            node = everything.best()
        for entry in aside:
            heappush(everything.entries, entry)
        return node if node is not None and node.takes(wanted) else None

    def _read_for(self, heap: SupplyHeap) -> None:
        heap.read_on(self._log)
        self._room.count(heap)

    def _is_ruled_out(self, supply: Supply) -> bool:
        """True if no open node has this amount of a type, or the search for a smaller shape has failed."""
        greatest = self._greatest[type(supply)]
        greatest.read_on(self._log)
        if greatest.rules_out(supply.items):
            return True
        return not supply.nodes.rooms and supply.nodes.rules_out(supply.wanted)

    @property
    def _changes(self) -> tuple[int, int]:
        """Version of the nodes, on which the greatest amounts depend."""
        return (self._nodes.changed.count, len(self._nodes.by_id))

    def _start(self, supply: Supply) -> SupplyHeap:
        """Start to fill a heap of the supply's own.

        A short supply has only changed nodes as candidates. A search of all nodes may also recompute the
        greatest amounts.
        """
        nodes = list(supply.nodes.rooms) if supply.is_short else self._room.all_nodes()
        sizes = None
        if not supply.is_short and self._greatest[type(supply)].exact_at != self._changes:
            sizes = Greatest(supply.amounts, self._changes)
            sizes.read = len(self._log)
        heap = SupplyHeap(supply, nodes, sizes)
        heap.read = len(self._log)
        self._room.add(supply, heap)
        return heap

    def _fill_on(self, supply: Supply, heap: SupplyHeap) -> None:
        """Fill one part of a heap; then drop other heaps if all together have too many entries."""
        self.work += heap.fill_on(self._part)
        if not heap.is_filling:
            self._room.filled(supply)
            if heap.sizes is not None:
                self._greatest[type(supply)] = heap.sizes
                heap.sizes = None
        self._room.count(heap)
        self._room.check(supply)

    def _catch_up(self) -> None:
        """Let every heap read the log to its end, and empty the log."""
        if not self.closed:
            self._everything.read_on(self._log)
        for supply in self._room.supplies:
            assert supply.heap is not None, "a supply among the heaps has one"
            self._read_for(supply.heap)
            supply.heap.read = 0
            if supply.heap.sizes is not None:
                supply.heap.sizes.read_on(self._log)
                supply.heap.sizes.read = 0
        for greatest in self._greatest.values():
            greatest.read_on(self._log)
            greatest.read = 0
        self._everything.read = 0
        self._log.clear()
        self._room.check(None)


class NodeIndex:
    """Finds nodes for ask classes, and owns the score and the version of every node.

    Every change of a node is reported here: `took` for less room, `improved` for more room or a node
    that may be chosen again, `note` for other possible victims, `left` for a removed node.
    """

    __slots__ = ("_groups", "_nodes", "_reorders", "heaps", "supplies", "version")

    def __init__(self, nodes: NodeBook, tuning: Tuning) -> None:
        """Index these nodes."""
        self._nodes = nodes
        self.version = self._reorders = 0
        """Number of changes of nodes."""
        for _ in self._score_all():
            pass
        self.heaps = NodeHeaps(nodes, tuning.fill_work)
        """Heaps of nodes in order; their `work` counts operations on many nodes at once."""
        self.supplies = Supplies()
        """Nodes by shape and ask class, and the asks that wait for them."""
        self._groups: dict[AskClass | Shape, int] = {}
        """Number of groups of each shape, and of each class with a predicate."""

    def reorder(self, policy: NodeSortPolicy, packs: Packing | None = None) -> Iterator[int]:
        """Put another node order in force, step by step; yield the cost of each step.

        Between two steps nodes may change, be added and removed, but no search may run. A later call ends
        this one.
        """
        self._reorders += 1
        number = self._reorders
        for cost in self._reorder(policy, packs):
            yield cost
            if number != self._reorders:
                return

    def _reorder(self, policy: NodeSortPolicy, packs: Packing | None) -> Iterator[int]:
        yield from self.heaps.close()
        self._nodes.reorder(policy, packs)
        for part in parts_of(list(self._nodes.by_id.values())):
            for node in part:
                if self._nodes.by_id.get(node.node_id) is node:
                    self._nodes.order.add(node)
            yield 1
        yield from self._score_all()
        yield from self.heaps.reopen()

    # Classes in use

    def class_added(self, ask_class: AskClass) -> None:
        """Count a new group of the class."""
        groups, shape = self._groups, ask_class.shape
        groups[shape] = groups.get(shape, 0) + 1
        if ask_class.predicate is not None:
            groups[ask_class] = groups.get(ask_class, 0) + 1

    def class_removed(self, ask_class: AskClass) -> None:
        """Remove a group of the class from the count; drop supplies that no group needs any more."""
        self._leave(ask_class.shape)
        if ask_class.predicate is not None:
            self._leave(ask_class)

    def is_wanted(self, ask_class: AskClass) -> bool:
        """True if there is a group of the class, or, for a class without a predicate, of its shape."""
        return (ask_class.shape if ask_class.predicate is None else ask_class) in self._groups

    def clear(self) -> Iterator[int]:
        """Forget all nodes of a removed partition, step by step."""
        yield from self.heaps.close()
        self.supplies.clear()

    def _leave(self, wanted: AskClass | Shape) -> None:
        left = self._groups.pop(wanted) - 1
        if left:
            self._groups[wanted] = left
        elif self.supplies.made:
            for dropped in self.supplies.drop(wanted):
                self.heaps.drop(dropped)

    # Searches

    def best(self, ask_class: AskClass) -> Node | Supply:
        """First node in node order for an ask of the class, or the supply that is short.

        Raises:
            StillLooking: not all nodes have been searched yet.
        """
        shape = ask_class.shape
        has_predicate = ask_class.predicate is not None
        if shape.required_node is None:
            # Most asks fit on the very first node: a supply is created only for other asks.
            first = self.heaps.top()
            if first is not None and first.refusal(ask_class if has_predicate else shape) is None:
                return first
        supply = self.supplies.get(shape)
        if not has_predicate:
            return self._find(supply) or supply
        own = self.supplies.get(ask_class)
        if self._find(supply) is None:
            return supply
        node = self._find(own)
        return own if node is None else node

    def to_reserve(self, ask_class: AskClass, now: float) -> Node | Supply:
        """Best node to reserve for an ask of the class at unix seconds `now`, or the supply that is short.

        Raises:
            StillLooking: not all nodes have been searched yet.
        """
        found = self._to_reserve(ask_class.shape, now)
        is_done = ask_class.predicate is None or not isinstance(found, Node)
        return found if is_done else self._to_reserve(ask_class, now)

    def _to_reserve(self, wanted: AskClass | Shape, now: float) -> Node | Supply:
        supply = self.supplies.reservable(wanted)
        supply.now = now
        node = self._find(supply)
        self.heaps.work += supply.cost_of([])
        return supply if node is None else node

    def ahead(self, ask_class: AskClass, count: int) -> list[Node]:
        """At most `count` of the first nodes for the class; nodes that need a long search are left out."""
        if ask_class.required_node is not None:
            return []
        found = self.heaps.ahead(self.supplies.get(ask_class), count)
        return [node for node in found if node.takes(ask_class)]

    # Changes

    def improved(self, node: Node) -> list[Blocker]:
        """Note a node that is new, has more room or may be chosen again; return the open blockers."""
        found = self.supplies.improved(node)
        self.took(node)
        self.heaps.write(node)
        return found

    def _score_all(self) -> Iterator[int]:
        for part in parts_of(list(self._nodes.by_id.values())):
            for node in part:
                if self._nodes.by_id.get(node.node_id) is not node:
                    continue
                self._nodes.changed.note(node)
                self.version += 1
                _score_afresh(node, self._nodes.order)
            yield 1

    def took(self, node: Node) -> None:
        """Note a node with less room: its score is void, and maybe scores of other nodes."""
        self._nodes.changed.note(node)
        for pool in self.supplies.changed:
            pool.took(node)
        self._void_scores(node)

    def note(self, node: Node) -> None:
        """Note a change of the node; its score does not change yet."""
        self._nodes.changed.note(node)

    def refused(self, node: Node) -> None:
        """Note that the RM has refused a class on the node, or not answered: slots for gangs depend on it."""
        if self._nodes.refusals_count:
            self._nodes.changed.note(node)

    def left(self, node: Node) -> None:
        """Remove a node from all heaps; scores of other nodes may be void."""
        self._void_scores(node)
        node.version += 1
        self.heaps.write(node)
        self.supplies.left(node)

    def _void_scores(self, node: Node) -> None:
        order = self._nodes.order
        self.version += 1
        if self.heaps.closed:
            for mate in order.voids(node):
                _score_afresh(mate, order)
            return
        if not order.has_mates:
            before = node.score
            score = node.score = order.score(node)
            node.version += 1
            if before is not None and score < before:
                self.heaps.write(node)
            return
        voided = list(order.voids(node))
        self.heaps.work += max(0, len(voided) - 1)
        # A heap may read any node of the log. So each of them needs a score, and a new node has none yet.
        for better in [mate for mate in voided if _rescore(mate, order)]:
            self.heaps.write(better)

    # Search of one supply

    def _find(self, supply: Supply) -> Node | None:
        """First node of the supply; if None, the supply is short from now on."""
        required = supply.wanted.required_node
        if required is not None:
            node = self._nodes.by_id.get(required)
            if node is not None and not supply.takes(node):
                node = None
        elif (
            # Most supplies were never short, and are not compared further.
            supply.short_in >= 0
            and supply.heap is None
            and supply.is_short
            and len(supply.nodes.rooms) <= MAX_ROOMS
        ):
            node = _first(supply, supply.nodes.rooms)
        else:
            node = self.heaps.first(supply)
        if node is None:
            supply.run_short()
            # The heap is empty; only changed nodes enter the next one.
            self.heaps.drop(supply)
        return node


def _first(supply: Supply, nodes: Iterable[Node]) -> Node | None:
    """The first of the nodes that the supply takes, by a scan; None if it takes none."""
    found = [node for node in nodes if supply.takes(node)]
    return min(found, key=lambda node: (supply.rank(node), node.node_id), default=None)


def _score_afresh(node: Node, order: NodeOrder) -> None:
    """Recompute the score; the old one may belong to another node order."""
    node.score = order.score(node)
    node.version += 1


def _rescore(node: Node, order: NodeOrder) -> bool:
    """Recompute the node's score; return True if its position in node order is better now."""
    before = node.score
    score = node.score = order.score(node)
    node.version += 1
    return before is not None and score < before


def refusals(nodes: Iterable[Node], ask_class: AskClass) -> dict[str, int]:
    """Count the nodes that the RM refuses for the class, by reason.

    A missing answer of the RM is no reason.
    """
    results = (node.results.get((ask_class, True)) for node in nodes)
    spoken = (reason for reason in results if reason and reason is not NO_ANSWER)
    return dict(sorted(Counter(spoken).items()))
