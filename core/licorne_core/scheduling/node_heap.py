"""Nodes in the order in which they would be chosen, found without looking at all of them.

A heap is told of nodes that became better for it (`offer`); one that became worse, or is out, is
dealt with when it comes to the top.
"""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any

from licorne_core.asks import AskClass
from licorne_core.nodes.node import Node
from licorne_core.resources import Items

Entry = tuple[Any, str, int, Node, int]
"""A node by rank, id and birth, as it was at the version at the end: it would do then."""

_SLACK = 64


class NodeHeap:
    """All open nodes in node order; subclasses take only some, or rank them otherwise.

    `keys` has each node's valid entry, `read` a position in the log of changes, `used` says when
    the heap was asked last. `steady`: a node that has not changed still does.
    """

    __slots__ = ("entries", "keys", "read", "steady", "used")

    def __init__(self, *, steady: bool = True) -> None:
        """Start empty."""
        self.steady = steady
        self.entries: list[Entry] = []
        self.keys: dict[Node, Entry] = {}
        self.read = 0
        self.used = 0

    def takes(self, node: Node) -> bool:
        """Whether the node would do now."""
        return node.open

    def rank(self, node: Node) -> Any:
        """What orders the nodes, before their ids."""
        return node.score

    def fill(self, nodes: Iterable[Node]) -> None:
        """Start from these nodes."""
        fitting = [node for node in nodes if self.takes(node)]
        self.entries = [self._entry(node) for node in fitting]
        self.keys = dict(zip(fitting, self.entries, strict=True))
        heapify(self.entries)

    def offer(self, node: Node) -> None:
        """Let a changed node in, or in again under its new rank."""
        entry = self.keys.get(node)
        if entry is not None and entry[4] == node.version and entry[0] == self.rank(node):
            return
        if self.takes(node):
            entry = self.keys[node] = self._entry(node)
            heappush(self.entries, entry)
            if len(self.entries) > _SLACK + 2 * len(self.keys):
                self.entries = list(self.keys.values())
                heapify(self.entries)

    def best(self) -> Node | None:
        """The first node in order that would do now."""
        entries = self.entries
        keys = self.keys
        while entries:
            entry = entries[0]
            node = entry[3]
            if keys.get(node) is not entry:
                heappop(entries)
            elif entry[4] == node.version and node.open and (self.steady or self.takes(node)):
                return node
            elif self.takes(node):
                entry = keys[node] = self._entry(node)
                heapreplace(entries, entry)
            else:
                heappop(entries)
                del keys[node]
        return None

    def first(self, count: int) -> list[Node]:
        """The first nodes in order, `best` leading."""
        aside: list[Entry] = []
        while len(aside) < count and self.best() is not None:
            aside.append(heappop(self.entries))
        for entry in aside:
            heappush(self.entries, entry)
        return [entry[3] for entry in aside]

    def _entry(self, node: Node) -> Entry:
        return (self.rank(node), node.node_id, node.birth, node, node.version)


class FittingHeap(NodeHeap):
    """Open nodes on which an ask of a class fits now, those that the RM refused it on left out."""

    __slots__ = ("_ask_class", "_items")

    def __init__(self, ask_class: AskClass) -> None:
        """Nothing fits yet."""
        super().__init__(steady=ask_class.predicate is None)
        self._ask_class = ask_class
        self._items = ask_class.items

    def takes(self, node: Node) -> bool:
        """Open, with room, and not refused."""
        return node.open and node.fits(self._items) and node.accepts(self._ask_class)


class ReservableHeap(NodeHeap):
    """Open nodes that could be reserved for an ask of a class, the least short first (§ 8.5)."""

    __slots__ = ("_ask_class", "_items")

    def __init__(self, ask_class: AskClass) -> None:
        """None could yet."""
        super().__init__(steady=ask_class.predicate is None)
        self._ask_class = ask_class
        self._items = ask_class.items

    def takes(self, node: Node) -> bool:
        """Open, with the capacity, and a reservation not refused."""
        return (
            node.open and node.holds(self._items) and node.accepts(self._ask_class, allocate=False)
        )

    def rank(self, node: Node) -> tuple[float, float]:
        """How short the node is of the ask, then its place in node order."""
        return (fit_score(node, self._items), node.score)


def fit_score(node: Node, items: Items) -> float:
    """How short the node is of the amounts: 0.0 fits, 1.0 for each type of which there is none."""
    score = 0.0
    for name, wanted in items:
        available = node.available.get(name, 0)
        if available <= 0:
            score += 1.0
        elif available < wanted:
            score += (wanted - available) / wanted
    return score
