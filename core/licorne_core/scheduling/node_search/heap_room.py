"""Bounds on heaps of supplies: in number and in entries.

The least recently used heap gives way. It is filled anew when it is needed again.
"""

from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.waiting.supply import Supply, SupplyHeap

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

    __slots__ = ("_entries", "_filling", "_listed", "_nodes", "_uses", "supplies")

    def __init__(self, nodes: NodeBook) -> None:
        """Start without heaps, to be made of these nodes."""
        self._nodes = nodes
        self._uses = 0
        self._entries = 0
        self._filling: dict[Supply, None] = {}
        self._listed: tuple[tuple[int, int], list[Node]] | None = None
        self.supplies: dict[Supply, None] = {}
        """Supplies with a heap, in the order in which they got it."""

    def add(self, supply: Supply, heap: SupplyHeap) -> None:
        """The supply begins with a heap, which is to be filled; others make room."""
        while len(self._filling) >= MAX_FILLING:
            self.drop(next(iter(self._filling)))
        supply.heap = heap
        self.used(heap)
        self.supplies[supply] = self._filling[supply] = None
        if len(self.supplies) > MAX_HEAPS:
            self._make_room(supply)

    def used(self, heap: SupplyHeap) -> None:
        """Note a use of the heap."""
        self._uses += 1
        heap.used = self._uses

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
        """Drop half of the other heaps, and more as long as there are too many entries."""
        by_use = sorted(
            (s for s in self.supplies if s is not asked),
            key=lambda s: s.heap.used if s.heap else 0,
        )
        half = by_use[: (len(by_use) + 1) // 2]
        for supply in half:
            self.drop(supply)
        for supply in by_use[len(half) :]:
            if not self._has_too_many:
                return
            self.drop(supply)
