"""The order of asks: keys of queues and applications, and priority passes (§§ 4.9-4.11, 5.2, 6.5, 8.6).

The keys end in a unique id. Two kinds of items come before the regular pass: asks with a reservation,
and applications that replace placeholders. Such an item is *ready* when a change may help it. After a
failed try it is set aside with its blockers. Ready items stand in rankings of their own, one for each
queue or application above them: so a decision costs the same however many are ready, and a changed
key costs one entry.
"""

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from math import inf
from typing import Any, Final, Generic, NamedTuple, TypeVar

from licorne_core.config.schema import AppSortPolicy
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.values.asks import Reservation
from licorne_core.values.ranking import NO_PRIORITY, Key, Ranking, clamp_priority


def queue_key(queue: Queue, *, priority_sort: bool, types: tuple[str, ...]) -> Key:
    """Place of a queue among its siblings: priority and share, then the larger pending first.

    Reads the priority and the share that the queue carries, so these have to be up to date.
    `priority_sort` is the parent's. Pending is compared type by type in the order of `types`:
    a total order that agrees with the partial order «larger in every type» of § 4.10. Siblings may
    have a precedence, which comes before their shares.
    """
    pending = queue.pending
    tie = [-pending.get(name, 0) for name in types]
    if queue.precedence is not None:
        first = queue.precedence.of_queue(queue)
        if priority_sort:
            return (-queue.counted_priority, first, queue.share, tie, queue.path)
        return (first, queue.share, -queue.counted_priority, tie, queue.path)
    if priority_sort:
        return (-queue.counted_priority, queue.share, tie, queue.path)
    return (queue.share, -queue.counted_priority, tie, queue.path)


BEHIND_ALL: Final = 2**40
"""Puts an application behind all others (`GangUnits.behind`): it exceeds every priority and unix time."""


def app_key(app: Application, leaf: Queue) -> Key:
    """Place of an application in its leaf by the leaf's sort policy (spec § 5.2).

    Its priority is the highest of its asks, with the bonus that it may have. A gang that has what it
    needs comes behind all others.
    """
    priority, submitted = -max(app.priorities.top, app.raised), app.submission_time
    settings, units = leaf.settings, app.gang.units
    behind = units is not None and units.behind
    if settings.app_sort is AppSortPolicy.FAIR:
        usage = fair_usage(app, leaf)
        if leaf.precedence_inside is not None:
            usage.insert(0, leaf.precedence_inside.of_app(app, leaf))
        if settings.priority_sort:
            return (priority + BEHIND_ALL if behind else priority, usage, submitted, app.app_id)
        if behind:
            usage.insert(0, inf)
        return (usage, priority, submitted, app.app_id)
    if settings.priority_sort:
        return (priority + BEHIND_ALL if behind else priority, submitted, app.app_id)
    return (submitted + BEHIND_ALL if behind else submitted, priority, app.app_id)


def fair_usage(app: Application, leaf: Queue) -> list[float]:
    """The application's shares, largest first; a type without guarantee counts raw (spec § 5.2)."""
    guaranteed = leaf.guaranteed
    if guaranteed is None:
        return sorted([float(used) for used in app.allocated.values()], reverse=True)
    shares = []
    for name, used in app.allocated.items():
        base = guaranteed.get(name, 0)
        shares.append(used / base if base > 0 else float(used))
    shares.sort(reverse=True)
    return shares


def settle_priority(queue: Queue) -> None:
    """Propagate a queue's changed priority upwards, until a parent's priority stays (§ 4.11)."""
    parent = queue.parent
    while parent is not None:
        now, before = queue.counts_as(queue.priorities.top), queue.counted_priority
        if now == before:
            return
        queue.counted_priority = now
        top = parent.priorities.top
        if before != NO_PRIORITY:
            parent.priorities.remove(before)
        if now != NO_PRIORITY:
            parent.priorities.add(now)
        if parent.priorities.top == top:
            return
        queue, parent = parent, parent.parent


def raise_by(app: Application, bonus: int) -> bool:
    """Order the application by a priority so much above that of its asks; True if that changes it."""
    before = app.raised
    app.bonus = bonus
    app.raised = clamp_priority(app.priorities.top + bonus) if bonus else NO_PRIORITY
    if app.raised == before:
        return False
    count_raised(app.leaf, before, app.raised)
    return True


def count_raised(leaf: Queue, before: int, after: int) -> None:
    """Let a leaf count a raised priority in place of another one, NO_PRIORITY for none."""
    if before != NO_PRIORITY:
        leaf.priorities.remove(before)
    if after != NO_PRIORITY:
        leaf.priorities.add(after)
    settle_priority(leaf)


T = TypeVar("T")


