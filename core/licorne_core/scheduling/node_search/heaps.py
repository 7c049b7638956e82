"""Heaps of nodes, kept in order without sorting (spec § 7.6).

One heap holds all open nodes. A supply that fits on none of the first few of them gets a heap of
its own, unless it wants more of a resource type than any node has (`Greatest`). Changes of
nodes are written to a log, and a heap reads on in the log when it is asked: a node that became
better or roomier enters again, one that became worse or full is dealt with when it comes to the
top. So a decision costs about log(nodes), and a class that fits nowhere costs nothing until a node
changes that would do.

A supply's own heap is filled in parts. The first node of the supply is not known before it is full,
and `StillLooking` says so to the caller. A turn ends with the first ask that is not answered, so
few heaps are filled at a time.

The number of heaps is bounded, and so is that of their entries (`heaps.py`).

Bounds on heaps of supplies: in number and in entries.

The least recently used heap gives way. It is filled anew when it is needed again.
"""

from collections import OrderedDict
from collections.abc import Iterator
from heapq import heappop, heappush

from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.node_search.node_heap import Entry, Greatest, NodeHeap
from licorne_core.scheduling.waiting.supply import ReservableSupply, Supply, SupplyHeap
from licorne_core.values.slices import parts_of

MAX_HEAPS = 2_000
"""Supplies that have a heap at a time; half of them, those asked longest ago, give way."""

MAX_FILLING = 4
"""Most heaps that are filled at a time; the oldest one gives way."""

MAX_FILL = 40
"""Entries that all heaps together may have for each node; a supply in short has next to none."""

MAX_ENTRIES = 4_000_000
"""Entries that all heaps together may have in any case; each takes about 250 bytes."""


class HeapRoom:
    """The supplies that have heaps.

    `_entries` is the sum of the entries of all heaps at their last count.
    """

    __slots__ = ("_entries", "_filling", "_listed", "_nodes", "supplies")

    def __init__(self, nodes: NodeBook) -> None:
        """Start without heaps, to be made of these nodes."""
        self._nodes = nodes
        self._entries = 0
        self._filling: dict[Supply, None] = {}
        self._listed: tuple[tuple[int, int], list[Node]] | None = None
        self.supplies: OrderedDict[Supply, None] = OrderedDict()
        """Supplies with a heap, the one that was asked longest ago first."""

    def add(self, supply: Supply, heap: SupplyHeap) -> None:
        """The supply begins with a heap, which is to be filled; others make room."""
        while len(self._filling) >= MAX_FILLING:
            self.drop(next(iter(self._filling)))
        supply.heap = heap
        self.supplies[supply] = self._filling[supply] = None
        if len(self.supplies) > MAX_HEAPS:
            self._make_room(supply)

    def count(self, heap: SupplyHeap) -> None:
        """The heap may have other entries than before."""
        self._entries += len(heap.entries) - heap.counted
        heap.counted = len(heap.entries)

    def check(self, asked: Supply | None) -> None:
        """Make room if all heaps have too many entries; that of the supply `asked` stays."""
        if self._has_too_many:
            self._make_room(asked)

    def filled(self, supply: Supply) -> None:
        """The supply's heap is full, or gone."""
        self._filling.pop(supply, None)
        if not self._filling:
            self._listed = None

    def drop(self, supply: Supply) -> None:
        """The supply has no heap any more."""
        if supply.heap is not None:
            self._entries -= supply.heap.counted
            supply.heap = None
            del self.supplies[supply]
            self.filled(supply)

    def all_nodes(self) -> list[Node]:
        """Return all nodes in one shared list; it must not be changed.

        It is kept as long as there are such heaps, and no longer: nodes in it may be gone.
        """
        made_of = self._nodes.made_of
        if self._listed is None or self._listed[0] != made_of:
            self._listed = (made_of, list(self._nodes.by_id.values()))
        return self._listed[1]

    @property
    def _has_too_many(self) -> bool:
        return self._entries > min(MAX_ENTRIES, MAX_FILL * (len(self._nodes.by_id) + 1))

    def _make_room(self, asked: Supply | None) -> None:
        """Drop half of the other heaps, and more if they still have too many entries."""
        others = [supply for supply in self.supplies if supply is not asked]
        half = (len(others) + 1) // 2
        for number, supply in enumerate(others):
            if number >= half and not self._has_too_many:
                return
            self.drop(supply)


