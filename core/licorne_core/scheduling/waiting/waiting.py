"""The waiting relation: blockers and their parked items.

An ask group, a reservation request or an application that cannot be served is *parked*: set aside
in its ranking, and added to a waiting line of its blocker for that ranking. The application and the queues
above it are added to waiting lines of the rankings above. So when
the blocker changes, the first waiting item is found by descending from root, without examining
others.

`changed` is the only function that opens a blocker. The pass then takes, at each level, the first in key
order of the active items and those that wait for an open blocker. Before it takes the latter it asks the
blocker, as one freed node may open the blocker for many items but fit only one. `BlockedItemEvents`
publishes events about blocked items.
"""

from collections.abc import Collection, Iterator, Mapping
from heapq import heapify, heappop, heapreplace
from typing import Any

from licorne_core.messages.events.allocations import (
    USER_ROOM,
    RoomChanged,
    no_victims_on_required_node,
    predicates_refused,
    queue_room,
)
from licorne_core.messages.events.apps import Bound, may_run_changed
from licorne_core.model.apps.application import Application, GroupItem
from licorne_core.model.apps.groups import AskGroup
from licorne_core.model.apps.members import gang_groups
from licorne_core.model.apps.requests import Request
from licorne_core.model.queues.queue import Queue
from licorne_core.model.queues.users import UserApps
from licorne_core.model.quotas import Quota, SharedQuota, Tracker, may_start, room_for
from licorne_core.model.rm_context import Journal
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.scheduling.waiting.shortages import HeldShortage, QuotaShortage
from licorne_core.scheduling.waiting.waiting_line import WaitingLine
from licorne_core.values.asks import Ask
from licorne_core.values.ids import NodeId
from licorne_core.values.ranking import Ranked, Ranking
from licorne_core.values.resources import Items

Parked = GroupItem | Application
HEAD_COST = 4
"""Cost of comparing the first item of a waiting line, in comparisons of items."""

_Path = Iterator[tuple[Ranking[Any], Any]]
_Blocked = dict[Any, dict[Blocker, None]]
"""Items of a ranking that lead to waiting items; each with the owners of the waiting lines it is in."""


