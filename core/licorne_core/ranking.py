"""Candidates in key order, with those put aside that nothing can be done for at the moment.

One ranking stands in every queue (over its children or applications) and in every application
(over its runs of asks). It gives the order of spec § 4.10, § 5.2 and § 5.3.2 without sorting:
changing a key costs one heap entry, and what is blocked is not looked at again until
a *gate* that blocks it has opened (performance: no re-trying of what nothing has changed for).
"""

from collections.abc import Collection, Hashable, Iterable
from heapq import heapify, heappop, heappush
from typing import Any, Generic, TypeVar

Key = tuple[Any, ...]
T = TypeVar("T", bound=Hashable)

_SLACK = 32


class Ranking(Generic[T]):
    """A heap of items by key, smallest first, that forgets stale entries when it meets them.

    Keys are tuples that end in something unique, so that two items never tie. An item is
    *active*, or *parked* under the gates that block it, or not in the ranking.
    """

    __slots__ = ("_active", "_heap", "_parked", "parked_under")

    def __init__(self) -> None:
        """Start empty."""
        self._heap: list[tuple[Key, T]] = []
        self._active: dict[T, Key] = {}
        self._parked: dict[T, Key] = {}
        self.parked_under: dict[Hashable, list[tuple[Key, T]]] = {}

    def __len__(self) -> int:
        """All items, parked ones included."""
        return len(self._active) + len(self._parked)

    def __contains__(self, item: T) -> bool:
        """Whether the item is ranked, parked or not."""
        return item in self._active or item in self._parked

    def put(self, item: T, key: Key) -> None:
        """Rank the item under the key, whatever it had before; a parked item is active again."""
        if self._active.get(item) == key:
            return
        if self._parked:
            self._parked.pop(item, None)
        self._active[item] = key
        heap = self._heap
        heappush(heap, (key, item))
        if len(heap) > _SLACK + 2 * len(self._active):
            self._heap = [(key, item) for item, key in self._active.items()]
            heapify(self._heap)

    def discard(self, item: T) -> None:
        """Take the item out, if it is in."""
        self._active.pop(item, None)
        self._parked.pop(item, None)

    def top(self) -> T | None:
        """The active item with the smallest key."""
        heap = self._heap
        active = self._active
        while heap:
            key, item = heap[0]
            if active.get(item) is key:
                return item
            heappop(heap)
        return None

    def park(self, item: T, gates: Collection[Hashable]) -> None:
        """Put an active item aside until one of the gates opens."""
        key = self._active.pop(item)
        self._parked[item] = key
        for gate in gates:
            waiting = self.parked_under.setdefault(gate, [])
            heappush(waiting, (key, item))
            if len(waiting) > _SLACK + 2 * len(self._parked):
                self.parked_under[gate] = sorted(
                    {
                        item: (key, item) for key, item in waiting if self._parked.get(item) is key
                    }.values()
                )

    def wake(self, gates: Iterable[Hashable]) -> None:
        """Make the first item parked under each of the gates active again.

        The first is enough: as long as it is not served nothing behind it could be, and the
        ranking is asked again before the next decision.
        """
        for gate in gates:
            waiting = self.parked_under.get(gate)
            while waiting:
                key, item = heappop(waiting)
                if self._parked.get(item) is key:
                    del self._parked[item]
                    self._active[item] = key
                    heappush(self._heap, (key, item))
                    break
            if not waiting:
                self.parked_under.pop(gate, None)

    def wake_all(self) -> None:
        """Make every parked item active again."""
        for item, key in self._parked.items():
            self._active[item] = key
            heappush(self._heap, (key, item))
        self._parked.clear()
        self.parked_under.clear()

    def gates(self) -> Collection[Hashable]:
        """The gates that something is parked under, stale ones perhaps among them."""
        return self.parked_under.keys()

    def ordered(self) -> list[T]:
        """All items by key, parked ones included; for reports."""
        return sorted({**self._active, **self._parked}, key=self._key_of)

    def _key_of(self, item: T) -> Key:
        key = self._active.get(item)
        return self._parked[item] if key is None else key
