"""Slots: how many gang members of a class each node takes now, or if it were empty.

A table is filled once, in parts, and then reads the log of changed nodes. So a search for a blocked gang
costs about as much as the changes since the last one. The number of tables is bounded; the least recently
used table is dropped.
"""

from collections import OrderedDict
from collections.abc import Callable

from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.gang_packing import slots_if_empty, slots_on
from licorne_core.scheduling.node_search.index import StillLooking
from licorne_core.values.asks import AskClass

MAX_KINDS = 16
"""Maximum number of kinds of members of one gang, and of tables."""


class Slots:
    """The slots for one class, by node and in total. An extension may also sum them by groups of nodes."""

    __slots__ = ("slots", "total")

    def __init__(self) -> None:
        """Start without slots."""
        self.slots: dict[Node, int] = {}
        """Number of slots by node; nodes without slots are left out."""
        self.total = 0
        """Number of slots of all nodes."""

    def put(self, node: Node, slots: int) -> None:
        """Set the number of slots of the node."""
        more = slots - self.slots.get(node, 0)
        if not more:
            return
        if slots:
            self.slots[node] = slots
        else:
            del self.slots[node]
        self.total += more
        self.moved(node, more)

    def moved(self, node: Node, more: int) -> None:
        """Note that the number of slots of the node has changed by `more`."""


class SlotTable:
    """Slots for one class: at present, or of empty nodes.

    For slots at present, a refusal by the RM is a change as well (`NodeBook.refusals_count`).
    """

    __slots__ = ("_ask_class", "_changed", "_made_of", "_nodes", "_read", "_rest", "_slots_on", "slots")

    def __init__(self, ask_class: AskClass, nodes: NodeBook, slots: Slots, *, if_empty: bool) -> None:
        """Start to fill the slots, which are empty."""
        self.slots = slots
        self._ask_class = ask_class
        self._nodes = nodes
        self._made_of = nodes.made_of
        self._changed = nodes.sized if if_empty else nodes.changed
        self._slots_on = slots_if_empty if if_empty else slots_on
        self._read = self._changed.count
        self._rest: list[Node] = list(nodes.by_id.values())

    def catch_up(self, most: int) -> int:
        """Add at most `most` further nodes, and apply the changes; return the number of nodes examined.

        Raises:
            StillLooking: there are more nodes to examine.
        """
        looks = 0
        while self._rest and looks < most:
            self._check(self._rest.pop())
            looks += 1
        if self._rest:
            raise StillLooking
        if self._made_of != self._nodes.made_of:
            self._made_of = self._nodes.made_of
            present = self._nodes.by_id
            for node in [node for node in self.slots.slots if present.get(node.node_id) is not node]:
                self.slots.put(node, 0)
        changed = self._changed
        if self._read != changed.count:
            for node in changed.since(self._read):
                self._check(node)
                looks += 1
            self._read = changed.count
        return looks

    def _check(self, node: Node) -> None:
        is_here = self._nodes.by_id.get(node.node_id) is node
        self.slots.put(node, self._slots_on(node, self._ask_class) if is_here else 0)


class SlotTables:
    """The tables of one partition."""

    def __init__(self, nodes: NodeBook, part: int, *, if_empty: bool = False) -> None:
        """Start without tables; `part` is the number of nodes that a search fills at a time."""
        self._nodes = nodes
        self._part = part
        self._if_empty = if_empty
        self._tables: OrderedDict[tuple[AskClass, object], SlotTable] = OrderedDict()
        self.work = 0
        """Number of nodes examined so far."""

    def of(self, ask_class: AskClass, layout: object, new: Callable[[], Slots]) -> Slots:
        """The slots of a class, up to date; `new` creates those of a `layout` (`NodeSets.layout`).

        Raises:
            StillLooking: the table is not full yet; the next call continues to fill it.
        """
        key = (ask_class, layout)
        table = self._tables.get(key)
        if table is None:
            if layout is not None:
                self._forget_others(layout)
            table = self._tables[key] = SlotTable(ask_class, self._nodes, new(), if_empty=self._if_empty)
            while len(self._tables) > MAX_KINDS:
                self._tables.popitem(last=False)
        self._tables.move_to_end(key)
        try:
            self.work += table.catch_up(self._part)
        except StillLooking:
            self.work += self._part
            raise
        return table.slots

    def _forget_others(self, layout: object) -> None:
        """Drop the tables of former layouts, which would keep removed nodes in memory."""
        for old in [key for key in self._tables if key[1] is not None and key[1] is not layout]:
            del self._tables[old]
