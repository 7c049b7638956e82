"""Which node an ask goes to: the first in node order on which it fits (spec §§ 7.4, 8.4).

One heap holds all open nodes. A class that fits on none of the first few of them gets
a heap of its own, of the nodes that it fits on. What happens to nodes is written to a log,
and a heap reads on in the log when it is asked: a node that became better or roomier enters
again, one that became worse or full is dealt with when it comes to the top. So a decision costs
about log(nodes), and a class that fits nowhere costs no more than a look at each node that changes.
"""

from collections import Counter
from collections.abc import Hashable, Iterable
from heapq import heappop, heappush

from licorne_core.asks import AskClass
from licorne_core.nodes.book import NodeBook
from licorne_core.nodes.node import Node
from licorne_core.scheduling.node_heap import (
    Entry,
    FittingHeap,
    NodeHeap,
    ReservableHeap,
    fit_score,
)
from licorne_core.scheduling.starved import Starved, takes

MAX_HEAPS = 2_000
"""Classes that have a heap at a time; the one that was not asked for longest gives way."""

MAX_FILL = 64
"""Entries that all heaps together may have for each node; a starved class has next to none."""

LOG_SLACK = 256
"""Changes that the log may have, beside two for each node, before all heaps catch up."""

PROBES = 8
"""Nodes of the heap of all that are tried before a class gets a heap of its own."""

RESERVE = "reserve"
"""Stands with a class for the gate of claims: a node that could be reserved is missing."""