class Waiting:
    """The blockers of one partition that have changed since a pass last found them shut.

    Always true between passes: an item is parked if and only if it is in a waiting line of its
    blocker, and every queue and application on the way to it is in the blocker's waiting lines
    above.
    """

    __slots__ = ("_blocked", "_heaps", "_openings", "opened", "runnable")

    def __init__(self) -> None:
        """Start without waiting items. `runnable` is True if a pass could find something."""
        self.opened: dict[Blocker, None] = {}
        """Owners of changed lines, until a try finds that they let no item through."""
        self._blocked: dict[Ranking[Any], _Blocked] = {}
        self._heaps: dict[Ranking[Any], tuple[tuple[int, int], list[Ranked]]] = {}
        self._openings = 0
        self.runnable = False

    def clear(self) -> None:
        """Forget all waiting items."""
        self.opened.clear()
        self._blocked.clear()
        self._heaps.clear()

    def changed(self, blocker: Blocker) -> None:
        """Note that the blocker may open; a shortage opens for its priority-pass items only."""
        self.runnable = True
        if blocker.owner is blocker and blocker.waiting_lines:
            self._openings += 1
            self.opened[blocker] = None
            blocker.open()
        for item, priority_pass in list(blocker.priority_pass.items()):
            priority_pass.wake((item,))

    def park(self, item: Parked, blocker: Blocker) -> None:
        """Park the item with the blocker, until it is unparked."""
        if item.blocker is not blocker:
            if item.blocker is not None:
                self.unpark(item)
            item.blocker = blocker
            blocker.waiting += 1
            self._note(item, blocker.owner, blocker.items)
        _ranking_of(item).set_aside(item)
        # The blocker let none of its items through.
        if blocker.owner is blocker:
            self.opened.pop(blocker, None)
        else:
            blocker.shut()

    def _note(self, item: Parked, owner: Blocker, wanted: Items) -> None:
        """Put the item and its ancestors into the owner's waiting lines."""
        is_first = is_less = True
        inner: tuple[WaitingLine, ...] = ()
        for ranking, member in way_up(item):
            lines = owner.waiting_lines
            was_empty = lines.get(ranking) is None
            is_less = self._file(ranking, member, owner, wanted, inner, is_first=is_first)
            second = ranking.second
            if second is None:
                inner = (lines[ranking],)
            else:
                # Either order of the ranking may apply, so the line above must know both lines.
                is_less |= self._file(second.ranking, member, owner, wanted, inner, is_first=is_first)
                inner = lines[ranking], lines[second.ranking]
            is_first = was_empty
            if not (is_first or is_less):
                return
        owner.is_noted(wanted, ranking)

    def _file(
        self,
        ranking: Ranking[Any],
        member: Any,
        owner: Blocker,
        wanted: Items,
        inner: tuple[WaitingLine, ...],
        *,
        is_first: bool,
    ) -> bool:
        """Add a member to the owner's line for one ranking; True if it requests less than its neighbours."""
        line = owner.waiting_lines.get(ranking)
        if line is None:
            line = owner.waiting_lines[ranking] = WaitingLine(ranking, owner)
        if not is_first:
            return line.lower(member, wanted)
        is_less = line.add(member, ranking, wanted)
        for each in inner:
            each.stands_below(line, member)
        self._blocked.setdefault(ranking, {}).setdefault(member, {})[owner] = None
        return is_less

    def unpark(self, item: Parked) -> None:
        """Make a parked item and its ancestors active again."""
        blocker = item.blocker
        if blocker is None:
            return
        if not isinstance(item, Application):
            # The application may be parked as well (`Extension.pauses`).
            self.unpark(item.app)
        item.blocker = None
        blocker.waiting -= 1
        owner = blocker.owner
        noted = True
        for ranking, member in way_up(item):
            if noted:
                if ranking.second is not None:
                    self._forget(ranking.second.ranking, member, owner)
                noted = self._forget(ranking, member, owner)
            ranking.activate(member)
        if blocker.is_unused:
            blocker.retire()

    def _forget(self, ranking: Ranking[Any], member: Any, owner: Blocker) -> bool:
        """Remove one reason for the member from the owner's line; True if the line is empty now."""
        line = owner.waiting_lines[ranking]
        if line.remove(member):
            blocked = self._blocked[ranking]
            del blocked[member][owner]
            if not blocked[member]:
                del blocked[member]
                if not blocked:
                    del self._blocked[ranking]
        if line.members:
            return False
        del owner.waiting_lines[ranking]
        return True

    def rank(self, group: AskGroup) -> None:
        """Rank the group by its first ask; a changed key is a reason for another try."""
        key = group.heap[0][:3]
        ranking = group.app.ranking
        if group.blocker is not None:
            entry = ranking.entry(group)
            if entry is not None and entry.key == key:
                return
            self.unpark(group)
        ranking.put(group, key)

    def withdraw(self, item: GroupItem) -> None:
        """Remove the item from its blocker and from its ranking."""
        if item.blocker is not None:
            self.unpark(item)
        item.app.ranking.discard(item)

    def unpark_all(self, app: Application) -> Iterator[int]:
        """Unpark the application, and its parked items, in steps of a job."""
        self.unpark(app)
        yield 1
        for item in app.ranking.ordered():
            self.unpark(item)
            yield 1

    def try_members(self, app: Application, task_groups: Collection[str] = ()) -> None:
        """Unpark the groups of a gang after a change of its members: they may use other nodes now.

        If the reserved rooms of `task_groups` have changed, unpark all of their groups.
        """
        app.gang.is_parked = False
        for group in app.groups.values() if app.gang.is_whole else ():
            if group.is_bound:
                self.unpark(group)
        for group in gang_groups(app):
            self.unpark(group)
        for group in app.groups.values() if task_groups else ():
            if group.key[1] in task_groups:
                self.unpark(group)

    def release(self, app: Application) -> None:
        """Unpark the application and its parked items, which are not searched until they are ranked again."""
        if app.blocker is not None:
            self.unpark(app)
        if app.pending_count:
            self.unpark_inside(app)

    def unpark_inside(self, app: Application) -> None:
        """Unpark all items of the application, which is not searched for a while."""
        for item in app.ranking.ordered():
            self.unpark(item)

    def first(self, ranking: Ranking[Any]) -> Any:
        """The first item of a ranking that can be tried; None if there is none.

        If it was parked itself, it is unparked.
        """
        active = ranking.top()
        if not self.opened:
            return active
        limit = None if active is None else ranking.entry(active)
        blocked = self._blocked.get(ranking)
        if blocked is None:
            return active
        if len(blocked) < HEAD_COST * len(self.opened):
            item = self._first_member(ranking, blocked, limit)
        else:
            item = self._first_head(ranking, limit)
        if item is None:
            return active
        if not isinstance(item, Queue | UserApps):
            self.unpark(item)
        return item

    def end_pass(self) -> None:
        """End the pass: open blockers have no item that could be tried."""
        for blocker in self.opened:
            blocker.end_pass()
        self.opened.clear()
        self._heaps.clear()

    def _first_member(self, ranking: Ranking[Any], blocked: _Blocked, limit: Ranked | None) -> Any:
        """Return the first item before the limit that may lead to a passing item, or None."""
        heap = self._heap_of(ranking, blocked)
        while heap:
            entry = heap[0]
            if limit is not None and limit < entry:
                return None
            valid = ranking.entry(entry.item)
            known = blocked.get(entry.item)
            if valid is None or not known:
                heappop(heap)
            elif valid.serial != entry.serial:
                # The item's key has become larger.
                heapreplace(heap, valid)
            elif any(self._is_open(owner) and owner.passes(entry.item) for owner in known):
                return entry.item
            else:
                heappop(heap)
        return None

    def _heap_of(self, ranking: Ranking[Any], blocked: _Blocked) -> list[Ranked]:
        """The items that lead to open blockers.

        The heap serves all tries until another blocker opens or a key becomes smaller.
        """
        stamp = (self._openings, ranking.forgotten + len(ranking.improved))
        known = self._heaps.get(ranking)
        if known is not None and known[0] == stamp:
            return known[1]
        opened = self.opened.keys()
        entries = (ranking.entry(i) for i, why in blocked.items() if not opened.isdisjoint(why))
        heap = [entry for entry in entries if entry is not None]
        heapify(heap)
        self._heaps[ranking] = (stamp, heap)
        return heap

    def _first_head(self, ranking: Ranking[Any], limit: Ranked | None) -> Any:
        """Return the same as `_first_member`, found by the first passing item of each open line."""
        found: Any = None
        for owner in list(self.opened):
            waiting_line = owner.waiting_lines.get(ranking)
            if waiting_line is not None and self._is_open(owner):
                entry = waiting_line.first(ranking, limit)
                if entry is not None:
                    limit, found = entry, entry.item
        return found

    def _is_open(self, owner: Blocker) -> bool:
        """True if the owner may let an item through; otherwise the owner is shut."""
        if owner not in self.opened:
            return False
        if owner.lets_through():
            return True
        del self.opened[owner]
        return False


