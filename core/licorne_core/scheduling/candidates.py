"""Which node an ask goes to: the first in node order on which it fits (spec §§ 7.4, 8.4).

One heap holds all schedulable nodes. A class that fits on none of the first few of them gets
a heap of its own, of the nodes that it fits on. What happens to nodes is written to a log,
and a heap reads on in the log when it is asked: a node that became better or roomier enters
again, one that became worse or full is dealt with when it comes to the top. So a decision costs
about log(nodes), and a class that fits nowhere costs no more than a look at each node that changes.
"""

from heapq import heapify, heappop, heappush, heapreplace

from licorne_core.asks import AskClass
from licorne_core.nodes.book import NodeBook
from licorne_core.nodes.node import Node
from licorne_core.resources import Items

Entry = tuple[float, str, int, Node, int]
"""A node by score, id and birth, as it was at the version at the end: the class fitted on it."""

MAX_HEAPS = 2_000
"""Classes that have a heap at a time; the one that was not asked for longest gives way."""

MAX_FILL = 64
"""Entries that all heaps together may have for each node; a starved class has next to none."""

LOG_SLACK = 256
"""Changes that the log may have, beside two for each node, before all heaps catch up."""

_SLACK = 64
PROBES = 8
"""Nodes of the heap of all that are tried before a class gets a heap of its own."""


class _ClassHeap:
    """The nodes that a class fits on. `keys` has each one's valid entry, `read` a log position."""

    __slots__ = ("entries", "items", "keys", "read", "used")

    def __init__(self, items: Items) -> None:
        self.items = items
        self.entries: list[Entry] = []
        self.keys: dict[Node, Entry] = {}
        self.read = 0
        self.used = 0

    def fill(self, nodes: list[Node]) -> None:
        """Start from these nodes."""
        fitting = [node for node in nodes if node.schedulable and node.fits(self.items)]
        self.entries = [_entry(node) for node in fitting]
        self.keys = dict(zip(fitting, self.entries, strict=True))
        heapify(self.entries)

    def offer(self, node: Node) -> None:
        """Let a changed node in, or in again under its new score."""
        entry = self.keys.get(node)
        if entry is not None and entry[4] == node.version and entry[0] == node.score:
            return
        if node.schedulable and node.fits(self.items):
            entry = self.keys[node] = _entry(node)
            heappush(self.entries, entry)
            if len(self.entries) > _SLACK + 2 * len(self.keys):
                self.entries = list(self.keys.values())
                heapify(self.entries)

    def best(self) -> Node | None:
        """The first node in order that the class fits on now."""
        entries = self.entries
        keys = self.keys
        while entries:
            entry = entries[0]
            node = entry[3]
            if keys.get(node) is not entry:
                heappop(entries)
            elif not node.schedulable:
                heappop(entries)
                del keys[node]
            elif entry[4] == node.version:
                return node
            elif node.fits(self.items):
                entry = keys[node] = _entry(node)
                heapreplace(entries, entry)
            else:
                heappop(entries)
                del keys[node]
        return None


def _entry(node: Node) -> Entry:
    return (node.score, node.node_id, node.birth, node, node.version)


