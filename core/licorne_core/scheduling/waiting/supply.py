"""Supplies: the nodes usable by a class of asks, and its waiting asks (spec §§ 8.4-8.8).

A supply is searched for its first node. When it has none it is *short*: from then on it blocks its
asks, and only changed nodes are candidates. These are noted once, in the pool of all short supplies, so that
a change of a node costs the same however many asks wait. Asks without a predicate
share the supply of their shape; the others have one each, which is used only if the shape's has
nodes. `Supplies` has the supplies of a partition, by shape or class, and their pools.

The heaps of supplies are bounded in number and in entries. The least recently used heap is dropped, and
filled anew when it is needed again.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from math import inf
from operator import attrgetter
from typing import Any, ClassVar

from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import Node, room_at
from licorne_core.scheduling.node_search.node_heap import Greatest, NodeEntry, NodeHeap, entry_of
from licorne_core.scheduling.waiting.blockers import Blocker, Pool, Shortage
from licorne_core.scheduling.waiting.waiting_line import Amounts
from licorne_core.values.asks import AskClass, Shape
from licorne_core.values.ids import NodeId
from licorne_core.values.resources import Items

SIFTED = 512
"""Number of nodes whose room is compared in one batch."""

SIFTED_TYPES = 4
"""Number of resource types by which these nodes are compared; most asks request no more types."""

MAX_ROOMS = 16
"""Maximum number of changed nodes that are compared one by one, for a supply without any other node."""

MAX_SHORT = 16
"""Maximum number of shapes with failed searches that are recorded; the latest are kept."""

MAX_HEAPS = 2_000
"""Maximum number of supplies with a heap; beyond that, the least recently used half is dropped."""

MAX_FILLING = 4
"""Maximum number of heaps that are filled at a time; the oldest one is dropped."""

MAX_FILL = 40
"""Maximum number of entries of all heaps together, per node; the heap of a short supply has very few."""

MAX_ENTRIES = 4_000_000
"""Maximum number of entries of all heaps together; each takes about 250 bytes."""


class NodePool(Pool):
    """The open nodes, for the short supplies of one kind.

    `rooms` are nodes that have changed since the last pass. Always true: no other node is usable by asks of
    a short supply. A finished pass has checked these nodes for all waiting asks.
    """

    __slots__ = ("_amounts", "_required", "_short", "passes_ended", "rooms", "supplies")

    def __init__(self, amounts: Callable[[Node], Mapping[str, int]], *, required: bool = False) -> None:
        """Start empty. `amounts` returns the amounts of a node in which requested amounts have to fit.

        With `required` the pool is for one node, and for asks that require this node.
        """
        super().__init__()
        self._amounts = amounts
        self._required = required
        self._short: list[Supply] = []
        self.passes_ended = 0
        """Number of finished passes since the first change of a node."""
        self.rooms: dict[Node, None] = {}
        self.supplies = 0
        """Number of supplies of this pool."""

    def ran_short(self, supply: "Supply") -> None:
        """Note that a search of all nodes failed; larger shapes need no search."""
        # The RM's answers about one class do not apply to another.
        if isinstance(supply.wanted, Shape) and not self.rules_out(supply.wanted):
            known = [other for other in self._short if other.is_short]
            self._short = [*known[1 - MAX_SHORT :], supply]

    def close(self) -> None:
        """Clear the pool: without supplies it must not keep former supplies or nodes in memory."""
        self._short = []
        self.rooms.clear()
        self.least = self.top = None

    def rules_out(self, wanted: AskClass | Shape) -> bool:
        """True if a search for smaller amounts has failed: then only nodes in `rooms` may fit.

        Only a search for asks with the same or an earlier end counts, as room may be held for later starts.
        """
        amounts = dict(wanted.items)
        for supply in self._short:
            if supply.wanted.runtime > wanted.runtime:
                continue
            for name, value in supply.items:
                if amounts.get(name, 0) < value:
                    break
            else:
                if supply.is_short:
                    return True
        return False

    def may_fit(self, least: Amounts) -> bool:
        """True if a changed node has these amounts."""
        for node in self.rooms:
            if (node.open or self._required) and self._has(node, least):
                return True
        return False

    def improved(self, node: Node) -> list[Blocker]:
        """Note a changed node; return the blockers that may open."""
        found: list[Blocker] = []
        if self.least is None or not self._has(node, self.least):
            return found
        self.rooms[node] = None
        if node.open or self._required:
            found.append(self)
        if len(self.watched):
            may_fit = self.watched.that_may_fit(self._amounts(node), strict=True)
            found += [supply for supply in may_fit if supply.takes(node)]
        return found

    def took(self, node: Node) -> None:
        """Note a node with less room: drop it if it is of no use to any waiting ask."""
        if node in self.rooms and not (self.least is not None and self._has(node, self.least)):
            del self.rooms[node]

    def left(self, node: Node) -> None:
        """Drop a removed node."""
        self.rooms.pop(node, None)

    def end_pass(self) -> None:
        """End the pass: no waiting ask could use the changed nodes."""
        if self.rooms:
            super().end_pass()
            self.passes_ended += 1
            self.rooms.clear()

    def _has(self, node: Node, least: Amounts) -> bool:
        amounts = self._amounts(node)
        for name, value in least.items():
            if amounts.get(name, 0) < value:
                return False
        return True


class Supply(Shortage):
    """The nodes for one shape or ask class.

    Always true: if it `is_short`, only nodes in `nodes.rooms` may fit.
    """

    __slots__ = ("heap", "nodes", "short_in", "wanted")

    amounts: "ClassVar[attrgetter[Mapping[str, int]]]" = attrgetter("available")
    """Amounts of a node in which requested amounts have to fit."""

    def __init__(self, wanted: AskClass | Shape, nodes: NodePool) -> None:
        """Start unused. `nodes` is the pool shared by supplies of its kind."""
        super().__init__(nodes, wanted.items)
        self.wanted = wanted
        self.nodes = nodes
        self.short_in = -1
        """Number of passes that had finished when it was last short; below zero if it never was."""
        self.heap: SupplyHeap | None = None
        """Its nodes in order; None until no ask of it fits any of the first few of all nodes."""

    @property
    def is_short(self) -> bool:
        """True if a search of all nodes has failed.

        It remains true while an ask waits for the supply, and at least until the end of the pass.
        """
        return self.short_in == self.nodes.passes_ended or bool(self.waiting or self.priority_pass)

    def takes(self, node: Node) -> bool:
        """True if the node takes an ask now."""
        return node.refusal(self.wanted) is None

    def that_may_do(self, nodes: list[Node]) -> list[Node]:
        """Return all nodes that take an ask, and maybe others; the caller checks each one."""
        amounts = self.amounts
        for name, value in self.items[:SIFTED_TYPES]:
            nodes = [node for node in nodes if amounts(node).get(name, 0) >= value]
        return nodes

    def rank(self, node: Node) -> Any:
        """Sort key of the node, before its id."""
        return node.score

    def cost_of(self, nodes: list[Node]) -> int:
        """Cost of adding the nodes to a heap, in about microseconds."""
        return len(nodes) * (1 + len(self.items) // 8)

    def run_short(self) -> None:
        """Note that a search of all nodes has failed."""
        was_short = self.is_short
        self.short_in = self.nodes.passes_ended
        self.nodes.lower(self.items)
        if not was_short:
            self.nodes.ran_short(self)

    def retire(self) -> None:
        """Mark the supply as unused; it remains short until the end of the pass."""
        self.short_in = self.nodes.passes_ended

    def is_covered(self) -> bool:
        """True if a changed node takes an ask."""
        return any(self.takes(node) for node in self.nodes.rooms)


class ReservableSupply(Supply):
    """The nodes that could be reserved for asks of a shape or class.

    The node is first that is expected to have room first, by ends as of the time `now` of the last search.
    """

    __slots__ = ("now", "read")

    amounts = attrgetter("capacity")

    def __init__(self, wanted: AskClass | Shape, nodes: NodePool) -> None:
        """Start unused. The node has to hold the amounts, unless asks require it (spec § 8.7)."""
        super().__init__(wanted, nodes)
        if wanted.required_node is not None:
            self.items = ()
        self.now = -inf
        self.read = 0
        """Number of allocations read for ranks that no cost includes yet."""

    def takes(self, node: Node) -> bool:
        """True if the node may be reserved for an ask now."""
        return node.may_be_reserved(self.wanted)

    def cost_of(self, nodes: list[Node]) -> int:
        """Cost of adding the nodes, and of all ranks since the last call, in about microseconds."""
        cost = super().cost_of(nodes) + 2 * self.read // 3
        self.read = 0
        return cost

    def rank(self, node: Node) -> Any:
        """Sort key: the expected time of room, the shortage for the ask, then the rank in node order."""
        self.read += len(node.allocations)
        return (room_at(node, self.items, self.now), fit_score(node, self.items), node.score)


class SupplyHeap(NodeHeap):
    """The open nodes that a supply includes.

    It is filled part by part. Nodes that change meanwhile are offered to it as at any other time.
    """

    __slots__ = ("_rest", "_supply", "counted", "is_filling", "sizes")

    def __init__(self, supply: Supply, nodes: list[Node], sizes: Greatest | None) -> None:
        """Prepare to fill the heap from these nodes; `sizes` notes all of them if none fits."""
        # For asks with a runtime, nodes leave the supply as time passes: room is held there for later starts.
        # Ranks of nodes to reserve rise.
        is_timed = isinstance(supply, ReservableSupply) or supply.wanted.runtime < inf
        super().__init__(steady=not is_timed and isinstance(supply.wanted, Shape))
        self._supply = supply
        self._rest = iter(nodes)
        self.sizes = sizes
        """Notes the examined nodes, while none of them fits."""
        self.is_filling = True
        """True until all nodes have been examined; before that the first node is not determined."""
        self.counted = 0
        """Number of entries at the last count."""

    def fill_on(self, most: int) -> int:
        """Examine nodes up to a cost of `most`; return the cost.

        The unit is about a microsecond.
        """
        types = min(SIFTED_TYPES, len(self._supply.items))
        cost = 0
        while cost < most:
            part = list(islice(self._rest, min(SIFTED, most)))
            if not part:
                self.put_in_order()
                self.is_filling = False
                break
            may_do = self._supply.that_may_do(part)
            self.gather(may_do)
            cost += 1 + len(part) * (1 + types) // 16 + self._supply.cost_of(may_do)
            if self.entries:
                self.sizes = None
            elif self.sizes is not None:
                self.sizes.note(part)
                cost += len(part) // 4
        return cost

    def entry(self, node: Node) -> NodeEntry | None:
        """The node's present entry; None if the supply excludes it."""
        supply = self._supply
        return entry_of(node, supply.rank(node)) if supply.takes(node) else None


