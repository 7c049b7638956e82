"""Blockers: obstacles to ask groups or applications, each with one test.

`lets_through` tests if a blocked item would pass now. A blocker knows its blocked items:
`scheduling/waiting/waiting.py` adds them to its waiting lines and removes them. `Blockers` finds the blockers
that depend on a changed object.
"""

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import TaskGroup
from licorne_core.model.queues.queue import Queue, QueueState
from licorne_core.model.queues.users import UserApps
from licorne_core.model.quotas import Quota, may_run_one_more
from licorne_core.scheduling.node_search.node_heap import FittingIndex
from licorne_core.scheduling.waiting.waiting_line import Amounts, LineOwner, WaitingLine, lower
from licorne_core.values.ids import PartitionName
from licorne_core.values.ranking import Ranking
from licorne_core.values.resources import Items

T = TypeVar("T")


class Blocker(LineOwner):
    """Obstacle to the items that wait for it.

    `waiting_lines` has, for each ranking from root to waiting items, the items that lead to them;
    `waiting` is the number of waiting items. `priority_pass` has the items of the priority pass
    that wait for it, each with its collection (`scheduling/order.py`).
    """

    __slots__ = ("items", "priority_pass", "waiting", "waiting_lines")

    def __init__(self, items: Items = ()) -> None:
        """Start without blocked items. `items` are the scarce amounts."""
        super().__init__()
        self.items = items
        self.waiting_lines: dict[Ranking[Any], WaitingLine] = {}
        self.priority_pass: dict[Any, Any] = {}
        self.waiting = 0

    @property
    def owner(self) -> "Blocker":
        """Owner of the waiting lines of this blocker's items."""
        return self

    def lets_through(self) -> bool:
        """True if one of the waiting items would pass now; each kind of blocker defines it."""
        return True

    def open(self) -> None:
        """Note a change that may let an item through."""
        self.changes += 1

    def shut(self) -> None:
        """Note a failed try of one of its items."""

    def is_noted(self, wanted: Items, top: Ranking[Any]) -> None:
        """Note the first item, or one with a smaller request; `top` is the ranking of root's children."""

    def watch(self, item: Any, collection: Any) -> None:
        """Let an item of the priority pass wait; `collection` is the item's collection."""
        self.priority_pass[item] = collection

    def unwatch(self, item: Any) -> None:
        """Remove an item of the priority pass."""
        del self.priority_pass[item]

    def end_pass(self) -> None:
        """End the pass: no waiting item could pass."""

    def retire(self) -> None:
        """Forget the blocker: no item waits for it any more."""

    def retire_if_unused(self) -> None:
        """Forget a new blocker that no item waits for."""
        if self.is_unused:
            self.retire()

    def that_may_open(self) -> "list[Blocker]":
        """Return the blockers that may let an item through after a change of the object: itself or none."""
        return [self] if not self.is_unused and self.lets_through() else []

    @property
    def is_unused(self) -> bool:
        """True if no item waits for it."""
        return not (self.waiting or self.priority_pass)


class Pool(Blocker):
    """Scarce resource requested in many sizes: room on nodes, or under a maximum.

    Each size has a `Shortage`. All their items are in the waiting lines of the pool, so that a
    change costs nothing for the sizes that it does not help. Always true: no waiting item wants
    less than `least`; it is None without waiting items.
    """

    __slots__ = ("least", "top", "watched")

    def __init__(self) -> None:
        """Start without waiting items."""
        super().__init__()
        self.least: Amounts | None = None
        self.top: Ranking[Any] | None = None
        """Ranking of root's children, from whose waiting line all items are reached."""
        self.watched = FittingIndex()
        """Shortages with items of the priority pass."""

    def lets_through(self) -> bool:
        """True if one of the waiting items may pass."""
        return self.least is not None and self.may_fit(self.least)

    def is_noted(self, wanted: Items, top: Ranking[Any]) -> None:
        """Note the first item, or one with a smaller request; `top` is the ranking of root's children."""
        self.top = top
        self.lower(wanted)

    def wanted_by(self, item: Any) -> Items:
        """Least amounts of the waiting items that this item leads to."""
        if isinstance(item, Queue | UserApps | Application):
            ranking = item.ranking if item.ranking.second is None else item.ranking.in_force
            return tuple(self.waiting_lines[ranking].least().items())
        shortage: Shortage = item.blocker
        return shortage.items

    def passes(self, item: Any) -> bool:
        """True if a waiting item that this item leads to would pass."""
        if isinstance(item, Queue | UserApps | Application):
            ranking = item.ranking if item.ranking.second is None else item.ranking.in_force
            inside = self.waiting_lines.get(ranking)
            return inside is not None and inside.first(ranking) is not None
        shortage: Shortage = item.blocker
        return shortage.lets_through()

    def lower(self, items: Items) -> None:
        """Lower `least`, because an item with a request for these amounts may wait."""
        if self.least is None:
            self.least = dict(items)
        elif self.least:
            lower(self.least, items)

    def end_pass(self) -> None:
        """End the pass: raise `least` to the least amounts of the present items."""
        if not len(self.watched):
            waiting_line = None if self.top is None else self.waiting_lines.get(self.top)
            self.least = None if waiting_line is None else waiting_line.least()


