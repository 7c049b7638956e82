"""The dirty set: changed objects, and the consequences of the changes.

Moves and changes of objects are marked here. A mark names the change, not the affected items. From the
marked objects `open_blockers` derives the blockers that may let an item through, at the end of each command
and before each decision. `settle` also ranks changed applications and queues again.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from licorne_core.config.schema import AppSortPolicy
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import ASSUMED, Request
from licorne_core.model.apps.states import SCHEDULABLE
from licorne_core.model.nodes.node import Node, Recent
from licorne_core.model.queues.queue import Queue, QueueState, derive_denominators, quotients
from licorne_core.model.queues.tree import QueueTree
from licorne_core.model.queues.users import LeafUser
from licorne_core.model.usage import Usage
from licorne_core.scheduling.node_search.index import NodeIndex
from licorne_core.scheduling.order import app_key, queue_key, settle_priority, user_key
from licorne_core.scheduling.waiting.reserved_nodes import ReservationLimit
from licorne_core.scheduling.waiting.wakeups import Wakeups
from licorne_core.values.resources import Items

_STOPPED: Final = QueueState.STOPPED
_FIFO: Final = AppSortPolicy.FIFO
_FAIR: Final = AppSortPolicy.FAIR


class Ranks:
    """The ranks of applications in their leaves, and of queues among their siblings."""

    __slots__ = ("_tree", "_wakeups", "admitting", "alone", "types")

    def __init__(self, tree: QueueTree, wakeups: Wakeups) -> None:
        """Start with no ranks, for the queues of a tree."""
        self._tree, self._wakeups = tree, wakeups
        self.alone: dict[Queue, None] = {}
        """Queues without ranked siblings, whose key may be out of date."""
        self.admitting: tuple[Any, ...] = ()
        """Extensions that restrict which applications of a leaf are tried."""
        self.types: tuple[str, ...] = ()
        """Resource types of all asks so far, sorted: all are in the keys of queues."""

    def after_placing(self, app: Application, leaf: Queue, *, same_priority: bool) -> None:
        """Rank the queues between a served ask and root.

        In a fifo leaf an application of the same priority keeps its rank, unless it is a gang that is ordered
        after all others. No key becomes smaller. The key of a queue without ranked siblings decides nothing:
        it is derived later.
        """
        units = app.gang.units
        is_behind = units is not None and units.behind
        keeps_place = leaf.settings.app_sort is _FIFO and same_priority and not is_behind
        keeps_place = keeps_place and leaf.ranking.second is None
        if not (keeps_place and app.pending_count):
            self.rank_app(app)
        wakeups = self._wakeups
        late = not (wakeups.reserved.ready or wakeups.replacing.ready)
        for queue in leaf.lineage:
            parent = queue.parent
            if parent is None:
                return
            if late and queue.pending and parent.ranking.has_only(queue):
                self.alone[queue] = None
            else:
                self.rank_queue(queue)

    def rank_app(self, app: Application) -> None:
        """Rank the application, or remove it from the ranking if none of its asks is to be tried."""
        leaf: Queue = app.leaf
        wakeups = self._wakeups
        if leaf.settings.app_sort is _FAIR:
            self._put_among_peers(app, leaf)
        if wakeups.reserved.ready or wakeups.replacing.ready:
            wakeups.replacing.app_key_changed(app)
            wakeups.reserved.app_key_changed(app)
        places: Iterable[tuple[Application, bool]] = ((app, True),)
        for extension in self.admitting if leaf.interests else ():
            found = extension.admitted(leaf, app)
            if found is not None:
                places = found
                break
        ranking: Any = leaf.ranking if app.peers is None else app.peers
        for one, due in places:
            present = one.pending_count and one.state in SCHEDULABLE and one.app_id in leaf.applications
            if present and due and not one.held:
                if one.blocker is not None:
                    wakeups.waiting.unpark(one)
                ranking.put(one, app_key(one, leaf))
            elif not one.pending_count and one.blocker is None:
                ranking.discard(one)
            elif one in ranking:
                # Its items are not searched until it is ranked again; until then, blockers may change.
                wakeups.waiting.release(one)
                ranking.discard(one)
        if app.peers is not None:
            self._rank_user(leaf.users[app.user.user], leaf)

    def _put_among_peers(self, app: Application, leaf: Queue) -> None:
        """Add the application's counts to its user, and find the applications among which it is ranked."""
        name = app.user.user
        user = leaf.users.get(name)
        if user is None:
            user = leaf.users[name] = LeafUser(name)
        user.follow(app)
        units = app.gang.units
        peers = user.items[units is not None and units.behind]
        if app.peers is not peers:
            if app.peers is not None:
                self._wakeups.forget_order()
                self._wakeups.waiting.release(app)
                app.peers.discard(app)
            app.peers = peers

    def forget_app(self, app: Application) -> None:
        """Remove an application that leaves the leaf from the applications of its user."""
        leaf: Queue = app.leaf
        user = leaf.users[app.user.user]
        user.forget(app)
        self._rank_user(user, leaf)
        app.peers = None
        if not len(user):
            del leaf.users[user.name]

    def _rank_user(self, user: LeafUser, leaf: Queue) -> None:
        """Rank a user in a fair leaf."""
        wakeups, ranking = self._wakeups, leaf.ranking
        for apps in user.items:
            if not len(apps):
                ranking.discard(apps)
                continue
            apps.key = user_key(apps, leaf)
            ranking.put(apps, apps.key)
            if wakeups.reserved.ready or wakeups.replacing.ready:
                wakeups.reserved.user_key_changed(apps, leaf)
                wakeups.replacing.user_key_changed(apps, leaf)

    def rank_queue(self, queue: Queue) -> None:
        """Rank the queue among its siblings (spec § 4.9: only queues with pending asks).

        Nothing is tried in a stopped queue. Root has no siblings: if it is
        stopped, its children are not ranked.
        """
        parent = queue.parent
        if parent is None:
            return
        queue.shares = quotients(queue.allocated, queue.denominators)
        wakeups = self._wakeups
        is_ranked = queue.pending and queue.state is not _STOPPED and parent.state is not _STOPPED
        if is_ranked or wakeups.reserved.ready or wakeups.replacing.ready:
            key = queue_key(queue, priority_sort=parent.settings.priority_sort, types=self.types)
            if wakeups.reserved.ready:
                wakeups.reserved.queue_key_changed(queue, key)
            if wakeups.replacing.ready:
                wakeups.replacing.queue_key_changed(queue, key)
            if is_ranked:
                parent.ranking.put(queue, key)
        if not is_ranked:
            parent.ranking.discard(queue)

    def rekey(self, parent: Queue) -> None:
        """Sort the children or the users of a queue again, after a change of their precedence or shares.

        Items that are set aside remain so: another rank lets no item through.
        """
        wakeups, ranking = self._wakeups, parent.ranking
        if parent.is_leaf:
            for apps in ranking.items() if parent.users else ():
                apps.key = user_key(apps, parent)
                ranking.rekey(apps, apps.key)
                wakeups.reserved.user_key_changed(apps, parent)
                wakeups.replacing.user_key_changed(apps, parent)
            return
        priority_sort = parent.settings.priority_sort
        for queue in ranking.items():
            key = queue_key(queue, priority_sort=priority_sort, types=self.types)
            ranking.rekey(queue, key)
            if wakeups.reserved.ready:
                wakeups.reserved.queue_key_changed(queue, key)
            if wakeups.replacing.ready:
                wakeups.replacing.queue_key_changed(queue, key)

    def derive_shares(self) -> list[Queue]:
        """Recompute every share after a change of cluster size or settings; return the leaves."""
        self._wakeups.forget_order()
        queues = list(self._tree.walk())
        for queue in queues:
            derive_denominators(queue)
            _forget_precedence(queue)
            if queue.users or queue.precedence_inside is not None:
                self.rekey(queue)
        for queue in reversed(queues):
            settle_priority(queue)
        return [queue for queue in queues if queue.is_leaf]

    def note_types(self, items: Items) -> None:
        """Note the resource types of an ask; a new one changes the key of every queue."""
        for name, _ in items:
            if name not in self.types:
                self.types = tuple(sorted((*self.types, name)))
                self._tree.shares_stale = True


