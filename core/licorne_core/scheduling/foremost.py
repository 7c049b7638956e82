"""What comes before the regular pass: reserved asks, and applications that replace placeholders.

Items are tried when something has changed for them. One that was tried in vain is set aside with
what is in its way. Those that are ready are compared by the keys of their queues from root down.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, Generic, NamedTuple, TypeVar

from licorne_core.queues.queue import Queue
from licorne_core.ranking import Key
from licorne_core.scheduling.blockers import Blocker
from licorne_core.scheduling.order import queue_key

T = TypeVar("T")

_SLACK = 32


class _Entry(NamedTuple):
    key: Key
    serial: int
    item: Any


class Foremost(ABC, Generic[T]):
    """Items of one kind; those that are `ready` are worth a try.

    Always true: every ready item is in `_new` or in the heap, unless the heap is `stale`.
    """

    __slots__ = ("_blockers", "_heap", "_new", "_serial", "ready", "stale")

    def __init__(self) -> None:
        """None yet. `stale`: a key may have become smaller, so the heap has to be made anew."""
        self._blockers: dict[T, tuple[Blocker, ...]] = {}
        self._heap: list[_Entry] = []
        self._new: dict[T, None] = {}
        self._serial = 0
        self.ready: dict[T, None] = {}
        self.stale = False

    @abstractmethod
    def key(self, item: T, types: tuple[str, ...]) -> Key:
        """Its place: the keys of its queues from root, and what is behind them."""

    def blockers(self, item: T) -> tuple[Blocker, ...]:
        """What is in its way, if it was tried in vain."""
        return self._blockers.get(item, ())

    def wake(self, items: Iterable[T]) -> None:
        """Something changed for them: they are worth a try."""
        for item in items:
            self.unblock(item)
            if item not in self.ready:
                self.ready[item] = None
                self._new[item] = None

    def moved_up(self, items: Iterable[T]) -> None:
        """The keys of these, which are ready, may have become smaller.

        Each gets another entry. When there are too many entries, the heap is made anew.
        """
        self._new.update(dict.fromkeys(items))
        if len(self._heap) + len(self._new) > _SLACK + 2 * len(self.ready):
            self.stale = True

    def park(self, item: T, blockers: Iterable[Blocker]) -> None:
        """It was tried in vain, and waits for any of these, or for somebody else to wake it."""
        self.set_aside(item)
        found = tuple(blockers)
        if found:
            self._blockers[item] = found
            for blocker in found:
                blocker.foremost[item] = self

    def first(self, types: tuple[str, ...]) -> T:
        """The first of those ready."""
        if self.stale:
            self._new = dict(self.ready)
            self._heap = []
            self.stale = False
        for item in self._new:
            heappush(self._heap, self._entry(item, types))
        self._new.clear()
        heap = self._heap
        while True:
            entry = heap[0]
            item = entry.item
            if item not in self.ready:
                heappop(heap)
                continue
            # A key that has become larger is noticed here.
            now = self._entry(item, types)
            if now.key == entry.key:
                found: T = item
                return found
            heapreplace(heap, now)

    def set_aside(self, item: T) -> None:
        """It is not ready any more."""
        if self.ready.pop(item, self) is None:
            self._new.pop(item, None)
            if len(self._heap) > _SLACK + 2 * len(self.ready):
                self._heap = [entry for entry in self._heap if entry.item in self.ready]
                heapify(self._heap)

    def unblock(self, item: T) -> None:
        """It waits for its blockers no more."""
        for blocker in self._blockers.pop(item, ()):
            del blocker.foremost[item]
            if blocker.blocks_nobody:
                blocker.retire()

    def _entry(self, item: T, types: tuple[str, ...]) -> _Entry:
        self._serial += 1
        return _Entry(self.key(item, types), self._serial, item)


def queue_keys(leaf: Queue, types: tuple[str, ...]) -> list[Key]:
    """The keys of a leaf and the queues above it, from root down."""
    return [
        queue_key(queue, priority_sort=queue.parent.settings.priority_sort, types=types)
        for queue in reversed(leaf.lineage)
        if queue.parent is not None
    ]
