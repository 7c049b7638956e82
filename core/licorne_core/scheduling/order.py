"""The order of asks: keys of queues and applications, and priority passes (§§ 4.9-4.11, 5.2, 6.5, 8.6).

The keys end in a unique id. Two kinds of items come before the regular pass: asks with a reservation, and
applications that replace placeholders. Such an item is *ready* when a change may help it. After a failed try
it is set aside with its blockers. Ready items are in rankings of their own, one for each queue or application
above them. So the cost of a decision does not depend on their number, and a changed key costs one entry.
"""

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, Generic, NamedTuple, TypeVar

from licorne_core.config.schema import AppSortPolicy
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue, quotients
from licorne_core.model.queues.users import UserApps
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.values.asks import Reservation
from licorne_core.values.ranking import NO_PRIORITY, Key, Ranking, clamp_priority


def queue_key(queue: Queue, *, priority_sort: bool, types: tuple[str, ...]) -> Key:
    """Sort key of a queue among its siblings: priority and shares, then the larger pending first.

    Reads the priority and the shares stored in the queue, which have to be up to date. `priority_sort` is the
    parent's. Pending amounts are compared type by type in the order of `types`: a total order that agrees
    with the partial order «larger in every type» of § 4.10. Siblings may have a precedence, which comes
    before their shares.
    """
    pending = queue.pending
    tie = [-pending.get(name, 0) for name in types]
    if queue.precedence is not None:
        first = queue.precedence.of_queue(queue)
        if priority_sort:
            return (-queue.counted_priority, first, queue.shares, tie, queue.path)
        return (first, queue.shares, -queue.counted_priority, tie, queue.path)
    if priority_sort:
        return (-queue.counted_priority, queue.shares, tie, queue.path)
    return (queue.shares, -queue.counted_priority, tie, queue.path)


def place_in_order(app: Application, place: Key, types: tuple[str, ...]) -> tuple[Key, ...]:
    """Sort key of an ask in the order of the whole partition; `place` is its place in the application.

    Priorities and shares stored in the queues have to be up to date.
    """
    keys: list[Key] = []
    for queue in reversed(app.leaf.lineage):
        parent = queue.parent
        if parent is not None:
            keys.append(queue_key(queue, priority_sort=parent.settings.priority_sort, types=types))
    return (*keys, *place_in_leaf(app), place)


def comes_before(
    app: Application, other: Application, types: tuple[str, ...], keys: dict[Queue, Key]
) -> bool:
    """True if an application precedes another one in the usual order of the whole partition.

    Of two leaves, the queues below their common ancestor decide. `keys` has the keys of queues that were
    compared before in the same order; new keys are added.
    """
    if app.leaf is other.leaf:
        return place_in_leaf(app) < place_in_leaf(other)
    pairs = zip(reversed(app.leaf.lineage), reversed(other.leaf.lineage), strict=False)
    one, two = next((one, two) for one, two in pairs if one is not two)
    for queue in (one, two):
        parent = queue.parent
        if queue not in keys and parent is not None:
            keys[queue] = queue_key(queue, priority_sort=parent.settings.priority_sort, types=types)
    return keys[one] < keys[two]


def place_in_leaf(app: Application) -> tuple[Key, ...]:
    """Sort key of an application in the order of its leaf; in a fair leaf, after the key of its user."""
    key = app_key(app, app.leaf)
    return (key,) if app.peers is None else (app.peers.key, key)


BEHIND_ALL: Final = 2**40
"""Rank of an application behind all others (`GangUnits.behind`): it exceeds every priority and unix time."""


def app_key(app: Application, leaf: Queue) -> Key:
    """Sort key of an application in its leaf by the leaf's sort policy; in a fair leaf, among those of its
    user (spec § 5.2).

    Its priority is the highest of its asks, plus its bonus if any. A gang that has its minimum is ordered
    after all other applications.
    """
    priority, submitted = -max(app.priorities.top, app.raised), app.submission_time
    settings, units = leaf.settings, app.gang.units
    behind = units is not None and units.behind
    if settings.app_sort is AppSortPolicy.FAIR:
        usage = fair_usage(app, leaf)
        if settings.priority_sort:
            return (priority + BEHIND_ALL if behind else priority, usage, submitted, app.app_id)
        return (usage, priority, submitted, app.app_id)
    if settings.priority_sort:
        return (priority + BEHIND_ALL if behind else priority, submitted, app.app_id)
    return (submitted + BEHIND_ALL if behind else submitted, priority, app.app_id)