def _forget_precedence(queue: Queue) -> None:
    """Drop the derived values of the precedence: the entitlement of the queue has changed."""
    for precedence in (queue.precedence, queue.precedence_inside):
        if precedence is not None:
            precedence.forget()


class Dirty:
    """The objects of one partition that have changed since they were settled.

    Always true after `settle`: an application is ranked in its leaf if and only if it has pending asks and
    may be tried, a queue in its parent if and only if it has pending asks and neither is stopped; each under
    the key that its books give. Only a queue without ranked siblings may have a key that is out of date: then
    it is in `Ranks.alone`.
    """

    __slots__ = (
        "_index",
        "_leaves",
        "_nodes",
        "_tree",
        "_wakeups",
        "apps",
        "demands",
        "demands_read",
        "ranks",
        "things",
        "usage",
        "version",
    )

    def __init__(self, tree: QueueTree, index: NodeIndex, wakeups: Wakeups, usage: Usage) -> None:
        """Note changes of these queues and nodes, and of usage."""
        self._tree, self._index, self._wakeups, self.usage = tree, index, wakeups, usage
        self.apps: dict[Application, None] = {}
        """Applications to rank anew."""
        self._leaves: dict[Queue, None] = {}
        self._nodes: dict[Node, None] = {}
        self.things: dict[object, None] = {}
        """Changed objects that blockers depend on."""
        self.ranks = Ranks(tree, wakeups)
        self.version = 0
        """Rises whenever the usage of an application or a queue changes."""
        self.demands: Recent[Queue] | None = None
        """Queues by their last changes of usage, victims, asks or maximum; root for all. None if off."""
        self.demands_read = 0
        """Number of these changes that have been taken into account."""

    # Marks

    def mark(self, things: Iterable[object]) -> None:
        """Mark objects that blockers depend on: quotas, task groups, open questions to the RM."""
        for thing in things:
            self.things[thing] = None

    def mark_app(self, app: Application) -> None:
        """Mark a change of the key, the state or the asks of an application; it affects its queues' keys."""
        self.apps[app] = None
        self._leaves[app.leaf] = None
        self._wakeups.waiting.runnable = True
        self.version += 1
        if self.demands is not None:
            self.demands.note(app.leaf)

    def mark_due(self, app: Application) -> None:
        """Mark an application with something to try; usage is unchanged, so failed searches stay valid."""
        self.apps[app] = None
        self._leaves[app.leaf] = None
        self._wakeups.waiting.runnable = True

    def mark_state(self, app: Application) -> None:
        """Mark a changed state of an application: others may start, or its reserved asks may be placed."""
        self.mark_app(app)
        self.mark(app.leaf.lineage)
        self._wakeups.reserved.wake_of(app)

    def mark_leaf(self, leaf: Queue) -> None:
        """Mark a change of pending or allocated amounts of the leaf and its ancestors."""
        self._leaves[leaf] = None
        self._wakeups.waiting.runnable = True
        if self.demands is not None:
            self.demands.note(leaf)

    def mark_queue(self, queue: Queue) -> None:
        """Mark a queue that was stopped or started, with its contents."""
        self._leaves.update(dict.fromkeys((queue, *queue.children.values())))
        self.things[queue] = None
        self._wakeups.waiting.runnable = True
        self.version += 1

    def mark_resized(self, leaf: Queue) -> None:
        """Mark a changed maximum or guarantee of a leaf: it affects only the leaf's own share.

        The fair order of applications is by their shares of the guarantee (spec § 5.2).
        """
        derive_denominators(leaf)
        _forget_precedence(leaf)
        self._leaves[leaf] = None
        self.things[leaf] = None
        for app in leaf.applications.values():
            self.mark_app(app)

    def mark_cluster(self) -> None:
        """Mark a change of the cluster's size: root's maximum, all shares, and limits that depend on it."""
        self._tree.shares_stale = True
        self.things[self._tree.root] = None
        self.mark(self._wakeups.blockers.of(ReservationLimit))
        self._wakeups.waiting.runnable = True

    def mark_node(self, node: Node) -> None:
        """Mark a node that is new, has more room, is open again, or moves forward in the order."""
        self._nodes[node] = None
        self._index.note(node)

    def mark_filled(self, node: Node, *, ends_earlier: bool = False) -> None:
        """Mark a reduction of room on the node, or a new allocation, which is a possible victim.

        `ends_earlier` if allocations there may be expected to end earlier than before.
        """
        self._index.took(node)
        if ends_earlier:
            self._index.heaps.write(node)
        if node.reservations:
            self._touched(node)

    def mark_victims(self, node: Node) -> None:
        """Mark a change of the possible victims on the node."""
        self._index.note(node)
        if node.reservations:
            self._touched(node)

    def change_everything(self) -> Iterator[int]:
        """Mark all queues and applications, as settings or sizes have changed, and try all asks.

        This is done in steps of a job; between them there is no pass and no new application.
        """
        apps = [app for queue in self._tree.all() for app in queue.applications.values()]
        for app in apps:
            yield from self._wakeups.waiting.unpark_all(app)
        self._tree.shares_stale = True
        if self.demands is not None:
            self.demands.note(self._tree.root)
        for queue in self._tree.all():
            # Keys may have another form from now on, so unranked items must not remain parked.
            queue.ranking.clear()
            queue.users.clear()
        self._wakeups.forget_order()
        for app in apps:
            app.peers = None
            if app.leaf is not None:
                self.mark_app(app)
            yield 1
        self._wakeups.reserved.wake_all()
        self._wakeups.waiting.runnable = True

    # Removed things

    def forget_app(self, app: Application) -> None:
        """Remove the application from all waiting and marked items."""
        self.apps.pop(app, None)
        self._wakeups.replacing.forget(app)
        self._wakeups.waiting.release(app)
        if app.peers is None:
            app.leaf.ranking.discard(app)
            return
        app.peers.discard(app)
        self.ranks.forget_app(app)

    def forget_leaf(self, leaf: Queue) -> None:
        """Remove an empty leaf that is about to be removed from its tree."""
        self._leaves.pop(leaf, None)
        if self.demands is not None:
            if leaf.parent is not None and self.demands.number(leaf) > self.demands_read:
                # Its unread change affects its siblings: note it for one of them, or for the parent.
                self.demands.note(next(iter(leaf.parent.children.values()), leaf.parent))
            self.demands.forget(leaf)
        self.ranks.alone.pop(leaf, None)
        for queue in leaf.lineage:
            self.ranks.rank_queue(queue)

    def forget_node(self, node: Node) -> None:
        """Remove a node that leaves the partition."""
        self._nodes.pop(node, None)
        self._index.left(node)
        self._wakeups.reserved_node_waits.left(node)

    # Consequences

    def placed(self, app: Application, request: Request, node: Node, *, same_priority: bool) -> None:
        """Rank the queues of an ask that was placed; others may be placed before the next `settle`.

        This is the hot path: it marks nothing, and updates the ranks immediately.
        """
        self.version += 1
        if self.usage.tracking:
            self.usage.touched[app] = app.leaf
        if app.reserved and app.allocation_count == 1:
            self._wakeups.reserved.wake_of(app)
        self.ranks.after_placing(app, app.leaf, same_priority=same_priority)
        if request.state is not ASSUMED:
            if request.ask.placeholder:
                # A real ask may replace the placeholder.
                self._wakeups.replacing.wake((app,))
                self._wakeups.waiting.runnable = True
            if node.note_known_change(narrowed=True):
                self.mark_node(node)
                return
        self.mark_filled(node)

    def open_blockers(self) -> None:
        """Open the blockers that may let an item through, as an object has changed."""
        wakeups = self._wakeups
        if self.things:
            things, self.things = self.things, {}
            for blocker in wakeups.blockers.that_may_open(things):
                wakeups.waiting.changed(blocker)
        if not self._nodes:
            return
        nodes, self._nodes = self._nodes, {}
        for node in nodes:
            for blocker in self._index.improved(node):
                wakeups.waiting.changed(blocker)
            for kept in wakeups.reserved_node_waits.that_may_use(node):
                wakeups.waiting.changed(kept)
            if wakeups.replacing.wake_on(node):
                wakeups.waiting.runnable = True
            if wakeups.gangs:
                for gang in [one for one in wakeups.gangs if one.may_use(node)]:
                    wakeups.waiting.changed(gang)
            if node.claims or node.kept:
                wakeups.waiting.runnable = True
            if node.reservations:
                self._touched(node)

    def _touched(self, node: Node) -> None:
        """Note that the victims on the node may have changed for asks that require the node (§ 9.5)."""
        self._wakeups.reserved.wake_on(node)
        self._wakeups.waiting.runnable = True

    def settle(self) -> None:
        """Open blockers and rank changed items again, before a pass."""
        if self.things or self._nodes:
            self.open_blockers()
        wakeups, ranks = self._wakeups, self.ranks
        for app in self.apps:
            if app.gang.groups:
                wakeups.replacing.wake((app,))
        if self._tree.shares_stale:
            self._tree.shares_stale = False
            self._leaves.update(dict.fromkeys(ranks.derive_shares()))
        if ranks.alone and (self._leaves or wakeups.reserved.ready or wakeups.replacing.ready):
            # The queue may now have ranked siblings, or siblings that are served before it.
            for queue in ranks.alone:
                ranks.rank_queue(queue)
            ranks.alone.clear()
        if not self._leaves:
            return
        for app in self.apps:
            ranks.rank_app(app)
        for queue in dict.fromkeys([queue for leaf in self._leaves for queue in leaf.lineage[:-1]]):
            ranks.rank_queue(queue)
        self.apps.clear()
        self._leaves.clear()