class PriorityPass(ABC, Generic[T]):
    """Items of one kind that come before the regular pass; `ready` ones are to be tried.

    Always true: every ready item is in `_new`, or ranked in its parent, and each element of its path
    to root in the next one. `Ranks` reports every changed key.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._blockers: dict[T, tuple[Blocker, ...]] = {}
        self._rankings: dict[Queue | Application, Ranking[Any]] = {}
        self._new: dict[T, None] = {}
        self.ready: dict[T, None] = {}

    @abstractmethod
    def path_up(self, item: T) -> Sequence[Queue | Application]:
        """Path from the item's parent up to root; constant while the item is ready."""

    @abstractmethod
    def key(self, item: T) -> Key:
        """Key of the item in its parent."""

    def blockers(self, item: T) -> tuple[Blocker, ...]:
        """Blockers of the item from its last failed try."""
        return self._blockers.get(item, ())

    def wake(self, items: Iterable[T]) -> None:
        """Make the items ready, as a change may help them."""
        for item in items:
            if item not in self.ready:
                self.unblock(item)
                self.ready[item] = None
                self._new[item] = None

    def park(self, item: T, blockers: Iterable[Blocker]) -> None:
        """Set an item aside with its blockers, until a blocker or a caller wakes it."""
        self.set_aside(item)
        found = tuple(blockers)
        if found:
            self._blockers[item] = found
            for blocker in found:
                blocker.watch(item, self)

    def first(self, root: Queue, types: tuple[str, ...]) -> T:
        """First ready item; there is one, and all keys are up to date."""
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
        """Make the item not ready."""
        if item not in self.ready:
            return
        del self.ready[item]
        if item in self._new:
            del self._new[item]
            return
        member: T | Queue | Application = item
        for place in self.path_up(item):
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

    def forget(self, item: T) -> None:
        """Remove the item from its blockers and from the ready items."""
        self.unblock(item)
        self.set_aside(item)

    def app_key_changed(self, app: Application) -> None:
        """Rank the application anew in its leaf; its asks keep their ranking."""
        ranking = self._rankings.get(app.leaf)
        if ranking is not None and app in ranking:
            ranking.put(app, app_key(app, app.leaf))

    def queue_key_changed(self, queue: Queue, key: Key) -> None:
        """Rank the queue among its siblings under the key."""
        if queue.parent is not None and queue in self._rankings:
            self._rankings[queue.parent].put(queue, key)

    def everything_changed(self) -> None:
        """Derive all keys anew: even their form may have changed."""
        self._rankings.clear()
        self._new = dict(self.ready)

    def _enter(self, item: T, types: tuple[str, ...]) -> None:
        """Rank the item in its parent, and each element of its path in the next one."""
        member: T | Queue | Application = item
        key = self.key(item)
        for place in self.path_up(item):
            ranking = self._rankings.get(place)
            if ranking is not None:
                ranking.put(member, key)
                return
            ranking = self._rankings[place] = Ranking()
            ranking.put(member, key)
            member = place
            if isinstance(place, Application):
                key = app_key(place, place.leaf)
            elif place.parent is not None:
                priority_sort = place.parent.settings.priority_sort
                key = queue_key(place, priority_sort=priority_sort, types=types)


class Holder(NamedTuple):
    """Leaf, application and request of a reservation."""

    leaf: Queue
    app: Application
    request: Request


class ReservedAsks(PriorityPass[Reservation]):
    """All reservations of a partition.

    Only pending asks are tried: while the RM is asked about an ask, its promise rests. After a failed
    try a reservation waits for a change of its node, too. For reviews the reservations form a ring, in
    order of creation.
    """

    def __init__(self) -> None:
        """Start empty."""
        super().__init__()
        self._holders: OrderedDict[Reservation, Holder] = OrderedDict()

    def __len__(self) -> int:
        """Number of reservations."""
        return len(self._holders)

    def __iter__(self) -> Iterator[Reservation]:
        """All reservations, in the order of their next review."""
        return iter(self._holders)

    def next_ones(self, most: int) -> list[Reservation]:
        """At most so many reservations, which follow those of the last call in the ring."""
        part = list(islice(self._holders, most))
        for reservation in part:
            self._holders.move_to_end(reservation)
        return part

    def add(self, reservation: Reservation, holder: Holder) -> None:
        """Add a reservation, and make it ready, so that a try finds its blockers."""
        self._holders[reservation] = holder
        self.wake((reservation,))

    def remove(self, reservation: Reservation) -> Holder:
        """Remove a reservation that has ended; return its holder."""
        self.forget(reservation)
        return self._holders.pop(reservation)

    def wake(self, items: Iterable[Reservation]) -> None:
        """Make those reservations ready whose asks are pending."""
        super().wake(item for item in items if self._holders[item].request.is_pending)

    def holder(self, reservation: Reservation) -> Holder:
        """Return the holder of the reservation."""
        return self._holders[reservation]

    def wake_on(self, node: Node) -> None:
        """Wake the asks that have the node reserved, as it has changed."""
        self.wake(node.reservations.values())

    def wake_of(self, app: Application) -> None:
        """Wake the reserved asks of an application that has started: no `RunningLimit` stops them."""
        found = (request.reservation for request in app.reserved.values())
        self.wake([reservation for reservation in found if reservation is not None])

    def wake_all(self) -> None:
        """Wake all asks, as anything may have changed."""
        self.wake(self._holders)

    def path_up(self, item: Reservation) -> Sequence[Queue | Application]:
        """The application of the reservation, and the queues above."""
        holder = self._holders[item]
        return (holder.app, *holder.leaf.lineage)

    def key(self, item: Reservation) -> Key:
        """Place of the ask, which is constant while it is pending."""
        return self._holders[item].request.place[:3]
