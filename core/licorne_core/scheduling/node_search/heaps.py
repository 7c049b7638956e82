"""Heaps of nodes, kept in order without sorting (spec § 7.6).

One heap holds all open nodes. A supply that takes none of the first few of them gets a heap of its
own, unless it wants more of a resource type than any node has (`Greatest`). Changes of nodes are
written to a log, which a heap reads before each search: a node with a better score or more room enters
again; a worse or full node is removed when it comes to the top. So a decision costs about log(nodes),
and a class that fits nowhere costs nothing until a node changes that takes it.

A supply's own heap is filled in parts. Until it is full the first node of the supply is not known, and
the search raises `StillLooking`. This ends the turn, so few heaps are filled at a time.

The heaps of supplies are bounded in number and in entries. The least recently used heap is dropped, and
filled anew when it is needed again.
"""

from collections import OrderedDict
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Final

from licorne_core.model.effort import Search
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.node_search.node_heap import Entry, Greatest, NodeHeap
from licorne_core.scheduling.waiting.supply import ReservableSupply, Supply, SupplyHeap
from licorne_core.values.slices import parts_of

WORK_OF_A_TRY: Final = 10
"""Work of the heaps, in about microseconds, that costs as much as trying one ask."""

MAX_HEAPS = 2_000
"""Most supplies with a heap; beyond that, the least recently used half is dropped."""

MAX_FILLING = 4
"""Most heaps that are filled at a time; the oldest one is dropped."""

MAX_FILL = 40
"""Most entries of all heaps together, for each node; a short supply has next to none."""

MAX_ENTRIES = 4_000_000
"""Most entries of all heaps together; each takes about 250 bytes."""


class HeapRoom:
    """The supplies with heaps, within the bounds.

    `_entries` is the sum of the entries of all heaps at their last count.
    """

    def __init__(self, nodes: NodeBook) -> None:
        """Start without heaps, to be made of these nodes."""
        self._nodes = nodes
        self._entries = 0
        self.filling: dict[Supply, None] = {}
        """Supplies whose first node is not known yet."""
        self._listed: tuple[tuple[int, int], list[Node]] | None = None
        self.supplies: OrderedDict[Supply, None] = OrderedDict()
        """Supplies with a heap, the least recently used first."""

    def add(self, supply: Supply, heap: SupplyHeap) -> None:
        """Give the supply a heap that is to be filled; drop others beyond the bounds."""
        while len(self.filling) >= MAX_FILLING:
            self.drop(next(iter(self.filling)))
        supply.heap = heap
        self.supplies[supply] = self.filling[supply] = None
        if len(self.supplies) > MAX_HEAPS:
            self._make_room(supply)

    def count(self, heap: SupplyHeap) -> None:
        """Count the entries of a changed heap."""
        self._entries += len(heap.entries) - heap.counted
        heap.counted = len(heap.entries)

    def check(self, asked: Supply | None) -> None:
        """Drop heaps if all together have too many entries, but not that of the supply `asked`."""
        if self._has_too_many:
            self._make_room(asked)

    def filled(self, supply: Supply) -> None:
        """Note that the supply's heap is full, or dropped."""
        self.filling.pop(supply, None)
        if not self.filling:
            self._listed = None

    def drop(self, supply: Supply) -> None:
        """Drop the heap of the supply, if it has one."""
        if supply.heap is not None:
            self._entries -= supply.heap.counted
            supply.heap = None
            del self.supplies[supply]
            self.filled(supply)

    def all_nodes(self) -> list[Node]:
        """Return all nodes in one shared list, which must not be changed.

        The list is kept only while heaps are being filled, as it would keep removed nodes.
        """
        made_of = self._nodes.made_of
        if self._listed is None or self._listed[0] != made_of:
            self._listed = (made_of, list(self._nodes.by_id.values()))
        return self._listed[1]

    @property
    def _has_too_many(self) -> bool:
        return self._entries > min(MAX_ENTRIES, MAX_FILL * (len(self._nodes.by_id) + 1))

    def _make_room(self, asked: Supply | None) -> None:
        """Drop half of the other heaps, and more while there are too many entries."""
        others = [supply for supply in self.supplies if supply is not asked]
        half = (len(others) + 1) // 2
        for number, supply in enumerate(others):
            if number >= half and not self._has_too_many:
                return
            self.drop(supply)


LOG_SLACK = 256
"""Most changes in the log, beyond two for each node, before all heaps read it."""

PROBES = 8
"""First nodes of the heap of all nodes that are tried before a supply gets a heap of its own."""


class StillLooking(Exception):
    """Not all nodes have been searched yet; the next call continues there."""


class NodeHeaps(Search):
    """The heap of all open nodes, and those of supplies.

    Always true: the log behind a heap's position has all nodes that became better since its last use.
    `work` counts what touches many nodes at once, in units of about a microsecond.
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
        # The log holds nodes as well.
        self._catch_up()

    def reopen(self) -> Iterator[int]:
        """Make the heap of all nodes, which have scores of another order now, step by step."""
        self.closed = False
        everything = self._everything = NodeHeap()
        everything.read = len(self._log)
        for part in parts_of(self._nodes.by_id.values()):
            for node in part:
                everything.offer(node)
            yield 1

    def write(self, node: Node) -> None:
        """Log a node with a better score or more room, or that may be chosen again."""
        self._log.append(node)
        if len(self._log) > LOG_SLACK + 2 * len(self._nodes.by_id):
            self._catch_up()

    def top(self) -> Node | None:
        """First of all open nodes; None for none, and while the first node of a supply is looked for."""
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
        """First node of the supply, if it is among the first few of all nodes."""
        everything = self._everything
        if everything.read < len(self._log):
            everything.read_on(self._log)
        wanted = supply.wanted
        node = everything.best()
        if node is None or node.refusal(wanted) is None:
            return node
        if self._is_ruled_out(supply):
            return None
        aside: list[Entry] = []
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
        """True if no open node has that much of a type, or the search for a smaller shape has failed."""
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

        A short supply takes no other nodes than changed ones. A search of all nodes may also find the
        greatest amounts anew.
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
        """Fill one part of a heap; drop others if all have too many entries then."""
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
