"""Ordered collections that drop stale entries lazily: rankings, and the highest of many priorities.

One ranking stands in every queue (over its children or applications) and in every application (over its
ask groups). It gives the order of spec § 4.10, § 5.2 and § 5.3.2; a changed key costs one entry. An item is
*active*, or *set aside* because it is blocked at the moment, or not here. Keys are tuples that end in
something unique, so that the order never depends on order of arrival.
"""

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, Final, Generic, NamedTuple, TypeVar

from licorne_core.values.slices import in_runs

Key = tuple[Any, ...]
T = TypeVar("T", bound=Hashable)

_SLACK = 32

_make = tuple.__new__
"""Makes a named tuple in half the time; an allocation needs several."""


class Ranked(NamedTuple):
    """An item under a key; `serial` tells entries apart and keeps items from being compared."""

    key: Key
    serial: int
    item: Any


class _Place:
    """Place of an item in a ranking.

    Each entry of the heap leads to its place, which decides if the entry is valid. Compiled, a look
    at its fields is much cheaper than one into a dictionary, and 3 to 8 % of an allocation.
    """

    __slots__ = ("active", "entry", "item", "key", "serial")

    def __init__(self, item: Any, key: Key, serial: int) -> None:
        """Create an active item under its key."""
        self.item = item
        self.key = key
        self.serial = serial
        self.active = True
        self.entry: Ranked | None = None
        """Entry that callers hold for it under this key."""

    def rank(self) -> tuple[Key, int]:
        """Sort key of the place: no two have the same."""
        return self.key, self.serial

    def show(self) -> Ranked:
        """Return the valid entry, which is made on the first call."""
        if self.entry is None:
            self.entry = _make(Ranked, (self.key, self.serial, self.item))
        return self.entry


_Entry = tuple[Key, int, _Place]
"""Heap entry. Two with the same number lead to the same place, so that places are never ordered."""


class Ranking(Generic[T]):
    """The active items by key, smallest first, and those set aside with the key that they have.

    Always true: the heap has an entry for every active item, with the serial number of its place;
    entries with other numbers are stale. `improved` has the entries whose key became smaller, the
    latest last, for callers with a heap of their own over items of this ranking.
    """

    __slots__ = ("_active", "_heap", "_places", "_serial", "forgotten", "improved")

    def __init__(self) -> None:
        """Start empty."""
        self._serial = 0
        self.forgotten = 0
        """Number of entries that `improved` has lost."""
        self.improved: list[Ranked] = []
        self._heap: list[_Entry] = []
        self._places: dict[T, _Place] = {}
        self._active = 0

    def clear(self) -> None:
        """Forget all items; needed when keys of another shape are to come."""
        if not self._serial:
            # Nothing was ever put in.
            return
        self._heap = []
        self._places = {}
        self._active = 0
        self.forgotten += len(self.improved) + 1
        self.improved = []

    def __len__(self) -> int:
        """All items, those set aside included."""
        return len(self._places)

    def __contains__(self, item: T) -> bool:
        """True if the item is ranked."""
        return item in self._places

    def put(self, item: T, key: Key) -> None:
        """Rank the item under the key, whatever it had before; it is active now."""
        heap = self._heap
        self._serial += 1
        serial = self._serial
        place = self._places.get(item)
        if place is None:
            place = self._places[item] = _Place(item, key, serial)
            self._active += 1
        else:
            before = place.key
            is_later = before < key
            if place.active:
                if not is_later and key == before:
                    return
                was_first = heap[0][1] == place.serial
            else:
                place.active = True
                self._active += 1
                was_first = False
                is_later = is_later or key == before
            place.key = key
            place.serial = serial
            place.entry = None
            if not is_later:
                self._note_improved(place)
            if was_first:
                # The item just served is on top: the usual case.
                heapreplace(heap, (key, serial, place))
                return
        heappush(heap, (key, serial, place))
        if len(heap) > _SLACK + 2 * self._active:
            self._heap = [(one.key, one.serial, one) for one in self._places.values() if one.active]
            heapify(self._heap)

    def _note_improved(self, place: _Place) -> None:
        self.improved.append(place.show())
        if len(self.improved) > _SLACK + 2 * len(self):
            self.forgotten += len(self.improved)
            self.improved = []

    def discard(self, item: T) -> None:
        """Take the item out, if it is in."""
        place = self._places.pop(item, None)
        if place is not None and place.active:
            place.active = False
            self._active -= 1

    def set_aside(self, item: T) -> None:
        """Set the item aside until it is put or activated again."""
        place = self._places.get(item)
        if place is not None and place.active:
            place.active = False
            self._active -= 1

    def activate(self, item: T) -> None:
        """Activate the item, if it is ranked, under its key."""
        place = self._places.get(item)
        if place is not None and not place.active:
            place.active = True
            self._active += 1
            heappush(self._heap, (place.key, place.serial, place))

    def entry(self, item: T) -> Ranked | None:
        """The valid entry of an item that is ranked."""
        place = self._places.get(item)
        return None if place is None else place.show()

    def is_active(self, item: T) -> bool:
        """True if the item can be looked at."""
        place = self._places.get(item)
        return place is not None and place.active

    def has_only(self, item: T) -> bool:
        """True if the item is active, and no other one is ranked: then its key decides nothing."""
        return len(self._places) == 1 and self.is_active(item)

    def top(self) -> T | None:
        """The active item with the smallest key."""
        heap = self._heap
        while heap:
            _, serial, place = heap[0]
            if place.active and place.serial == serial:
                first: T = place.item
                return first
            heappop(heap)
        return None

    def ordered(self) -> list[T]:
        """All items by key, in one go."""
        return [entry.item for entry in sorted([place.show() for place in self._places.values()])]

    def in_order(self) -> Iterator[T | None]:
        """The same one by one. Before the first is a None wherever the reader may pause."""
        for place in in_runs(list(self._places.values()), key=_Place.rank):
            yield None if place is None else place.item


INT32_MAX: Final = 2**31 - 1
INT32_MIN: Final = -(2**31)
NO_PRIORITY: Final = INT32_MIN
"""The priority of a queue without pending asks; fences and offsets leave it as it is."""


def clamp_priority(value: int) -> int:
    """The value, or the end of int32 that it lies beyond."""
    return max(INT32_MIN, min(INT32_MAX, value))


class PriorityCounts:
    """Counts by priority. `top` is the highest that has a count, NO_PRIORITY for none.

    The heap has every counted priority. It may also have stale ones, which are dropped when they
    come to its top.
    """

    __slots__ = ("_counts", "_heap", "top")

    def __init__(self) -> None:
        """Start with none."""
        self._counts: dict[int, int] = {}
        self._heap: list[int] = []
        self.top = NO_PRIORITY

    def add(self, priority: int) -> bool:
        """Count one more; True when `top` changed."""
        counts = self._counts
        count = counts.get(priority)
        if count is not None:
            counts[priority] = count + 1
            return False
        counts[priority] = 1
        heappush(self._heap, -priority)
        if priority <= self.top:
            return False
        self.top = priority
        return True

    def remove(self, priority: int) -> bool:
        """Count one less; True when `top` changed."""
        counts = self._counts
        left = counts[priority] - 1
        if left:
            counts[priority] = left
            return False
        del counts[priority]
        heap = self._heap
        if len(heap) > _SLACK + 2 * len(counts):
            heap[:] = sorted(-known for known in counts)
        if priority != self.top:
            return False
        while heap and -heap[0] not in counts:
            heappop(heap)
        self.top = -heap[0] if heap else NO_PRIORITY
        return True