class HeapRoom:
    """The supplies with heaps, whose number and size are bounded.

    `_entries` is the sum of the entries of all heaps at their last count.
    """

    def __init__(self, nodes: NodeBook) -> None:
        """Start without heaps, to be made of these nodes."""
        self._nodes = nodes
        self._entries = 0
        self.filling: dict[Supply, None] = {}
        """Supplies whose first node is not determined yet."""
        self._listed: tuple[tuple[int, int], list[Node]] | None = None
        self.supplies: OrderedDict[Supply, None] = OrderedDict()
        """Supplies with a heap, the least recently used first."""

    def add(self, supply: Supply, heap: SupplyHeap) -> None:
        """Add a heap, to be filled, to the supply; drop others beyond the bounds."""
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
        """Drop heaps if all together have too many entries, but never the heap of the supply `asked`."""
        if self._has_too_many:
            self._make_room(asked)

    def filled(self, supply: Supply) -> None:
        """Note that the filling of the supply's heap is complete, or that the heap was dropped."""
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

        The list exists only while heaps are being filled, as it would keep removed nodes in memory.
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


def fit_score(node: Node, items: Items) -> float:
    """Shortage of amounts on the node: 0.0 if it fits, up to 1.0 for each missing type."""
    score = 0.0
    for name, wanted in items:
        available = node.available.get(name, 0)
        if available <= 0:
            score += 1.0
        elif available < wanted:
            score += (wanted - available) / wanted
    return score