class NodeIndex:
    """Finds nodes for ask classes. Whoever changes a node tells it by `changed`.

    `work` counts what looks at many nodes have cost, in units of about a microsecond.
    """

    __slots__ = ("_everything", "_heaps", "_indexed", "_log", "_nodes", "_uses", "starved", "work")

    def __init__(self, nodes: NodeBook, *, indexed: bool) -> None:
        """Over these nodes; without `indexed` every question is answered by a look at all nodes."""
        self._nodes = nodes
        self._indexed = indexed
        self._heaps: dict[AskClass, _ClassHeap] = {}
        self._log: list[Node] = []
        self._uses = 0
        self.starved: dict[AskClass, None] = {}
        self.work = 0
        self._everything = _ClassHeap(())
        self._everything.fill(list(nodes.by_id.values()))

    def best(self, ask_class: AskClass) -> Node | None:
        """The node for an ask of the class; without one the class is `starved` from now on."""
        if ask_class.required_node is not None:
            node = self._required(ask_class)
        elif self._indexed:
            node = self._from_heap(ask_class)
        else:
            node = self._by_scan(ask_class)
        if node is None:
            self.starved[ask_class] = None
        return node

    def changed(self, node: Node) -> list[AskClass]:
        """The node is new, has more room or comes earlier: the starved classes that it can feed."""
        self._log.append(node)
        if len(self._log) > LOG_SLACK + 2 * len(self._nodes.by_id):
            self._catch_up()
        if not self.starved:
            return []
        fed = [ask_class for ask_class in self.starved if self._takes(node, ask_class)]
        for ask_class in fed:
            del self.starved[ask_class]
        return fed

    def drop(self, ask_class: AskClass) -> None:
        """Nobody asks for the class any more."""
        self.starved.pop(ask_class, None)
        self._heaps.pop(ask_class, None)

    def forget(self) -> None:
        """The order of all nodes changed."""
        self._heaps.clear()
        self._log.clear()
        self._everything = _ClassHeap(())
        self._everything.fill(list(self._nodes.by_id.values()))

    def _takes(self, node: Node, ask_class: AskClass) -> bool:
        if ask_class.required_node is not None:
            return ask_class.required_node == node.node_id and node.fits(ask_class.items)
        return node.schedulable and node.fits(ask_class.items)

    def _required(self, ask_class: AskClass) -> Node | None:
        """The required node takes the ask even when it is drained (spec § 7.7)."""
        assert ask_class.required_node is not None
        node = self._nodes.by_id.get(ask_class.required_node)
        return node if node is not None and node.fits(ask_class.items) else None

    def _by_scan(self, ask_class: AskClass) -> Node | None:
        fitting = (node for node in self._nodes.by_id.values() if self._takes(node, ask_class))
        return min(fitting, key=lambda node: (node.score, node.node_id), default=None)

    def _from_heap(self, ask_class: AskClass) -> Node | None:
        heap = self._heaps.get(ask_class) if self._heaps else None
        if heap is None:
            node = self._probe(ask_class.items)
            if node is not None:
                return node
            heap = self._new_heap(ask_class)
        self._read(heap)
        self._uses += 1
        heap.used = self._uses
        return heap.best()

    def _probe(self, items: Items) -> Node | None:
        """The first node that fits, if it is among the first few of all."""
        everything = self._everything
        if everything.read < len(self._log):
            self._read(everything)
        node = everything.best()
        if node is None or node.fits(items):
            return node
        aside: list[Entry] = []
        while node is not None and not node.fits(items) and len(aside) < PROBES:
            aside.append(heappop(everything.entries))
            node = everything.best()
        for entry in aside:
            heappush(everything.entries, entry)
        return node if node is not None and node.fits(items) else None

    def _read(self, heap: _ClassHeap) -> None:
        log = self._log
        if heap.read < len(log):
            for node in log[heap.read :]:
                heap.offer(node)
            heap.read = len(log)

    def _new_heap(self, ask_class: AskClass) -> _ClassHeap:
        heaps = self._heaps
        room = MAX_FILL * (len(self._nodes.by_id) + 1)
        while len(heaps) >= MAX_HEAPS or sum(len(heap.entries) for heap in heaps.values()) > room:
            del heaps[min(heaps, key=lambda other: heaps[other].used)]
        heap = heaps[ask_class] = _ClassHeap(ask_class.items)
        heap.fill(list(self._nodes.by_id.values()))
        self.work += len(self._nodes.by_id) // 4
        heap.read = len(self._log)
        return heap

    def _catch_up(self) -> None:
        """Let every class read the log to its end, so that it can start anew."""
        for heap in (self._everything, *self._heaps.values()):
            self._read(heap)
            heap.read = 0
        self._log.clear()