def user_key(apps: UserApps, leaf: Queue) -> Key:
    """Sort key of a user's applications in a fair leaf, by the user's shares of the leaf's entitlement.

    Users are compared as sibling queues are: by the priority of the first application, by the precedence that
    the leaf may have, and by shares. If the shares are equal, the first applications decide.
    """
    first = apps.first_key()
    rank = first[0] if leaf.settings.priority_sort else apps.behind
    before = leaf.precedence_inside
    past = 0.0 if before is None else before.of_user(apps.name, leaf)
    return (rank, past, quotients(apps.allocated, leaf.denominators), first)


def fair_usage(app: Application, leaf: Queue) -> list[float]:
    """The application's shares, largest first; for a type without guarantee, its amount (spec § 5.2)."""
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
    """Propagate a queue's changed priority upwards, as long as the parent's changes too (§ 4.11)."""
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
    """Order the application by a priority raised by `bonus`; True if this changes its priority."""
    before = app.raised
    app.bonus = bonus
    app.raised = clamp_priority(app.priorities.top + bonus) if bonus else NO_PRIORITY
    if app.raised == before:
        return False
    count_raised(app.leaf, before, app.raised)
    return True


def count_raised(leaf: Queue, before: int, after: int) -> None:
    """Replace an application's priority in the counts of raised ones; NO_PRIORITY if it has no ask."""
    if before != NO_PRIORITY:
        leaf.priorities.remove(before)
    if after != NO_PRIORITY:
        leaf.priorities.add(after)
    settle_priority(leaf)


Above = Queue | UserApps | Application
"""An ancestor of an item of a priority pass."""


def path_above(app: Application) -> Sequence[Queue | UserApps]:
    """The ancestors of an application, up to root."""
    lineage: Sequence[Queue] = app.leaf.lineage
    return lineage if app.peers is None else (app.peers, *lineage)


T = TypeVar("T")


class PriorityPass(ABC, Generic[T]):
    """Items of one kind that precede the regular pass; `ready` ones are to be tried.

    Always true: every ready item is in `_new`, or is ranked in its parent, as is each element of its path to
    root. `Ranks` reports every changed key.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._blockers: dict[T, tuple[Blocker, ...]] = {}
        self._rankings: dict[Above, Ranking[Any]] = {}
        self._new: dict[T, None] = {}
        self.ready: dict[T, None] = {}

    @abstractmethod
    def path_up(self, item: T) -> Sequence[Above]:
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
        """First ready item; there must be one, and all keys must be up to date."""
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
        """Make the item not ready, so that it is not tried; no effect if it is not ready."""
        if item not in self.ready:
            return
        del self.ready[item]
        if item in self._new:
            del self._new[item]
            return
        member: T | Above = item
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
        """Rank the application again in its leaf; its own items keep their ranking."""
        ranking = self._rankings.get(app.leaf if app.peers is None else app.peers)
        if ranking is not None and app in ranking:
            ranking.put(app, app_key(app, app.leaf))

    def user_key_changed(self, apps: UserApps, leaf: Queue) -> None:
        """Rank the applications of a user again in their leaf."""
        if apps in self._rankings:
            self._rankings[leaf].put(apps, apps.key)

    def queue_key_changed(self, queue: Queue, key: Key) -> None:
        """Rank the queue among its siblings under the key."""
        if queue.parent is not None and queue in self._rankings:
            self._rankings[queue.parent].put(queue, key)

    def everything_changed(self) -> None:
        """Recompute all keys: even their form may have changed."""
        self._rankings.clear()
        self._new = dict(self.ready)

    def _enter(self, item: T, types: tuple[str, ...]) -> None:
        """Rank the item in its parent, and each element of its path in the one above."""
        member: T | Above = item
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
            elif isinstance(place, UserApps):
                key = place.key
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

    Only pending asks are tried: while the RM is asked about an ask, its promise is paused. After a failed
    try a reservation also waits for a change of its node. For reviews the reservations form a ring, in
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
        """At most `most` reservations, continuing in the ring after those of the last call."""
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
        """Wake the reserved asks of an application that has started: no `RunningLimit` stops them now."""
        found = (request.reservation for request in app.reserved.values())
        self.wake([reservation for reservation in found if reservation is not None])

    def wake_all(self) -> None:
        """Wake all asks, as anything may have changed."""
        self.wake(self._holders)

    def path_up(self, item: Reservation) -> Sequence[Above]:
        """The application of the reservation, its user in a fair leaf, and the queues above."""
        holder = self._holders[item]
        return (holder.app, *path_above(holder.app))

    def key(self, item: Reservation) -> Key:
        """Place of the ask, which is constant while it is pending."""
        return self._holders[item].request.place[:3]
