"""Who waits for what: the one relation between blockers and those whom they block.

An ask group, a reservation request or an application that cannot be served is *parked*: set aside
in its ranking, and noted with the blocker that is in its way. The blocker notes it on a shelf for
the ranking that it stands in, and the application and the queues that lead to it on shelves of the
rankings above. So when the blocker changes, the first of all that wait for it is found by going
down from root, and nobody else is looked at.

`changed` is the one entry for «it may let somebody through now». The pass then takes, at each
level, the smaller of what is active and what waits for an open blocker; before it takes the latter
it asks the blocker, as one freed node may open the way for many and has room for one.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heapreplace
from typing import Any, NamedTuple

from licorne_core.apps.application import Application, GroupItem
from licorne_core.queues.queue import Queue
from licorne_core.ranking import Ranked, Ranking
from licorne_core.scheduling.blockers import Blocker
from licorne_core.scheduling.reserved import ReservedAsks
from licorne_core.scheduling.shelf import Shelf

Parked = GroupItem | Application
_Path = Iterator[tuple[Ranking[Any], Any]]


class _Head(NamedTuple):
    """The first item that waits for an open blocker; no two have the same `number`."""

    entry: Ranked
    number: int
    blocker: Blocker


class Waiting:
    """The blockers of one partition that have changed since a pass found them shut.

    Always true between passes: an item is parked if and only if its blocker has it on a shelf, and
    every queue and application on the way to it is on the blocker's shelves above.
    """

    __slots__ = ("_heads", "_reserved", "opened", "runnable")

    def __init__(self, reserved: ReservedAsks) -> None:
        """Nobody waits. `runnable` is whether a pass could find something."""
        self._reserved = reserved
        self.opened: dict[Blocker, None] = {}
        """The blockers that have changed, until a look shows that they let nobody through."""
        self._heads: dict[Ranking[Any], tuple[int, list[_Head]]] = {}
        self.runnable = False

    def changed(self, blocker: Blocker) -> None:
        """The blocker may let somebody through now."""
        self.runnable = True
        if blocker.shelves:
            self.opened[blocker] = None
            self._heads.clear()
        if blocker.reserved:
            self._reserved.wake(list(blocker.reserved))

    def park(self, item: Parked, blocker: Blocker) -> None:
        """The item waits for the blocker, and for nothing else, until it is unparked."""
        if item.blocker is not None:
            self.unpark(item)
        item.blocker = blocker
        for ranking, member in way_up(item):
            shelf = blocker.shelves.get(ranking)
            is_new = shelf is None
            if shelf is None:
                shelf = blocker.shelves[ranking] = Shelf(ranking)
            shelf.add(member, ranking)
            if not is_new:
                break
        _ranking_of(item).set_aside(item)
        self.opened.pop(blocker, None)

    def unpark(self, item: Parked) -> None:
        """A parked item is to be tried again, and so is what leads to it."""
        blocker = item.blocker
        if blocker is None:
            return
        item.blocker = None
        noted = True
        for ranking, member in way_up(item):
            if noted:
                shelf = blocker.shelves[ranking]
                shelf.remove(member)
                noted = not shelf.members
                if noted:
                    del blocker.shelves[ranking]
            ranking.activate(member)
        if blocker.blocks_nobody:
            blocker.retire()

    def unpark_inside(self, app: Application) -> None:
        """What waits in the application is to be tried again: nobody looks inside for a while."""
        for item in app.ranking.ordered():
            self.unpark(item)

    def first(self, ranking: Ranking[Any]) -> Any:
        """The first item of a ranking that can be looked at; None for none.

        One that was parked itself is not any more.
        """
        first = ranking.top()
        if not self.opened:
            return first
        head = self._head(ranking)
        if head is None:
            return first
        entry = None if first is None else ranking.entry(first)
        if entry is not None and entry < head.entry:
            return first
        item = head.entry.item
        if not isinstance(item, Queue):
            self.unpark(item)
        return item

    def end_pass(self) -> None:
        """Nothing was found: what is open now blocks nobody who could be tried."""
        for blocker in self.opened:
            blocker.end_pass()
        self.opened.clear()
        self._heads.clear()

    def _head(self, ranking: Ranking[Any]) -> _Head | None:
        """The first item of the ranking that leads to whom an open blocker lets through."""
        heads = self._heads_of(ranking)
        while heads:
            head = heads[0]
            blocker = head.blocker
            shelf = blocker.shelves.get(ranking) if blocker in self.opened else None
            if shelf is None:
                heappop(heads)
                continue
            first = shelf.first(ranking)
            if first.serial != head.entry.serial:
                heapreplace(heads, head._replace(entry=first))
            elif blocker.lets_through():
                return head
            else:
                del self.opened[blocker]
                heappop(heads)
        return None

    def _heads_of(self, ranking: Ranking[Any]) -> list[_Head]:
        version = ranking.forgotten + len(ranking.improved)
        known = self._heads.get(ranking)
        if known is not None and known[0] == version:
            return known[1]
        heads = []
        for number, blocker in enumerate(self.opened):
            shelf = blocker.shelves.get(ranking)
            if shelf is not None:
                heads.append(_Head(shelf.first(ranking), number, blocker))
        heapify(heads)
        self._heads[ranking] = (version, heads)
        return heads


def _ranking_of(item: Parked) -> Ranking[Any]:
    """The ranking that the item stands in."""
    ranking: Ranking[Any] = item.leaf.ranking if isinstance(item, Application) else item.app.ranking
    return ranking


def way_up(item: Parked) -> _Path:
    """The item in its ranking, then the application and the queues that lead to it, up to root."""
    if isinstance(item, Application):
        leaf = item.leaf
        yield leaf.ranking, item
    else:
        leaf = item.app.leaf
        yield item.app.ranking, item
        yield leaf.ranking, item.app
    for queue in leaf.lineage[:-1]:
        yield queue.parent.ranking, queue
