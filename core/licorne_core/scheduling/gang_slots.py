"""Slots: how many gang members of a class each node and each domain takes now.

A table is filled once, in parts, and then follows the log of changed nodes. So a search for a blocked gang
costs about as much as has changed since the last one. Tables are bounded in number; the least recently used
one is dropped.
"""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Sequence

from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.domains import Domains, Path
from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.gang_packing import slots_on
from licorne_core.scheduling.node_search.heaps import StillLooking
from licorne_core.values.asks import AskClass

MAX_KINDS = 16
"""Most kinds of members of one gang, and most tables."""


class Slots:
    """The slots for one class, on nodes and in domains."""

    __slots__ = ("_by_slots", "_domains", "slots", "sums")

    def __init__(self, domains: Domains) -> None:
        """Start without slots."""
        self._domains = domains
        self.slots: dict[Node, int] = {}
        """The nodes with slots."""
        self.sums: list[dict[Path, int]] = [{} for _ in range(len(domains.levels) + 1)]
        """The domains with slots, by depth and path."""
        self._by_slots: dict[int, list[tuple[int, Path]]] = {}

    def with_slots(self, depth: int, least: int) -> Sequence[tuple[int, Path]]:
        """The domains of a depth with at least so many slots, those with the fewest first, then by path."""
        known = self._by_slots.get(depth)
        if known is None:
            # From now on it follows each change.
            known = self._by_slots[depth] = sorted((slots, path) for path, slots in self.sums[depth].items())
        return known[bisect_left(known, (least, ())) :]

    def put(self, node: Node, slots: int) -> None:
        """The node has so many slots from now on."""
        more = slots - self.slots.get(node, 0)
        if not more:
            return
        if slots:
            self.slots[node] = slots
        else:
            del self.slots[node]
        for depth, path in self._domains.paths(node):
            sums = self.sums[depth]
            before = sums.get(path, 0)
            left = before + more
            if left:
                sums[path] = left
            else:
                del sums[path]
            known = self._by_slots.get(depth)
            if known is not None:
                if before:
                    del known[bisect_left(known, (before, path))]
                if left:
                    insort(known, (left, path))


class SlotTable(Slots):
    """The slots for one class now.

    Answers of the RM may void slots without a mark of the node; who places members on a node looks at
    that node itself, and corrects the table (`check`).
    """

    __slots__ = ("_ask_class", "_made_of", "_nodes", "_read", "_rest")

    def __init__(self, ask_class: AskClass, nodes: NodeBook, domains: Domains) -> None:
        """Start empty."""
        super().__init__(domains)
        self._ask_class = ask_class
        self._nodes = nodes
        self._made_of = nodes.made_of
        self._read = nodes.changed.count
        self._rest: list[Node] = list(nodes.by_id.values())

    def is_of(self, domains: Domains) -> bool:
        """True if its domains are these."""
        return self._domains is domains

    def catch_up(self, most: int) -> int:
        """Fill another part of at most so many nodes, and read what has changed; return the looks.

        Raises:
            StillLooking: there are more nodes to look at.
        """
        looks = 0
        while self._rest and looks < most:
            self.check(self._rest.pop())
            looks += 1
        if self._rest:
            raise StillLooking
        if self._made_of != self._nodes.made_of:
            self._made_of = self._nodes.made_of
            present = self._nodes.by_id
            for node in [node for node in self.slots if present.get(node.node_id) is not node]:
                self.put(node, 0)
        changed = self._nodes.changed
        if self._read != changed.count:
            for node in changed.since(self._read):
                self.check(node)
                looks += 1
            self._read = changed.count
        return looks

    def check(self, node: Node) -> int:
        """Look at a node again; return its slots."""
        slots = slots_on(node, self._ask_class) if self._nodes.by_id.get(node.node_id) is node else 0
        self.put(node, slots)
        return slots


class SlotTables:
    """The tables of one partition."""

    def __init__(self, nodes: NodeBook, part: int) -> None:
        """Start without tables; `part` is the number of nodes that a search fills at a time."""
        self._nodes = nodes
        self._part = part
        self._tables: OrderedDict[AskClass, SlotTable] = OrderedDict()
        self.work = 0
        """Nodes looked at so far."""

    def of(self, ask_class: AskClass, domains: Domains) -> SlotTable:
        """The table of a class, up to date.

        Raises:
            StillLooking: it is not full yet; the next call goes on there.
        """
        table = self._tables.get(ask_class)
        if table is None or not table.is_of(domains):
            table = self._tables[ask_class] = SlotTable(ask_class, self._nodes, domains)
            while len(self._tables) > MAX_KINDS:
                self._tables.popitem(last=False)
        self._tables.move_to_end(ask_class)
        try:
            self.work += table.catch_up(self._part)
        except StillLooking:
            self.work += self._part
            raise
        return table
