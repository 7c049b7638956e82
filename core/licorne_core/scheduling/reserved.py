"""The asks that a node is reserved for: which of them to try next (spec § 8.6)."""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush, heapreplace
from typing import NamedTuple

from licorne_core.apps.application import Application
from licorne_core.apps.requests import Request
from licorne_core.nodes.node import Node
from licorne_core.queues.queue import Queue
from licorne_core.ranking import Key
from licorne_core.reservations import Reservation
from licorne_core.scheduling.blockers import Blocker
from licorne_core.scheduling.order import app_key, queue_key

_SLACK = 32


class Owner(NamedTuple):
    """Whose reservation it is."""

    leaf: Queue
    app: Application
    request: Request


class _Entry(NamedTuple):
    key: Key
    serial: int
    reservation: Reservation


class ReservedAsks:
    """All reservations of a partition; those that are `ready` are worth a try.

    One that was tried in vain waits for its node, and for the blocker in its way. The ready ones
    are compared by the keys of their queues from root, of their application and of the ask.
    Always true: every ready reservation is in `_new` or in the heap, unless the heap is `stale`.
    """

    __slots__ = ("_blockers", "_heap", "_new", "_owners", "_serial", "ready", "stale")

    def __init__(self) -> None:
        """None yet. `stale`: a key may have become smaller, so the heap has to be made anew."""
        self._owners: dict[Reservation, Owner] = {}
        self._blockers: dict[Reservation, Blocker] = {}
        self._heap: list[_Entry] = []
        self._new: dict[Reservation, None] = {}
        self._serial = 0
        self.ready: dict[Reservation, None] = {}
        self.stale = False

    def __len__(self) -> int:
        """How many there are."""
        return len(self._owners)

    def add(self, reservation: Reservation, owner: Owner) -> None:
        """A new one. It is tried once, to learn what is in its way."""
        self._owners[reservation] = owner
        self.wake((reservation,))

    def remove(self, reservation: Reservation) -> Owner:
        """One that has ended; whose it was."""
        self._leave(reservation)
        self._set_aside(reservation)
        return self._owners.pop(reservation)

    def owner(self, reservation: Reservation) -> Owner:
        """Whose it is."""
        return self._owners[reservation]

    def blocker(self, reservation: Reservation) -> Blocker | None:
        """What is in its way, if it was tried in vain."""
        return self._blockers.get(reservation)

    def wake(self, reservations: Iterable[Reservation]) -> None:
        """Something changed for them: they are worth a try."""
        for reservation in reservations:
            self._leave(reservation)
            if reservation not in self.ready:
                self.ready[reservation] = None
                self._new[reservation] = None

    def wake_on(self, node: Node) -> None:
        """Something changed on the node."""
        self.wake(node.reservations.values())

    def wake_all(self) -> None:
        """Everything may have changed."""
        self.wake(self._owners)
        self.stale = True

    def park(self, reservation: Reservation, blocker: Blocker | None) -> None:
        """It was tried in vain; without a blocker it waits for a change of its node only."""
        self._set_aside(reservation)
        if blocker is not None:
            self._blockers[reservation] = blocker
            blocker.reserved[reservation] = None

    def first(self, types: tuple[str, ...]) -> Reservation:
        """The first of those ready, in the order of queues, applications and asks."""
        if self.stale:
            self._new = dict(self.ready)
            self._heap = []
            self.stale = False
        for reservation in self._new:
            heappush(self._heap, self._entry(reservation, types))
        self._new.clear()
        heap = self._heap
        while True:
            entry = heap[0]
            if entry.reservation not in self.ready:
                heappop(heap)
                continue
            # A key that has become larger is noticed here.
            now = self._entry(entry.reservation, types)
            if now.key == entry.key:
                return entry.reservation
            heapreplace(heap, now)

    def _set_aside(self, reservation: Reservation) -> None:
        if self.ready.pop(reservation, self) is None:
            self._new.pop(reservation, None)
            if len(self._heap) > _SLACK + 2 * len(self.ready):
                self._heap = [entry for entry in self._heap if entry.reservation in self.ready]
                heapify(self._heap)

    def _leave(self, reservation: Reservation) -> None:
        """It waits for its blocker no more."""
        blocker = self._blockers.pop(reservation, None)
        if blocker is not None:
            del blocker.reserved[reservation]
            if blocker.blocks_nobody:
                blocker.retire()

    def _entry(self, reservation: Reservation, types: tuple[str, ...]) -> _Entry:
        leaf, app, request = self._owners[reservation]
        keys: list[Key] = [
            queue_key(queue, priority_sort=queue.parent.settings.priority_sort, types=types)
            for queue in reversed(leaf.lineage)
            if queue.parent is not None
        ]
        keys += (app_key(app, leaf), request.place[:3])
        self._serial += 1
        return _Entry(tuple(keys), self._serial, reservation)
