"""Items in key order, without sorting: a heap that forgets stale entries when it meets them.

One ranking stands in every queue (over its children or applications) and in every application (over
its ask groups). It gives the order of spec § 4.10, § 5.2 and § 5.3.2; a changed key costs one
entry. An item is *active*, or *set aside* because nothing can be done for it at the moment
(`scheduling/waiting.py` says what it waits for), or not here. Keys are tuples that end in something
unique, so that the order never depends on who came first.
"""

from collections.abc import Hashable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, Generic, NamedTuple, TypeVar

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


class Ranking(Generic[T]):
    """The active items by key, smallest first, and those set aside with the key that they have.

    Always true: an item is in at most one of `_active` and `_aside`; the entry there is its valid
    one; every valid active entry is in the heap. `improved` has the entries whose key became
    smaller, the latest last: whoever keeps items of this ranking in a heap of its own reads them.
    """

    __slots__ = ("_active", "_aside", "_heap", "_serial", "forgotten", "improved")

    def __init__(self) -> None:
        """Start empty."""
        self._serial = 0
        self.forgotten = 0
        """How many entries `improved` has lost."""
        self.improved: list[Ranked] = []
        self._heap: list[Ranked] = []
        self._active: dict[T, Ranked] = {}
        self._aside: dict[T, Ranked] = {}

    def clear(self) -> None:
        """Forget all items; needed when keys of another shape are to come."""
        if not self._serial:
            # Nothing was ever put in.
            return
        self._heap = []
        self._active = {}
        self._aside = {}
        self.forgotten += len(self.improved) + 1
        self.improved = []

    def __len__(self) -> int:
        """All items, those set aside included."""
        return len(self._active) + len(self._aside)

    def __contains__(self, item: T) -> bool:
        """Whether the item is ranked."""
        return item in self._active or item in self._aside

    def put(self, item: T, key: Key) -> None:
        """Rank the item under the key, whatever it had before; it is active now."""
        self._serial += 1
        entry = _make(Ranked, (key, self._serial, item))
        heap = self._heap
        before = self._active.get(item)
        if before is not None:
            if key == before.key:
                return
            self._active[item] = entry
            if key < before.key:
                self._note_improved(entry)
            elif heap[0].serial == before.serial:
                # Whoever was just served is on top: the usual case.
                heapreplace(heap, entry)
                return
        else:
            self._active[item] = entry
            aside = self._aside.pop(item, None)
            if aside is not None and key < aside.key:
                self._note_improved(entry)
        heappush(heap, entry)
        if len(heap) > _SLACK + 2 * len(self._active):
            self._heap = list(self._active.values())
            heapify(self._heap)

    def _note_improved(self, entry: Ranked) -> None:
        self.improved.append(entry)
        if len(self.improved) > _SLACK + 2 * len(self):
            self.forgotten += len(self.improved)
            self.improved = []

    def discard(self, item: T) -> None:
        """Take the item out, if it is in."""
        if self._active.pop(item, None) is None:
            self._aside.pop(item, None)

    def set_aside(self, item: T) -> None:
        """Nothing can be done for the item until it is put or activated again."""
        entry = self._active.pop(item, None)
        if entry is not None:
            self._aside[item] = entry

    def activate(self, item: T) -> None:
        """Something can be done for the item, if it is ranked: it is active under its key."""
        entry = self._aside.pop(item, None)
        if entry is not None:
            self._active[item] = entry
            heappush(self._heap, entry)

    def entry(self, item: T) -> Ranked | None:
        """The valid entry of an item that is ranked."""
        return self._active.get(item) or self._aside.get(item)

    def is_active(self, item: T) -> bool:
        """Whether the item can be looked at."""
        return item in self._active

    def has_only(self, item: T) -> bool:
        """Whether the item is active, and no other one is ranked: then its key decides nothing."""
        return len(self._active) == 1 and not self._aside and item in self._active

    def top(self) -> T | None:
        """The active item with the smallest key."""
        heap = self._heap
        active = self._active
        while heap:
            _, serial, item = heap[0]
            known = active.get(item)
            if known is not None and known.serial == serial:
                first: T = item
                return first
            heappop(heap)
        return None

    def ordered(self) -> list[T]:
        """All items by key; for reports."""
        return [entry.item for entry in sorted([*self._active.values(), *self._aside.values()])]