class Shortage(Blocker):
    """There is too little in a pool for these amounts."""

    __slots__ = ("pool", "shut_at")

    def __init__(self, pool: Pool, items: Items) -> None:
        """Create a shortage of the pool."""
        super().__init__(items)
        self.pool = pool
        self.waiting_lines = pool.waiting_lines
        self.shut_at = -1

    @property
    def owner(self) -> Blocker:
        """Owner of the waiting lines: the pool, for all its shortages."""
        return self.pool

    def lets_through(self) -> bool:
        """True if there is enough now, and no try has failed since the pool changed."""
        return self.shut_at != self.pool.changes and self.is_covered()

    def shut(self) -> None:
        """Note a failed try of one of its items."""
        self.shut_at = self.pool.changes

    def is_covered(self) -> bool:
        """True if there is enough now."""
        raise NotImplementedError

    def watch(self, item: Any, collection: Any) -> None:
        """Add the item; add the shortage to the watched shortages of the pool."""
        if not self.priority_pass:
            self.pool.watched.add(self)
            self.pool.lower(self.items)
        super().watch(item, collection)

    def unwatch(self, item: Any) -> None:
        """Remove an item of the priority pass."""
        super().unwatch(item)
        if not self.priority_pass:
            self.pool.watched.remove(self)


class OfThing(Blocker):
    """A blocker that depends on one object; it exists as long as items wait."""

    __slots__ = ("_all", "thing")

    def __init__(self, thing: Any, blockers: "Blockers") -> None:
        """Create the blocker of the object, without waiting items."""
        super().__init__()
        self.thing = thing
        self._all = blockers

    def retire(self) -> None:
        """Remove the blocker from `Blockers`."""
        self._all.drop(type(self), self.thing)


class Timed(OfThing):
    """Blocks asks until a time that is known (`Extension.opens`), whatever else changes."""

    __slots__ = ()


class RunningLimit(OfThing):
    """The limit of a queue, a user or a group on running applications is reached (spec §§ 4.12, 10.5)."""

    __slots__ = ()

    @property
    def quota(self) -> Quota:
        """The queue, user or group."""
        quota: Quota = self.thing
        return quota

    def lets_through(self) -> bool:
        """True if another application may start."""
        return may_run_one_more(self.quota)


class StoppedQueue(OfThing):
    """An operator has stopped a queue: no ask in it or its descendants is tried (spec § 4.2).

    The regular pass does not enter the queue, so only items of the priority pass wait for this.
    """

    __slots__ = ()

    def lets_through(self) -> bool:
        """True if the queue was started again."""
        queue: Queue = self.thing
        return queue.state is not QueueState.STOPPED


class OpenPlaceholders(OfThing):
    """Real asks of a task group wait to replace its placeholders, or for their end (§ 6.4)."""

    __slots__ = ()

    def lets_through(self) -> bool:
        """True if no placeholder is open."""
        task_group: TaskGroup = self.thing
        return not task_group.open


class FullRoot(OfThing):
    """Root lacks headroom for asks that require a node, even without the victims on that node (spec § 9.5).

    This happens while other nodes are allocated beyond their capacity. Any change of root's headroom may
    help.
    """

    __slots__ = ()


class Blockers:
    """The blockers of a partition by kind, and by the object that each depends on.

    Always true: blockers that extend `OfThing` are here only while they have waiting items.
    """

    def __init__(self, partition: PartitionName) -> None:
        """Start empty."""
        self.partition = partition
        self._by_kind: dict[Any, dict[Any, Any]] = {}

    def get(self, kind: type[T], thing: Any, *parts: Any) -> T:
        """The blocker of the kind for the object; a new one if there is none.

        `parts` are further arguments of the kind's constructor.
        """
        known: T | None = self.of(kind).get(thing)
        if known is None:
            make: Any = kind
            known = self._by_kind.setdefault(kind, {})[thing] = make(thing, self, *parts)
        return known

    def of(self, kind: type[T]) -> Mapping[Any, T]:
        """All blockers of the kind, by the objects that they depend on."""
        return self._by_kind.get(kind, {})

    def like(self, kind: type[T]) -> list[T]:
        """All blockers of the kind, and of its special cases."""
        kinds = [known for known in self._by_kind if issubclass(known, kind)]
        return [one for known in kinds for one in self._by_kind[known].values()]

    def add(self, thing: Any, blocker: Blocker) -> None:
        """Add a blocker that depends on the object, and is kept without waiting items."""
        self._by_kind.setdefault(type(blocker), {})[thing] = blocker

    def drop(self, kind: type[Blocker], thing: Any) -> None:
        """Forget a blocker without blocked items."""
        del self._by_kind[kind][thing]

    def clear(self) -> None:
        """Forget all blockers."""
        self._by_kind.clear()

    def that_may_open(self, things: Collection[object]) -> list[Blocker]:
        """Return the blockers that may let an item through, as these objects have changed."""
        found: list[Blocker] = []
        for known in self._by_kind.values():
            # In most cases no item waits for any of them.
            if not known.keys().isdisjoint(things):
                for thing in things:
                    if thing in known:
                        found += known[thing].that_may_open()
        return found
