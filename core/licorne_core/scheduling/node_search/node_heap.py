"""Heaps of nodes in node order, the greatest amounts of nodes, and an index of items by amounts.

A heap is notified of improved and of removed nodes (`offer`). A node that became worse is ranked again, or
removed, when it reaches the top. `Greatest` rules asks out without a search. `FittingIndex` finds the items
that may fit in some room.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from math import inf
from typing import Any, NamedTuple

from licorne_core.model.nodes.node import Node
from licorne_core.values.resources import Items


class NodeEntry(NamedTuple):
    """A node, with its rank when it had this `version`. Ordered by rank, id and birth."""

    rank: Any
    node_id: str
    birth: int
    version: int
    node: Node


DROPPED = 64
"""Entries that are released in one step."""

_SLACK = 64

_make = tuple.__new__
"""Creates a named tuple in half the time; an allocation needs several."""


class NodeHeap:
    """All open nodes in node order; a subclass includes some nodes only, or ranks them otherwise.

    `keys` has the valid entry of each node, `read` is the position in the log of changes. In a `steady`
    heap the entry of an unchanged node remains valid; in others its rank may only rise as time passes.
    """

    __slots__ = ("entries", "keys", "read", "steady")

    def __init__(self, *, steady: bool = True) -> None:
        """Start empty."""
        self.steady = steady
        self.entries: list[NodeEntry] = []
        self.keys: dict[Node, NodeEntry] = {}
        self.read = 0

    def entry(self, node: Node) -> NodeEntry | None:
        """Present entry of the node; None if the heap excludes the node."""
        if not node.open:
            return None
        return _make(NodeEntry, (node.score, node.node_id, node.birth, node.version, node))

    def fill(self, nodes: Iterable[Node]) -> None:
        """Start from these nodes."""
        self.gather(nodes)
        self.put_in_order()

    def gather(self, nodes: Iterable[Node]) -> None:
        """Add the first nodes; the caller then calls `put_in_order`."""
        for node in nodes:
            entry = self.entry(node)
            if entry is not None:
                self.entries.append(entry)
                self.keys[node] = entry

    def put_in_order(self) -> None:
        """Order the gathered nodes."""
        heapify(self.entries)

    def read_on(self, log: list[Node]) -> None:
        """Read the log of changes to its end."""
        if self.read < len(log):
            for node in log[self.read :]:
                self.offer(node)
            self.read = len(log)

    def offer(self, node: Node) -> None:
        """Enter a changed node under its new rank, or remove it."""
        entry = self.keys.get(node)
        if entry is not None and entry.version == node.version:
            return
        now = self.entry(node)
        if now is not None:
            self.keys[node] = now
            heappush(self.entries, now)
            if len(self.entries) > _SLACK + 2 * len(self.keys):
                self.entries = list(self.keys.values())
                heapify(self.entries)
        elif entry is not None:
            # The entry might never reach the top, and would keep a removed node alive.
            del self.keys[node]

    def best(self) -> Node | None:
        """First valid node in order; None if there is none."""
        entries = self.entries
        keys = self.keys
        while entries:
            entry = entries[0]
            node = entry.node
            known = keys.get(node)
            if known is None or known.version != entry.version:
                heappop(entries)
            elif self.steady and entry.version == node.version and node.open:
                return node
            else:
                now = self.entry(node)
                if now is None:
                    heappop(entries)
                    del keys[node]
                elif now.version == entry.version and now.rank <= entry.rank:
                    return node
                else:
                    keys[node] = now
                    heapreplace(entries, now)
        return None

    def first(self, count: int) -> list[Node]:
        """The first valid nodes in order, at most `count`."""
        aside: list[NodeEntry] = []
        while len(aside) < count and self.best() is not None:
            aside.append(heappop(self.entries))
        for entry in aside:
            heappush(self.entries, entry)
        return [entry.node for entry in aside]

    def empty(self) -> Iterator[int]:
        """Release all nodes step by step; yield the cost of each step."""
        while self.entries or self.keys:
            del self.entries[-DROPPED:]
            for _ in range(min(DROPPED, len(self.keys))):
                self.keys.popitem()
            yield 1


def entry_of(node: Node, rank: Any) -> NodeEntry:
    """Present entry of the node, under this rank."""
    return _make(NodeEntry, (rank, node.node_id, node.birth, node.version, node))


class Greatest:
    """For each resource type an amount that no open node exceeds.

    Always true: no open node has more of a type, except nodes in the unread part of the log. An amount
    rises when a node with more is noted. It does not fall when a node is removed, is drained or takes an
    ask: then it is too high for a while, and fewer asks are ruled out. A new `Greatest` that notes all
    open nodes is exact again.
    """

    __slots__ = ("_most", "_of", "exact_at", "read")

    def __init__(self, of: Callable[[Node], Mapping[str, int]], changes: tuple[int, int]) -> None:
        """Start without nodes. `of` returns the amounts of a node to compare."""
        self._of = of
        self._most: dict[str, int] = {}
        self.exact_at = changes
        """Version of the nodes at which all of them were noted."""
        self.read = 0
        """Position in the log of changes."""

    def note(self, nodes: Iterable[Node]) -> None:
        """Note new nodes, or nodes that may have more than before; only open ones count."""
        most = self._most
        for node in nodes:
            if node.open:
                for name, value in self._of(node).items():
                    if value > most.get(name, 0):
                        most[name] = value

    def read_on(self, log: list[Node]) -> None:
        """Read the log of changes to its end."""
        if self.read < len(log):
            self.note(log[self.read :])
            self.read = len(log)

    def rules_out(self, items: Items) -> bool:
        """True if the requested amount of some type exceeds that of every open node."""
        most = self._most
        return any(value > most.get(name, 0) for name, value in items)


class _Wanted(NamedTuple):
    amount: float
    serial: int
    item: Any


class FittingIndex:
    """Items that request amounts (`items`), sorted by the amount of each resource type.

    Always true: every item is in the list of each type that it requests.
    """

    __slots__ = ("_by_type", "_serial", "_serials")

    def __init__(self) -> None:
        """Start empty."""
        self._by_type: dict[str, list[_Wanted]] = {}
        self._serials: dict[Any, int] = {}
        self._serial = 0

    def __len__(self) -> int:
        """Number of items."""
        return len(self._serials)

    def __iter__(self) -> Any:
        """Items in the order of their addition."""
        return iter(self._serials)

    def add(self, item: Any) -> None:
        """Add an item that lacks room."""
        self._serial += 1
        self._serials[item] = self._serial
        for name, amount in item.items:
            insort(self._by_type.setdefault(name, []), _Wanted(amount, self._serial, item))

    def remove(self, item: Any) -> None:
        """Remove an item that no longer lacks room."""
        serial = self._serials.pop(item)
        for name, amount in item.items:
            wanting = self._by_type[name]
            del wanting[bisect_left(wanting, (amount, serial))]
            if not wanting:
                del self._by_type[name]

    def that_may_fit(self, room: Mapping[str, int], *, strict: bool = False) -> Iterable[Any]:
        """Return the items that fit in the room, and some others; the caller checks each.

        A type that `room` does not name is unlimited, or with `strict` unavailable. The search uses
        one type: the most selective of those that all items want.
        """
        total = len(self._serials)
        fewest: list[_Wanted] | None = None
        count = total
        for name, wanting in self._by_type.items():
            left = room.get(name, 0 if strict else None)
            if left is not None and len(wanting) == total:
                fitting = bisect_right(wanting, (left, inf))
                if fitting < count:
                    fewest, count = wanting, fitting
        if fewest is None:
            return list(self._serials)
        return [entry.item for entry in fewest[:count]]