LOG_SLACK = 256
"""Most changes in the log, in addition to two for each node, before all heaps catch up."""

PROBES = 8
"""Nodes of the heap of all that are tried before a supply gets a heap of its own."""


class StillLooking(Exception):
    """Not all nodes have been searched yet; the next call continues there."""


class NodeHeaps:
    """The heap of all open nodes, and those of supplies.

    Always true: the unread log of a heap has all nodes that became better since its last use.
    `work` is the cost of touching many nodes at once, in units of about a microsecond.
    """

    __slots__ = (
        "_everything",
        "_greatest",
        "_log",
        "_nodes",
        "_part",
        "_room",
        "closed",
        "work",
    )

    def __init__(self, nodes: NodeBook, part: int) -> None:
        """Index these nodes; filling a heap costs no more than about `part` of `work` at a time."""
        self._nodes = nodes
        self._part = part
        self._room = HeapRoom(nodes)
        self.work = 0
        self.closed = False
        """True if there are no heaps, so that nodes may have scores of different orders."""
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
        # The log knows nodes as well.
        self._catch_up()

    def reopen(self) -> Iterator[int]:
        """All nodes have scores of another order: make the heap of all of them, step by step."""
        self.closed = False
        everything = self._everything = NodeHeap()
        everything.read = len(self._log)
        for part in parts_of(self._nodes.by_id.values()):
            for node in part:
                everything.offer(node)
            yield 1

    def write(self, node: Node) -> None:
        """The node became better, or roomier, or may be chosen again."""
        self._log.append(node)
        if len(self._log) > LOG_SLACK + 2 * len(self._nodes.by_id):
            self._catch_up()

    def first(self, supply: Supply) -> Node | None:
        """The first node of the supply.

        Raises:
            StillLooking: not all nodes were looked at yet.
        """
        heap = supply.heap
        if heap is None:
            node = None if isinstance(supply, ReservableSupply) else self._probe(supply)
            if node is not None or self._is_ruled_out(supply):
                return node
            if not supply.is_short and supply.nodes.rules_out(supply.items):
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
        """The first nodes of the supply, or of all if those will do; all are looked at for that."""
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
        """Drop the heap of the supply: it is unused, or has to make room."""
        self._room.drop(supply)

    def _probe(self, supply: Supply) -> Node | None:
        """The first node that will do, if it is among the first few of all."""
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
        """True if no open node has that much of a type, or a smaller search has just failed."""
        greatest = self._greatest[type(supply)]
        greatest.read_on(self._log)
        if greatest.rules_out(supply.items):
            return True
        return not supply.nodes.rooms and supply.nodes.rules_out(supply.items)

    @property
    def _changes(self) -> tuple[int, int]:
        """Version of everything that the greatest amounts depend on."""
        return (self._nodes.changed.count, len(self._nodes.by_id))

    def _start(self, supply: Supply) -> SupplyHeap:
        """Begin with a heap of the supply's own.

        Of a short supply no other nodes would do than those that have changed. If all nodes have
        to be looked at, the greatest amounts may be found anew with them.
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
        """Fill one part of a heap; if all have too many entries now, others make room."""
        self.work += heap.fill_on(self._part)
        if not heap.is_filling:
            self._room.filled(supply)
            if heap.sizes is not None:
                self._greatest[type(supply)] = heap.sizes
                heap.sizes = None
        self._room.count(heap)
        self._room.check(supply)

    def _catch_up(self) -> None:
        """Let every heap read the log to its end, so that it can start anew."""
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
