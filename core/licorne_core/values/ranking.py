"""Ordered collections that drop stale entries lazily: rankings, and counts by priority.

Every queue has a ranking of its children or applications, and every application has one of its ask groups.
Rankings implement the orders of spec §§ 4.10, 5.2 and 5.3.2. A change of a key adds only one entry. An item
of a ranking is *active*, or *set aside* while it is blocked. Keys are tuples with a unique last field, so
that the order never depends on the order of arrival.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, Final, Generic, NamedTuple, TypeVar

from licorne_core.values.slices import in_runs

Key = tuple[Any, ...]
T = TypeVar("T", bound=Hashable)

_SLACK = 32

_make = tuple.__new__
"""Creates a named tuple in half the time; an allocation needs several."""


class Ranked(NamedTuple):
    """An item and its key. `serial` is unique, so that items are never compared with each other."""

    key: Key
    serial: int
    item: Any


class _Place:
    """Place of an item in a ranking.

    Each entry of the heap refers to a place, which determines whether the entry is valid. In compiled code
    the fields of a place are much cheaper than a dictionary: they save 3 to 8 % of the time of an allocation.
    """

    __slots__ = ("active", "entry", "item", "key", "serial")

    def __init__(self, item: Any, key: Key, serial: int) -> None:
        """Create an active item under its key."""
        self.item = item
        self.key = key
        self.serial = serial
        self.active = True
        self.entry: Ranked | None = None
        """The valid entry under this key, as returned to callers; None before the first call of `show`."""

    def rank(self) -> tuple[Key, int]:
        """Sort key of the place, unique in its ranking."""
        return self.key, self.serial

    def show(self) -> Ranked:
        """The valid entry, which the first call makes."""
        if self.entry is None:
            self.entry = _make(Ranked, (self.key, self.serial, self.item))
        return self.entry


_Entry = tuple[Key, int, _Place]
"""Entry of the heap: key, serial number, place. Equal serial numbers have the same place, so that
places are never compared."""


class Ranking(Generic[T]):
    """Active items by key, smallest first, and items set aside with their keys.

    Always true: the heap has an entry for every active item, with the serial number of its place; entries
    with other numbers are stale. `improved` has the entries whose key was lowered, the latest last, for
    callers with their own heap of this ranking's items. A `second` order has the same items, of which the
    same ones are active.
    """

    __slots__ = ("_active", "_heap", "_places", "_serial", "forgotten", "improved", "second")

    def __init__(self) -> None:
        """Start empty."""
        self._serial = 0
        self.forgotten = 0
        """Number of entries dropped from `improved`."""
        self.improved: list[Ranked] = []
        self._heap: list[_Entry] = []
        self._places: dict[T, _Place] = {}
        self._active = 0
        self.second: SecondOrder[T] | None = None
        """Another order of the items, which may be in force; it is set while there are no items."""

    @property
    def in_force(self) -> "Ranking[T]":
        """The items in the order that is in force."""
        second = self.second
        return second.ranking if second is not None and second.leads else self

    def orders(self) -> "tuple[Ranking[T], ...]":
        """This ranking, and its second order if there is one."""
        return (self,) if self.second is None else (self, self.second.ranking)

    def clear(self) -> None:
        """Remove all items, for example before keys of another kind are used."""
        if self.second is not None:
            self.second.clear()
        if not self._serial:
            return
        self._heap = []
        self._places = {}
        self._active = 0
        self.forgotten += len(self.improved) + 1
        self.improved = []

    def __len__(self) -> int:
        """Number of items, including those set aside."""
        return len(self._places)

    def __contains__(self, item: T) -> bool:
        """True if the item is ranked."""
        return item in self._places

    def put(self, item: T, key: Key) -> None:
        """Rank the item under the key, which replaces any earlier key, and activate it."""
        if self.second is not None:
            self.second.put(item)
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
                # The usual case: the item that was just served is on top.
                heapreplace(heap, (key, serial, place))
                return
        heappush(heap, (key, serial, place))
        if len(heap) > _SLACK + 2 * self._active:
            self._heap = [(one.key, one.serial, one) for one in self._places.values() if one.active]
            heapify(self._heap)

    def rekey(self, item: T, key: Key) -> None:
        """Change the key of a ranked item; an item that is set aside remains so."""
        place = self._places[item]
        if place.active:
            self.put(item, key)
        elif key != place.key:
            self._serial += 1
            is_lower = key < place.key
            place.key, place.serial, place.entry = key, self._serial, None
            if is_lower:
                self._note_improved(place)

    def items(self) -> list[T]:
        """All ranked items, including those set aside, in any order."""
        return list(self._places)

    def _note_improved(self, place: _Place) -> None:
        self.improved.append(place.show())
        if len(self.improved) > _SLACK + 2 * len(self):
            self.forgotten += len(self.improved)
            self.improved = []

    def discard(self, item: T) -> None:
        """Remove the item, if ranked."""
        if self.second is not None:
            self.second.discard(item)
        place = self._places.pop(item, None)
        if place is not None and place.active:
            place.active = False
            self._active -= 1

    def set_aside(self, item: T) -> None:
        """Set the item aside, if ranked, until it is put or activated again."""
        if self.second is not None:
            self.second.ranking.set_aside(item)
        place = self._places.get(item)
        if place is not None and place.active:
            place.active = False
            self._active -= 1

    def activate(self, item: T) -> None:
        """Activate the item, if ranked, under its key."""
        if self.second is not None:
            self.second.ranking.activate(item)
        place = self._places.get(item)
        if place is not None and not place.active:
            place.active = True
            self._active += 1
            heappush(self._heap, (place.key, place.serial, place))

    def entry(self, item: T) -> Ranked | None:
        """The valid entry of the item; None if it is not ranked."""
        place = self._places.get(item)
        return None if place is None else place.show()

    def is_active(self, item: T) -> bool:
        """True if the item is active."""
        place = self._places.get(item)
        return place is not None and place.active

    def has_only(self, item: T) -> bool:
        """True if the item is active and the only ranked item. Then its key is irrelevant."""
        return len(self._places) == 1 and self.is_active(item)

    def top(self) -> T | None:
        """The active item with the smallest key; None if no item is active."""
        heap = self._heap
        while heap:
            _, serial, place = heap[0]
            if place.active and place.serial == serial:
                first: T = place.item
                return first
            heappop(heap)
        return None

    def ordered(self) -> list[T]:
        """All items by key, including those set aside."""
        return [entry.item for entry in sorted([place.show() for place in self._places.values()])]

    def in_order(self) -> Iterator[T | None]:
        """The items of `ordered` one by one, after a None for each possible pause."""
        for place in in_runs(list(self._places.values()), key=_Place.rank):
            yield None if place is None else place.item


class SecondOrder(ABC, Generic[T]):
    """Another order of the items of a ranking, used while it is in force.

    The ranking notifies it of each item that it ranks, removes, sets aside or activates.
    """

    def __init__(self) -> None:
        """Start empty."""
        self.ranking: Ranking[T] = Ranking()

    @property
    @abstractmethod
    def leads(self) -> bool:
        """True while items are tried in this order."""

    @abstractmethod
    def key(self, item: T) -> Key:
        """Sort key of the item in this order, even if the item is not ranked."""

    def put(self, item: T) -> None:
        """Rank the item under its key in this order, and activate it."""
        self.ranking.put(item, self.key(item))

    def discard(self, item: T) -> None:
        """Remove the item, if ranked."""
        self.ranking.discard(item)

    def clear(self) -> None:
        """Remove all items."""
        self.ranking.clear()


INT32_MAX: Final = 2**31 - 1
INT32_MIN: Final = -(2**31)
NO_PRIORITY: Final = INT32_MIN
"""Priority of a queue without pending asks. Fences and offsets do not change it."""


def clamp_priority(value: int) -> int:
    """The value, saturated at int32."""
    return max(INT32_MIN, min(INT32_MAX, value))


class PriorityCounts:
    """Counts by priority. `top` is the highest counted priority, or NO_PRIORITY if there is none.

    The heap has every counted priority. Stale priorities are dropped from its top.
    """

    __slots__ = ("_counts", "_heap", "top")

    def __init__(self) -> None:
        """Start empty."""
        self._counts: dict[int, int] = {}
        self._heap: list[int] = []
        self.top = NO_PRIORITY

    def add(self, priority: int) -> bool:
        """Count one more; returns True if `top` has changed."""
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

    def add_all(self, others: "PriorityCounts") -> None:
        """Add the counts of `others`."""
        for priority, count in others._counts.items():
            self.add(priority)
            self._counts[priority] += count - 1

    def remove_all(self, others: "PriorityCounts") -> None:
        """Subtract the counts of `others`."""
        for priority, count in others._counts.items():
            self._counts[priority] -= count - 1
            self.remove(priority)

    def remove(self, priority: int) -> bool:
        """Count one less; returns True if `top` has changed."""
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
