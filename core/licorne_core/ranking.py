"""Candidates in key order, with those put aside that nothing can be done for at the moment.

One ranking stands in every queue (over its children or applications) and in every application
(over its runs of asks). It gives the order of spec § 4.10, § 5.2 and § 5.3.2 without sorting:
changing a key costs one heap entry, and what is blocked is not looked at again until
a *gate* that blocks it has opened (performance: no re-trying of what nothing has changed for).
"""

from collections.abc import Collection, Hashable, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, Generic, Protocol, TypeVar

Key = tuple[Any, ...]
T = TypeVar("T", bound=Hashable)

_Entry = tuple[Key, int, T]
"""An item under its key; the number between them keeps items from being compared."""

_SLACK = 32


class Openings(Protocol):
    """Which gates are open; `count` rises whenever one opens."""

    @property
    def opened(self) -> Mapping[Hashable, None]:
        """Those that are, as far as known, in an order that does not depend on hashes."""
        ...

    @property
    def count(self) -> int:
        """How often any has opened."""
        ...

    def is_open(self, gate: Hashable) -> bool:
        """Whether the gate is open when looked at closely; if not, it is not among them now."""
        ...


class _Waiting(Generic[T]):
    """What is parked under one gate: so many items, and a heap with theirs and stale entries."""

    __slots__ = ("count", "heap")

    def __init__(self) -> None:
        self.count = 0
        self.heap: list[_Entry[T]] = []


class Ranking(Generic[T]):
    """A heap of items by key, smallest first, that forgets stale entries when it meets them.

    Keys are tuples that end in something unique, so that the order never depends on who
    came first. An item is *active*, or *parked* under the gates that block it, or not here.
    """

    __slots__ = (
        "_active",
        "_gates",
        "_heads",
        "_heap",
        "_made",
        "_parked",
        "_seen",
        "parked_under",
    )

    def __init__(self) -> None:
        """Start empty."""
        self._made = 0
        self._seen = 0
        self.clear()

    def clear(self) -> None:
        """Forget all items; needed when keys of another shape are to come."""
        self._heap: list[_Entry[T]] = []
        self._active: dict[T, _Entry[T]] = {}
        self._parked: dict[T, _Entry[T]] = {}
        self._gates: dict[T, tuple[Hashable, ...]] = {}
        self._heads: list[tuple[_Entry[T], int, Hashable]] = []
        self.parked_under: dict[Hashable, _Waiting[T]] = {}

    def __len__(self) -> int:
        """All items, parked ones included."""
        return len(self._active) + len(self._parked)

    def __contains__(self, item: T) -> bool:
        """Whether the item is ranked, parked or not."""
        return item in self._active or item in self._parked

    def put(self, item: T, key: Key) -> None:
        """Rank the item under the key, whatever it had before; a parked item is active again."""
        before = self._active.get(item)
        if before is not None and before[0] == key:
            return
        if self._parked and item in self._parked:
            self._unpark(item)
        self._made += 1
        entry = self._active[item] = (key, self._made, item)
        heap = self._heap
        if before is not None and heap[0] is before:
            # Whoever was just served is on top: the usual case.
            heapreplace(heap, entry)
            return
        heappush(heap, entry)
        if len(heap) > _SLACK + 2 * len(self._active):
            self._heap = list(self._active.values())
            heapify(self._heap)

    def discard(self, item: T) -> None:
        """Take the item out, if it is in."""
        self._active.pop(item, None)
        if item in self._parked:
            self._unpark(item)

    def key(self, item: T) -> Key | None:
        """The key of an active item."""
        entry = self._active.get(item)
        return None if entry is None else entry[0]

    def top(self) -> T | None:
        """The active item with the smallest key."""
        heap = self._heap
        active = self._active
        while heap:
            entry = heap[0]
            item = entry[2]
            if active.get(item) is entry:
                return item
            heappop(heap)
        return None

    def park(self, item: T, gates: Collection[Hashable]) -> None:
        """Put an active item aside until one of the gates opens."""
        entry = self._active.pop(item)
        self._parked[item] = entry
        self._gates[item] = tuple(gates)
        for gate in gates:
            waiting = self.parked_under.get(gate)
            if waiting is None:
                waiting = self.parked_under[gate] = _Waiting()
            waiting.count += 1
            heappush(waiting.heap, entry)
            if len(waiting.heap) > _SLACK + 2 * waiting.count:
                parked = self._parked
                valid = {old[1]: old for old in waiting.heap if parked.get(old[2]) is old}
                waiting.heap = sorted(valid.values())

    def wake(self, gates: Openings) -> None:
        """Make the first item active that is parked under an open gate.

        Nothing, if an active item comes before it: nothing behind it comes before that one either,
        and the ranking is woken again before anything behind it is looked at. With a, b
        and c parked under a gate that opens: a is woken; asked again with a still first, nothing
        is; once a was served or parked again, b is, unless the gate has shut.
        """
        if self._seen != gates.count:
            self._find_heads(gates)
        heads = self._heads
        while heads:
            entry, place, gate = heads[0]
            if gate not in self.parked_under or gate not in gates.opened:
                heappop(heads)
                continue
            head = self._head(gate)
            if head is not entry:
                heapreplace(heads, (head, place, gate))
                continue
            self.top()
            if self._heap and self._heap[0] < entry:
                return
            if gates.is_open(gate):
                heappop(self.parked_under[gate].heap)
                self._unpark(entry[2])
                self._active[entry[2]] = entry
                heappush(self._heap, entry)
                return
            heappop(heads)

    def _find_heads(self, gates: Openings) -> None:
        """More gates are open: rank the first items that are parked under each."""
        self._seen = gates.count
        opened, parked = gates.opened, self.parked_under
        few, many = (opened, parked) if len(opened) < len(parked) else (parked, opened)
        both = [gate for gate in few if gate in many]
        self._heads = [(self._head(gate), place, gate) for place, gate in enumerate(both)]
        heapify(self._heads)

    def _head(self, gate: Hashable) -> _Entry[T]:
        """The first of what is parked under a gate; something has to be."""
        heap = self.parked_under[gate].heap
        while self._parked.get(heap[0][2]) is not heap[0]:
            heappop(heap)
        return heap[0]

    def wake_all(self) -> None:
        """Make every parked item active again."""
        for item, entry in self._parked.items():
            self._active[item] = entry
            heappush(self._heap, entry)
        self._parked.clear()
        self._gates.clear()
        self._heads.clear()
        self.parked_under.clear()

    def gates(self) -> Collection[Hashable]:
        """The gates that something is parked under."""
        return self.parked_under.keys()

    def is_parked(self, item: T) -> bool:
        """Whether the item waits for a gate."""
        return item in self._parked

    def _unpark(self, item: T) -> None:
        """Forget that the item waits; a gate that nothing waits for any more is forgotten too."""
        del self._parked[item]
        for gate in self._gates.pop(item):
            waiting = self.parked_under[gate]
            waiting.count -= 1
            if not waiting.count:
                del self.parked_under[gate]

    def ordered(self) -> list[T]:
        """All items by key, parked ones included; for reports."""
        return [item for _, _, item in sorted([*self._active.values(), *self._parked.values()])]
