"""What comes before the regular pass: reserved asks, and applications that replace placeholders.

Items are tried when something has changed for them. One that was tried in vain is set aside with
what is in its way. Those that are ready stand in rankings of their own, one for each queue that
leads to them: so a decision costs the same however many are ready.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from licorne_core.queues.queue import Queue
from licorne_core.ranking import Key, Ranking
from licorne_core.scheduling.blockers import Blocker
from licorne_core.scheduling.order import queue_key

T = TypeVar("T")


class Foremost(ABC, Generic[T]):
    """Items of one kind; those that are `ready` are worth a try.

    Always true: every ready item is in `_new`, or else it is ranked in its leaf, and each queue
    that leads to it in its parent. `Changes` tells of every key that changes.
    """

    __slots__ = ("_blockers", "_new", "_rankings", "ready")

    def __init__(self) -> None:
        """None yet."""
        self._blockers: dict[T, tuple[Blocker, ...]] = {}
        self._rankings: dict[Queue, Ranking[Any]] = {}
        self._new: dict[T, None] = {}
        self.ready: dict[T, None] = {}

    @abstractmethod
    def leaf(self, item: T) -> Queue:
        """The leaf that it is in, always the same as long as it is ready."""

    @abstractmethod
    def key(self, item: T) -> Key:
        """Its place in its leaf."""

    def blockers(self, item: T) -> tuple[Blocker, ...]:
        """What is in its way, if it was tried in vain."""
        return self._blockers.get(item, ())

    def wake(self, items: Iterable[T]) -> None:
        """Something changed for them: they are worth a try."""
        for item in items:
            if item not in self.ready:
                self.unblock(item)
                self.ready[item] = None
                self._new[item] = None

    def park(self, item: T, blockers: Iterable[Blocker]) -> None:
        """It was tried in vain, and waits for any of these, or for somebody else to wake it."""
        self.set_aside(item)
        found = tuple(blockers)
        if found:
            self._blockers[item] = found
            for blocker in found:
                blocker.foremost[item] = self

    def first(self, root: Queue, types: tuple[str, ...]) -> T:
        """The first of those ready; all keys are up to date."""
        if self._new:
            for item in self._new:
                self._enter(item, types)
            self._new.clear()
        found: Any = root
        while isinstance(found, Queue):
            found = self._rankings[found].top()
        first: T = found
        return first

    def set_aside(self, item: T) -> None:
        """It is not ready any more."""
        if self.ready.pop(item, self) is self or self._new.pop(item, self) is None:
            return
        member: T | Queue = item
        for queue in self.leaf(item).lineage:
            ranking = self._rankings[queue]
            ranking.discard(member)
            if ranking:
                return
            del self._rankings[queue]
            member = queue

    def unblock(self, item: T) -> None:
        """It waits for its blockers no more."""
        for blocker in self._blockers.pop(item, ()):
            del blocker.foremost[item]
            if blocker.blocks_nobody:
                blocker.retire()

    def key_changed(self, item: T) -> None:
        """Its place in its leaf may be another one."""
        if item in self.ready and item not in self._new:
            self._rankings[self.leaf(item)].put(item, self.key(item))

    def queue_key_changed(self, queue: Queue, key: Key) -> None:
        """The queue has this place among its siblings now."""
        if queue.parent is not None and queue in self._rankings:
            self._rankings[queue.parent].put(queue, key)

    def everything_changed(self) -> None:
        """Keys may even be of another form: they are all derived anew."""
        self._rankings.clear()
        self._new = dict(self.ready)

    def _enter(self, item: T, types: tuple[str, ...]) -> None:
        """Rank it in its leaf, and the queues that lead to it."""
        member: T | Queue = item
        key = self.key(item)
        for queue in self.leaf(item).lineage:
            ranking = self._rankings.get(queue)
            is_new = ranking is None
            if ranking is None:
                ranking = self._rankings[queue] = Ranking()
            ranking.put(member, key)
            if not is_new or queue.parent is None:
                return
            member = queue
            priority_sort = queue.parent.settings.priority_sort
            key = queue_key(queue, priority_sort=priority_sort, types=types)