_KINDS = (Supply, ReservableSupply)


class Supplies:
    """The supplies in use.

    Supplies of one kind share a pool of nodes, which is retained even without supplies, so that a single ask
    need not create it again. Supplies for asks that require the same node share a pool as well.
    """

    __slots__ = ("_by_kind", "_free", "_pools", "changed", "made")

    def __init__(self) -> None:
        """Start empty."""
        self.made = 0
        """Number of supplies."""
        self._free: dict[AskClass | Shape, Supply] = {}
        self._by_kind: dict[type[Supply], dict[AskClass | Shape, Supply]]
        self._by_kind = {Supply: self._free, ReservableSupply: {}}
        self._pools: dict[tuple[type[Supply], NodeId | None], NodePool] = {}
        self.changed: dict[NodePool, None] = {}
        """Pools with changed nodes; they are notified when a node takes an ask."""

    def __iter__(self) -> Iterator[Supply]:
        """All supplies of both kinds."""
        for supplies in self._by_kind.values():
            yield from supplies.values()

    def get(self, wanted: AskClass | Shape) -> Supply:
        """The supply of nodes on which an ask may be placed; a new one if there is none."""
        return self._free.get(wanted) or self._add(Supply, wanted)

    def reservable(self, wanted: AskClass | Shape) -> ReservableSupply:
        """The supply of nodes that may be reserved; a new one if there is none."""
        supply = self._by_kind[ReservableSupply].get(wanted) or self._add(ReservableSupply, wanted)
        assert isinstance(supply, ReservableSupply)
        return supply

    def drop(self, wanted: AskClass | Shape) -> Sequence[Supply]:
        """Drop and return the supplies of a shape or class without asks."""
        dropped: list[Supply] = []
        for supplies in self._by_kind.values():
            supply = supplies.pop(wanted, None) if supplies else None
            if supply is not None:
                dropped.append(supply)
                self.made -= 1
                self._leave_pool(supply)
        return dropped

    def clear(self) -> None:
        """Forget all supplies."""
        self.made = 0
        for supplies in self._by_kind.values():
            supplies.clear()
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()
        self.changed.clear()

    # Changes of nodes

    def improved(self, node: Node) -> list[Blocker]:
        """Note a node that is new or has more room; return the blockers that may open."""
        found: list[Blocker] = []
        for kind in _KINDS:
            for required in (None, node.node_id):
                pool = self._pools.get((kind, required))
                if pool is not None:
                    found += pool.improved(node)
                    if pool.rooms:
                        self.changed[pool] = None
        return found

    def left(self, node: Node) -> None:
        """Drop a removed node."""
        for pool in self.changed:
            pool.left(node)

    def end_pass(self) -> None:
        """End the pass: no waiting item can use the nodes that have changed so far."""
        for pool in self.changed:
            pool.end_pass()
        self.changed.clear()

    # Pools

    def _add(self, kind: type[Supply], wanted: AskClass | Shape) -> Supply:
        required = wanted.required_node
        pool = self._pools.get((kind, required))
        if pool is None:
            pool = NodePool(kind.amounts, required=required is not None)
            self._pools[kind, required] = pool
        pool.supplies += 1
        self.made += 1
        supply = self._by_kind[kind][wanted] = kind(wanted, pool)
        return supply

    def _leave_pool(self, supply: Supply) -> None:
        pool = supply.nodes
        pool.supplies -= 1
        if not pool.supplies:
            self.changed.pop(pool, None)
            pool.close()
            if supply.wanted.required_node is not None:
                del self._pools[type(supply), supply.wanted.required_node]