def _ranking_of(item: Parked) -> Ranking[Any]:
    """The ranking in which the item is sorted among its siblings."""
    ranking, _ = next(way_up(item))
    return ranking


def way_up(item: Parked) -> _Path:
    """The item in its ranking, then its ancestors up to root: application, user, queues."""
    app = item if isinstance(item, Application) else item.app
    if app is not item:
        yield app.ranking, item
    leaf, member = app.leaf, app
    if app.peers is not None:
        yield app.peers.ranking, app
        member = app.peers
    yield leaf.ranking, member
    for queue in leaf.lineage[:-1]:
        yield queue.parent.ranking, queue


def try_with_claim(waiting: Waiting, request: Request) -> None:
    """Unpark the ask's group if held amounts block it: it may use the amounts of the ask's new claim."""
    group: AskGroup = request.group
    items: list[Parked] = [group, *group.remedy_requests.values()]
    for item in items:
        blocker = item.blocker
        if isinstance(blocker, HeldShortage) and blocker.own is not request.claim:
            waiting.unpark(item)


class BlockedItemEvents:
    """Publishes events about blocked items; while the journal is off it records nothing."""

    def __init__(self, journal: Journal) -> None:
        """Publish to this journal."""
        self._journal = journal

    def room(self, leaf: Queue, group: AskGroup, blocker: Blocker | None, now: float) -> None:
        """Note that a tried group exceeds a maximum, or fits again (spec § 12.1.3).

        Queues are last: they are not checked while another quota blocks.
        """
        journal = self._journal
        if not journal.on:
            return
        short = blocker.quota if isinstance(blocker, QuotaShortage) else None
        items, ask = group.ask_class.items, group.first().request.ask
        over_queue, over = isinstance(short, Queue), None
        alike: tuple[Quota, ...] = group.app.trackers
        if isinstance(short, SharedQuota):
            over, alike = short.room, group.app.further
        elif isinstance(short, Tracker):
            over = USER_ROOM
        if over != group.over:
            told = [] if group.over is None else [RoomChanged(now, ask, group.over, None)]
            if over is not None:
                told.append(RoomChanged(now, ask, over, room_for(items, alike)))
            if over is USER_ROOM:
                # Changes of user limits are published before those of queues.
                told.reverse()
            for change in told:
                journal.note(change)
            group.over = over
        if over is None and over_queue != group.over_queue:
            group.over_queue = over_queue
            room = room_for(items, leaf.lineage) if over_queue else None
            journal.note(RoomChanged(now, ask, queue_room(leaf.path), room))

    def refused(self, group: AskGroup, reasons: Mapping[str, int], now: float) -> None:
        """Note that the RM has refused all nodes with room; `reasons` has numbers of nodes."""
        for reason in reasons:
            group.note(reason, now)
        if self._journal.on and reasons:
            self._journal.note(predicates_refused(now, group.first().request.ask, reasons))

    def no_victims(self, ask: Ask, node_id: NodeId, now: float) -> None:
        """Note that no victims make room for an ask on the node that it requires (spec § 9.5)."""
        if self._journal.on:
            self._journal.note(no_victims_on_required_node(now, ask, node_id))

    def may_run(self, app: Application, now: float) -> None:
        """Note whether queues or limits let a tried accepted application start (spec § 4.12)."""
        journal = self._journal
        if not journal.on:
            return
        blocked_by = {
            Bound.QUOTA if isinstance(quota, Tracker) else Bound.QUEUE
            for quota in app.quotas
            if not may_start(quota, app.app_id)
        }
        for bound in Bound:
            if (bound in blocked_by) != (bound in app.blocked_by):
                may_run = bound not in blocked_by
                journal.note(may_run_changed(now, app.app_id, bound, may_run=may_run))
        app.blocked_by = tuple(bound for bound in Bound if bound in blocked_by)