class NodeIndex:
    """Finds nodes for ask classes. Whoever changes a node tells it by `changed`.

    A class without a node is `starved`, one without even a node to reserve `unclaimable`. `work`
    counts what looks at many nodes have cost, in units of about a microsecond.
    """

    __slots__ = (
        "_everything",
        "_heaps",
        "_indexed",
        "_log",
        "_nodes",
        "_reservable",
        "_uses",
        "starved",
        "unclaimable",
        "work",
    )

    def __init__(self, nodes: NodeBook, *, indexed: bool) -> None:
        """Over these nodes; without `indexed` every question is answered by a look at all nodes."""
        self._nodes = nodes
        self._indexed = indexed
        self._uses = 0
        self.starved = Starved()
        self.unclaimable: dict[AskClass, None] = {}
        self.work = 0
        self.forget()

    def forget(self) -> None:
        """The order of all nodes changed."""
        self._heaps: dict[AskClass, FittingHeap] = {}
        self._reservable: dict[AskClass, ReservableHeap] = {}
        self._log: list[Node] = []
        self._everything = NodeHeap()
        self._everything.fill(self._nodes.by_id.values())

    def best(self, ask_class: AskClass) -> Node | None:
        """The node for an ask of the class; without one its `gate` is starved from now on."""
        size = ask_class.size
        if size is not ask_class and self._find(size) is None:
            self.starved.add(size)
            if ask_class in self.starved:
                # Somebody may be waiting for the class itself.
                self.starved.add(ask_class)
            return None
        node = self._find(ask_class)
        if node is None:
            self.starved.add(ask_class)
        elif self.starved:
            self.starved.drop(ask_class)
        return node

    def gate(self, ask_class: AskClass) -> AskClass:
        """What has to be fed before another look at a class that has no node is worth it.

        Where no node has room, this is the size of the class, which classes share of which the RM
        thinks differently; where there is room, but refused, it is the class itself.
        """
        return ask_class if ask_class in self.starved else ask_class.size

    def to_reserve(self, ask_class: AskClass) -> Node | None:
        """The node to reserve for an ask of the class; without one its `claim_gate` shuts."""
        size = ask_class.size
        if size is not ask_class and self._find_reservable(size) is None:
            self.unclaimable[size] = None
            return None
        node = self._find_reservable(ask_class)
        if node is None:
            self.unclaimable[ask_class] = None
        return node

    def claim_gate(self, ask_class: AskClass) -> Hashable:
        """What has to open before another look for a node to reserve is worth it."""
        return (RESERVE, ask_class if ask_class in self.unclaimable else ask_class.size)

    def ahead(self, ask_class: AskClass, count: int) -> list[Node]:
        """The first nodes in order, as far as known cheaply, that an ask of the class may go to."""
        if ask_class.required_node is not None:
            return []
        if not self._indexed:
            fitting = (node for node in self._nodes.by_id.values() if takes(node, ask_class))
            return sorted(fitting, key=lambda node: (node.score, node.node_id))[:count]
        own = self._heaps.get(ask_class)
        if own is not None:
            self._read_for(ask_class, own)
        else:
            self._read(self._everything)
        heap = own or self._everything
        return [node for node in heap.first(count) if takes(node, ask_class)]

    def changed(self, node: Node) -> list[AskClass]:
        """The node is new, has more room or comes earlier: the starved classes that it feeds."""
        # First: the log may be read to its end now, and a starved class reads its feeders only.
        fed = self.starved.feed(node) if self.starved else []
        self.moved(node)
        return fed

    def moved(self, node: Node) -> None:
        """The node comes earlier in the order, with no more room than it had."""
        self._log.append(node)
        if len(self._log) > LOG_SLACK + 2 * len(self._nodes.by_id):
            self._catch_up()

    def claimable(self, node: Node) -> list[AskClass]:
        """The unclaimable classes that the changed node could be reserved for now."""
        if not self.unclaimable:
            return []
        found = [c for c in self.unclaimable if _may_be_reserved(node, c)]
        for ask_class in found:
            del self.unclaimable[ask_class]
        return found

    def drop(self, ask_class: AskClass) -> None:
        """Nobody asks for the class any more."""
        self.starved.drop(ask_class)
        self.unclaimable.pop(ask_class, None)
        self._heaps.pop(ask_class, None)
        self._reservable.pop(ask_class, None)

    def _find(self, ask_class: AskClass) -> Node | None:
        if ask_class.required_node is not None:
            node = self._nodes.by_id.get(ask_class.required_node)
            return node if node is not None and takes(node, ask_class) else None
        if self._indexed:
            return self._from_heap(ask_class)
        fitting = (node for node in self._nodes.by_id.values() if takes(node, ask_class))
        return min(fitting, key=lambda node: (node.score, node.node_id), default=None)

    def _find_reservable(self, ask_class: AskClass) -> Node | None:
        if ask_class.required_node is not None:
            return self._nodes.by_id.get(ask_class.required_node)
        if self._indexed:
            heap = self._reservable.get(ask_class)
            if heap is None:
                heap = self._reservable[ask_class] = ReservableHeap(ask_class)
                self._start(heap, self._reservable)
            return self._top(heap)
        reservable = (n for n in self._nodes.by_id.values() if _may_be_reserved(n, ask_class))
        items = ask_class.items
        return min(
            reservable, key=lambda n: (fit_score(n, items), n.score, n.node_id), default=None
        )

    def _from_heap(self, ask_class: AskClass) -> Node | None:
        heap = self._heaps.get(ask_class) if self._heaps else None
        if heap is None:
            node = self._probe(ask_class)
            if node is not None:
                return node
            heap = self._heaps[ask_class] = FittingHeap(ask_class)
            self._start(heap, self._heaps)
        else:
            self._read_for(ask_class, heap)
        return self._top(heap)

    def _probe(self, ask_class: AskClass) -> Node | None:
        """The first node that will do, if it is among the first few of all."""
        everything = self._everything
        if everything.read < len(self._log):
            self._read(everything)
        items = ask_class.items
        node = everything.best()
        if node is None or (node.fits(items) and node.accepts(ask_class)):
            return node
        aside: list[Entry] = []
        while node is not None and len(aside) < PROBES:
            if node.fits(items) and node.accepts(ask_class):
                break
            aside.append(heappop(everything.entries))
            node = everything.best()
        for entry in aside:
            heappush(everything.entries, entry)
        return node if node is not None and takes(node, ask_class) else None

    def _top(self, heap: NodeHeap) -> Node | None:
        self._read(heap)
        self._uses += 1
        heap.used = self._uses
        return heap.best()

    def _read_for(self, ask_class: AskClass, heap: FittingHeap) -> None:
        """Read on; of what a starved class would read, its feeders are all that matters."""
        if ask_class in self.starved:
            for node in self.starved.feeders(ask_class):
                heap.offer(node)
            heap.read = len(self._log)
        else:
            self._read(heap)

    def _read(self, heap: NodeHeap) -> None:
        log = self._log
        if heap.read < len(log):
            for node in log[heap.read :]:
                heap.offer(node)
            heap.read = len(log)

    def _start(
        self, heap: NodeHeap, heaps: dict[AskClass, FittingHeap] | dict[AskClass, ReservableHeap]
    ) -> None:
        """Fill a heap that is new among its like; those not used for longest make room."""
        heap.fill(self._nodes.by_id.values())
        heap.read = len(self._log)
        self._uses += 1
        heap.used = self._uses
        self.work += len(self._nodes.by_id) // 4
        room = MAX_FILL * (len(self._nodes.by_id) + 1)
        while len(heaps) > 1 and (
            len(heaps) > MAX_HEAPS or sum(len(other.entries) for other in heaps.values()) > room
        ):
            del heaps[min(heaps, key=lambda other: heaps[other].used)]

    def _catch_up(self) -> None:
        """Let every class read the log to its end, so that it can start anew."""
        for ask_class, fitting in self._heaps.items():
            self._read_for(ask_class, fitting)
        for heap in (self._everything, *self._reservable.values()):
            self._read(heap)
        for heap in (self._everything, *self._heaps.values(), *self._reservable.values()):
            heap.read = 0
        self._log.clear()


def refusals(nodes: Iterable[Node], ask_class: AskClass) -> dict[str, int]:
    """The reasons for which the RM refuses asks of the class, and on how many nodes each."""
    verdicts = (node.verdicts.get((ask_class, True)) for node in nodes)
    return dict(sorted(Counter(reason for reason in verdicts if reason).items()))


def _may_be_reserved(node: Node, ask_class: AskClass) -> bool:
    if ask_class.required_node is not None:
        return ask_class.required_node == node.node_id
    return node.open and node.holds(ask_class.items) and node.accepts(ask_class, allocate=False)
