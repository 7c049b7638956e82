"""Priority pass: reserved asks, and applications that replace placeholders.

They come before the regular pass. An item is tried when something has changed for it. One that was
tried in vain is set aside with its blockers. Ready items stand in rankings of their own, one for
each queue, or application, that leads to them: so a decision costs the same however many are ready,
and a key that changes is that of one entry.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

from licorne_core.model.apps.application import Application
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.order import app_key, queue_key
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.values.ranking import Key, Ranking

T = TypeVar("T")


class PriorityPass(ABC, Generic[T]):
    """Items of one kind; those that are `ready` are worth a try.

    Always true: every ready item is in `_new`, or else it is ranked in the first of its `way`, and
    each of these in the one behind it. `Changes` tells of every key that changes.
    """

    __slots__ = ("_blockers", "_new", "_rankings", "ready")

    def __init__(self) -> None:
        """Start empty."""
        self._blockers: dict[T, tuple[Blocker, ...]] = {}
        self._rankings: dict[Queue | Application, Ranking[Any]] = {}
        self._new: dict[T, None] = {}
        self.ready: dict[T, None] = {}

    @abstractmethod
    def way(self, item: T) -> Sequence[Queue | Application]:
        """Path from the item's parent up to root; the same as long as it is ready."""

    @abstractmethod
    def key(self, item: T) -> Key:
        """Key of the item in its parent."""

    def blockers(self, item: T) -> tuple[Blocker, ...]:
        """Blockers of the item, if it was tried in vain."""
        return self._blockers.get(item, ())

    def wake(self, items: Iterable[T]) -> None:
        """Note that something changed for the items: they are worth a try."""
        for item in items:
            if item not in self.ready:
                self.unblock(item)
                self.ready[item] = None
                self._new[item] = None

    def park(self, item: T, blockers: Iterable[Blocker]) -> None:
        """Set an item aside after a failed try, until a blocker or a caller wakes it."""
        self.set_aside(item)
        found = tuple(blockers)
        if found:
            self._blockers[item] = found
            for blocker in found:
                blocker.watch(item, self)

    def first(self, root: Queue, types: tuple[str, ...]) -> T:
        """The first of those ready; all keys are up to date."""
        if self._new:
            for item in self._new:
                self._enter(item, types)
            self._new.clear()
        found: Any = root
        while found in self._rankings:
            found = self._rankings[found].top()
        first: T = found
        return first

    def set_aside(self, item: T) -> None:
        """Note that the item is not ready any more."""
        if self.ready.pop(item, self) is self or self._new.pop(item, self) is None:
            return
        member: T | Queue | Application = item
        for place in self.way(item):
            ranking = self._rankings[place]
            ranking.discard(member)
            if ranking:
                return
            del self._rankings[place]
            member = place

    def unblock(self, item: T) -> None:
        """Remove the item from its blockers."""
        for blocker in self._blockers.pop(item, ()):
            blocker.unwatch(item)
            if blocker.is_unused:
                blocker.retire()

    @abstractmethod
    def app_key_changed(self, app: Application) -> None:
        """The application's place in its leaf may be another one."""

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
        member: T | Queue | Application = item
        key = self.key(item)
        for place in self.way(item):
            ranking = self._rankings.get(place)
            is_new = ranking is None
            if ranking is None:
                ranking = self._rankings[place] = Ranking()
            ranking.put(member, key)
            if not is_new:
                return
            member = place
            if isinstance(place, Application):
                key = app_key(place, place.leaf)
            elif place.parent is not None:
                priority_sort = place.parent.settings.priority_sort
                key = queue_key(place, priority_sort=priority_sort, types=types)
