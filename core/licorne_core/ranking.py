"""Candidates in key order, with those put aside that nothing can be done for at the moment.

One ranking stands in every queue (over its children or applications) and in every application
(over its runs of asks). It gives the order of spec § 4.10, § 5.2 and § 5.3.2 without sorting:
changing a key costs one heap entry, and what is blocked is not looked at again until
a *gate* that blocks it has opened (performance: no re-trying of what nothing has changed for).
"""

from collections.abc import Collection, Hashable, Iterable, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, Generic, TypeVar

Key = tuple[Any, ...]
T = TypeVar("T", bound=Hashable)

_Entry = tuple[Key, int, T]
"""An item under its key; the number between them keeps items from being compared."""

_SLACK = 32


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
        "_guarded_by",
        "_guards",
        "_heap",
        "_made",
        "_parked",
        "_unguarded",
        "_woken",
        "parked_under",
    )

    def __init__(self) -> None:
        """Start empty."""
        self._made = 0
        self._woken = 0
        self.clear()

    def clear(self) -> None:
        """Forget all items; needed when keys of another shape are to come."""
        self._heap: list[_Entry[T]] = []
        self._active: dict[T, _Entry[T]] = {}
        self._parked: dict[T, _Entry[T]] = {}
        self._gates: dict[T, tuple[Hashable, ...]] = {}
        self._guards: dict[Hashable, _Entry[T]] = {}
        self._guarded_by: dict[T, list[Hashable]] = {}
        self._unguarded: list[Hashable] = []
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
        if self._guarded_by:
            self._relieve(item)
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
        self._relieve(item)

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
        self._relieve(item)
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

    def wake_opened(self, awake: Mapping[Hashable, object], opened: int) -> None:
        """Make active what may be looked at again, as the gates `awake` are open.

        `opened` counts what was opened so far. As long as nothing more was, only the gates are
        looked at whose guard has been dealt with: many may be open, and few concern this ranking.
        """
        if self._woken == opened:
            gates = [gate for gate in self._unguarded if gate in awake]
        else:
            self._woken = opened
            # In an order that does not depend on hashes: a turn must always end at the same try.
            parked = self.parked_under
            few, many = (awake, parked) if len(awake) < len(parked) else (parked, awake)
            gates = [gate for gate in few if gate in many]
        self._unguarded.clear()
        self.wake(gates)

    def wake(self, gates: Iterable[Hashable]) -> None:
        """Make the first item parked under each of the gates active again.

        The first item is enough: nothing behind it comes
        before it, and the ranking is woken again before anything behind it is looked at. As
        long as it has not been dealt with it stands *guard*, and nothing more is woken. With a, b
        and c parked under a gate that opens: a is woken; asked again with a still first, nothing
        is; once a was served or parked again, b is, unless the gate has shut.
        """
        active = self._active
        parked = self._parked
        for gate in gates:
            waiting = self.parked_under.get(gate)
            if waiting is None:
                continue
            heap = waiting.heap
            while parked.get(heap[0][2]) is not heap[0]:
                heappop(heap)
            guard = self._guards.get(gate)
            if guard is not None and active.get(guard[2]) is guard and guard < heap[0]:
                continue
            entry = heappop(heap)
            self._unpark(entry[2])
            active[entry[2]] = entry
            heappush(self._heap, entry)
            if gate in self.parked_under:
                self._guards[gate] = entry
                self._guarded_by.setdefault(entry[2], []).append(gate)

    def wake_all(self) -> None:
        """Make every parked item active again."""
        for item, entry in self._parked.items():
            self._active[item] = entry
            heappush(self._heap, entry)
        self._parked.clear()
        self._gates.clear()
        self._guards.clear()
        self._guarded_by.clear()
        self._unguarded.clear()
        self.parked_under.clear()

    def gates(self) -> Collection[Hashable]:
        """The gates that something is parked under."""
        return self.parked_under.keys()

    def is_parked(self, item: T) -> bool:
        """Whether the item waits for a gate."""
        return item in self._parked

    def _relieve(self, item: T) -> None:
        """The item was dealt with: if it stood guard, what is behind it may be woken."""
        gates = self._guarded_by.pop(item, None)
        if gates:
            self._unguarded += gates

    def _unpark(self, item: T) -> None:
        """Forget that the item waits; a gate that nothing waits for any more is forgotten too."""
        del self._parked[item]
        for gate in self._gates.pop(item):
            waiting = self.parked_under[gate]
            waiting.count -= 1
            if not waiting.count:
                del self.parked_under[gate]
                self._guards.pop(gate, None)

    def ordered(self) -> list[T]:
        """All items by key, parked ones included; for reports."""
        return [item for _, _, item in sorted([*self._active.values(), *self._parked.values()])]
