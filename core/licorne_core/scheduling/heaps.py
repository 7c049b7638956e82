"""Heaps of nodes, kept in order without sorting (spec § 7.6).

One heap holds all open nodes. A supply that fits on none of the first few of them gets a heap of
its own, unless it wants more of a resource type than any node has (`greatest.py`). What happens to
nodes is written to a log, and a heap reads on in the log when it is asked: a node that became
better or roomier enters again, one that became worse or full is dealt with when it comes to the
top. So a decision costs about log(nodes), and a class that fits nowhere costs nothing until a node
changes that would do.

A supply's own heap is filled in parts. The first node of the supply is not known before it is full,
and `StillLooking` says so to those who ask. A turn ends with the first ask that is not answered, so
few heaps are filled at a time.

How many heaps there are is bounded, and so is how many entries they have together. Those that were
asked longest ago give way; whoever needs one of them again has it filled anew.
"""

from heapq import heappop, heappush

from licorne_core.nodes.book import NodeBook
from licorne_core.nodes.node import Node
from licorne_core.scheduling.greatest import Greatest
from licorne_core.scheduling.node_heap import Entry, NodeHeap
from licorne_core.scheduling.supply import ReservableSupply, Supply, SupplyHeap

MAX_HEAPS = 2_000
"""Supplies that have a heap at a time; half of them, those asked longest ago, give way."""

MAX_FILLING = 4
"""Supplies whose heaps are filled at a time; the one that began first gives way."""

MAX_FILL = 40
"""Entries that all heaps together may have for each node; a supply in short has next to none."""

MAX_ENTRIES = 4_000_000
"""Entries that all heaps together may have in any case; each takes about 250 bytes."""

LOG_SLACK = 256
"""Changes that the log may have, beside two for each node, before all heaps catch up."""

PROBES = 8
"""Nodes of the heap of all that are tried before a supply gets a heap of its own."""


class StillLooking(Exception):
    """Not all nodes were looked at yet. Whoever asks again goes on where this question ended."""


class NodeHeaps:
    """The heap of all open nodes, and those of supplies.

    Always true: what a heap has not read of the log is all that became better since it was asked.
    `_entries` is the sum of what all heaps of supplies had when they were counted last.
    `work` counts what filling heaps has cost, in units of about a microsecond.
    """

    __slots__ = (
        "_entries",
        "_everything",
        "_filling",
        "_greatest",
        "_listed",
        "_log",
        "_nodes",
        "_part",
        "_supplies",
        "_uses",
        "work",
    )

    def __init__(self, nodes: NodeBook, part: int) -> None:
        """Over these nodes; filling a heap costs no more than about `part` of `work` at a time."""
        self._nodes = nodes
        self._part = part
        self._uses = 0
        self._supplies: dict[Supply, None] = {}
        self.work = 0
        self.forget()

    def forget(self) -> None:
        """The order of all nodes changed."""
        for supply in self._supplies:
            supply.heap = None
        self._supplies = {}
        self._filling: dict[Supply, None] = {}
        self._listed: tuple[tuple[int, int], list[Node]] | None = None
        self._entries = 0
        self._log: list[Node] = []
        self._everything = NodeHeap()
        self._everything.fill(self._nodes.by_id.values())
        self._greatest: dict[type[Supply], Greatest] = {}
        for kind in (Supply, ReservableSupply):
            self._greatest[kind] = Greatest(kind.amounts, self._changes)
            self._greatest[kind].note(self._nodes.by_id.values())

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
            heap = self._start(supply)
        else:
            self._uses += 1
            heap.used = self._uses
            if heap.read < len(self._log):
                self._read_for(supply, heap)
                self._check_entries(supply)
        if heap.is_filling:
            self._fill_on(supply, heap)
            if heap.is_filling:
                raise StillLooking
        return heap.best()

    def ahead(self, supply: Supply, count: int) -> list[Node]:
        """The first nodes of the supply, or of all if those will do; all are looked at for that."""
        heap = supply.heap
        if heap is None:
            self._read(self._everything)
            found = self._everything.first(count)
            if all(node.takes(supply.wanted) for node in found):
                return found
            heap = self._start(supply)
        self._read_for(supply, heap)
        while heap.is_filling:
            self._fill_on(supply, heap)
        return heap.first(count)

    def drop(self, supply: Supply) -> None:
        """Nobody asks for the supply any more, or it has to make room."""
        if supply.heap is not None:
            self._entries -= supply.heap.counted
            supply.heap = None
            del self._supplies[supply]
            self._end_filling(supply)

    def _probe(self, supply: Supply) -> Node | None:
        """The first node that will do, if it is among the first few of all."""
        everything = self._everything
        if everything.read < len(self._log):
            self._read(everything)
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

    def _read_for(self, supply: Supply, heap: SupplyHeap) -> None:
        """Read on; of what a short supply would read, its hopeful nodes are all that matters."""
        if supply.is_short:
            for node in supply.hopeful:
                heap.offer(node)
            heap.read = len(self._log)
        else:
            self._read(heap)
        self._count(heap)

    def _read(self, heap: NodeHeap) -> None:
        log = self._log
        if heap.read < len(log):
            for node in log[heap.read :]:
                heap.offer(node)
            heap.read = len(log)

    def _is_ruled_out(self, supply: Supply) -> bool:
        """Whether it wants more of a resource type than any open node has."""
        greatest = self._greatest[type(supply)]
        self._read_sizes(greatest)
        return greatest.rules_out(supply.items)

    def _read_sizes(self, greatest: Greatest) -> None:
        if greatest.read < len(self._log):
            greatest.note(self._log[greatest.read :])
            greatest.read = len(self._log)

    @property
    def _changes(self) -> tuple[int, int]:
        """How much has changed so far of what the greatest amounts depend on."""
        return (self._nodes.changed.count, len(self._nodes.by_id))

    def _start(self, supply: Supply) -> SupplyHeap:
        """Begin with a heap of the supply's own.

        Of a short supply no other nodes would do than the hopeful ones. If all nodes have to be
        looked at, the greatest amounts may be found anew with them.
        """
        while len(self._filling) >= MAX_FILLING:
            self.drop(next(iter(self._filling)))
        nodes = list(supply.hopeful) if supply.is_short else self._all_nodes()
        sizes = None
        if not supply.is_short and self._greatest[type(supply)].exact_at != self._changes:
            sizes = Greatest(supply.amounts, self._changes)
            sizes.read = len(self._log)
        heap = supply.heap = SupplyHeap(supply, nodes, sizes)
        heap.read = len(self._log)
        self._uses += 1
        heap.used = self._uses
        self._supplies[supply] = self._filling[supply] = None
        if len(self._supplies) > MAX_HEAPS:
            self._make_room(supply)
        return heap

    def _all_nodes(self) -> list[Node]:
        """All nodes, in a list that the heaps that are filled share, and nobody may change.

        It is as long as there are such heaps, so that it keeps no node that is gone for longer.
        """
        made_of = self._nodes.made_of
        if self._listed is None or self._listed[0] != made_of:
            self._listed = (made_of, list(self._nodes.by_id.values()))
        return self._listed[1]

    def _fill_on(self, supply: Supply, heap: SupplyHeap) -> None:
        """Fill one part of a heap; if all have too many entries now, others make room."""
        self.work += heap.fill_on(self._part)
        if not heap.is_filling:
            self._end_filling(supply)
            if heap.sizes is not None:
                self._greatest[type(supply)] = heap.sizes
                heap.sizes = None
        self._count(heap)
        self._check_entries(supply)

    def _end_filling(self, supply: Supply) -> None:
        self._filling.pop(supply, None)
        if not self._filling:
            self._listed = None

    def _count(self, heap: SupplyHeap) -> None:
        self._entries += len(heap.entries) - heap.counted
        heap.counted = len(heap.entries)

    @property
    def _too_many(self) -> bool:
        """Whether all heaps together have more entries than they may."""
        return self._entries > min(MAX_ENTRIES, MAX_FILL * (len(self._nodes.by_id) + 1))

    def _check_entries(self, newest: Supply | None) -> None:
        if self._too_many:
            self._make_room(newest)

    def _make_room(self, newest: Supply | None) -> None:
        """Drop half of the other heaps, and more as long as there are too many entries."""
        by_use = sorted(
            (s for s in self._supplies if s is not newest),
            key=lambda s: s.heap.used if s.heap else 0,
        )
        half = by_use[: (len(by_use) + 1) // 2]
        for supply in half:
            self.drop(supply)
        for supply in by_use[len(half) :]:
            if not self._too_many:
                return
            self.drop(supply)

    def _catch_up(self) -> None:
        """Let every heap read the log to its end, so that it can start anew."""
        self._read(self._everything)
        for supply in self._supplies:
            assert supply.heap is not None, "a supply among the heaps has one"
            self._read_for(supply, supply.heap)
            supply.heap.read = 0
            if supply.heap.sizes is not None:
                self._read_sizes(supply.heap.sizes)
                supply.heap.sizes.read = 0
        for greatest in self._greatest.values():
            self._read_sizes(greatest)
            greatest.read = 0
        self._everything.read = 0
        self._log.clear()
        self._check_entries(None)
