"""The dirty set: things that have changed, and what follows from that.

Moves and changes of things are marked here. A mark says what has changed, and not for whom. From
the marked things `open_blockers` derives the blockers that may let somebody through, at the end of
each command and before each decision. `settle` also ranks changed applications and queues anew.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from licorne_core.config.schema import AppSortPolicy
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import ASSUMED, Request
from licorne_core.model.apps.states import SCHEDULABLE
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue, QueueState, derive_denominators, largest_quotient
from licorne_core.model.queues.tree import QueueTree
from licorne_core.model.usage import Usage
from licorne_core.scheduling.node_search.index import NodeIndex
from licorne_core.scheduling.order import app_key, queue_key, settle_priority
from licorne_core.scheduling.waiting.reserved_nodes import ReservationLimit
from licorne_core.scheduling.waiting.wakeups import Wakeups
from licorne_core.values.resources import Items

_STOPPED: Final = QueueState.STOPPED
_FIFO: Final = AppSortPolicy.FIFO


class Ranks:
    """The places of applications in their leaves, and of queues among their siblings."""

    __slots__ = ("_tree", "_wakeups", "admitting", "alone", "types")

    def __init__(self, tree: QueueTree, wakeups: Wakeups) -> None:
        """Rank in these queues."""
        self._tree, self._wakeups = tree, wakeups
        self.alone: dict[Queue, None] = {}
        """Queues that are ranked alone, and may have an older key."""
        self.admitting: tuple[Any, ...] = ()
        """Extensions that say which applications of a leaf are looked at."""
        self.types: tuple[str, ...] = ()
        """Resource types of all asks so far, sorted: all count in the keys of queues."""

    def after_placing(self, app: Application, leaf: Queue, *, same_priority: bool) -> None:
        """Rank the queues between a served ask and root.

        In a fifo leaf an application of the same priority keeps its place, but for a gang that comes behind
        all others. No key becomes smaller. The key of a queue without ranked siblings decides nothing: it
        waits.
        """
        units = app.gang.units
        is_behind = units is not None and units.behind
        keeps_place = leaf.settings.app_sort is _FIFO and same_priority and not is_behind
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
        """Put the application in its place, or take it out when there is nothing to do for it."""
        leaf: Queue = app.leaf
        wakeups = self._wakeups
        if wakeups.reserved.ready or wakeups.replacing.ready:
            wakeups.replacing.app_key_changed(app)
            wakeups.reserved.app_key_changed(app)
        places: Iterable[tuple[Application, bool]] = ((app, True),)
        for extension in self.admitting if leaf.interests else ():
            found = extension.admitted(leaf, app)
            if found is not None:
                places = found
                break
        ranking = leaf.ranking
        for one, due in places:
            present = one.pending_count and one.state in SCHEDULABLE and one.app_id in leaf.applications
            if present and due and not one.held:
                if one.blocker is not None:
                    wakeups.waiting.unpark(one)
                ranking.put(one, app_key(one, leaf))
            elif not one.pending_count and one.blocker is None:
                ranking.discard(one)
            elif one in ranking:
                # It is not searched until it comes back, and blockers may change meanwhile.
                wakeups.waiting.release(one)
                ranking.discard(one)

    def rank_queue(self, queue: Queue) -> None:
        """Put the queue in its place among its siblings (spec § 4.9: only those with pending).

        Nothing is looked at in a stopped queue. Root has no siblings, so its children are not
        ranked either.
        """
        parent = queue.parent
        if parent is None:
            return
        queue.share = largest_quotient(queue.allocated, queue.denominators)
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
        """Order the children or the applications of a queue anew, as their precedence is another.

        What is set aside stays so: another place lets nothing through.
        """
        wakeups, ranking = self._wakeups, parent.ranking
        if parent.is_leaf:
            for app in ranking.items():
                ranking.rekey(app, app_key(app, parent))
                if wakeups.reserved.ready:
                    wakeups.reserved.app_key_changed(app)
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
        """Derive every share anew; return the leaves: cluster size or settings have changed."""
        self._wakeups.reserved.everything_changed()
        self._wakeups.replacing.everything_changed()
        queues = list(self._tree.walk())
        for queue in queues:
            derive_denominators(queue)
            _forget_precedence(queue)
            if queue.precedence_inside is not None:
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
    """What the queue is due is another."""
    for precedence in (queue.precedence, queue.precedence_inside):
        if precedence is not None:
            precedence.forget()


class Dirty:
    """The things of one partition that have changed since they were settled.

    Always true after `settle`: an application is ranked in its leaf if and only if it has pending
    asks and may be looked at, a queue in its parent if and only if it has and neither is stopped;
    both under the key that their books give. Only a queue that is ranked alone may have an older
    key: then it is in `Ranks.alone`.
    """

    __slots__ = (
        "_apps",
        "_index",
        "_leaves",
        "_nodes",
        "_things",
        "_tree",
        "_wakeups",
        "ranks",
        "usage",
        "version",
    )

    def __init__(self, tree: QueueTree, index: NodeIndex, wakeups: Wakeups, usage: Usage) -> None:
        """Note changes of these queues and nodes, and of usage."""
        self._tree, self._index, self._wakeups, self.usage = tree, index, wakeups, usage
        self._apps: dict[Application, None] = {}
        self._leaves: dict[Queue, None] = {}
        self._nodes: dict[Node, None] = {}
        self._things: dict[object, None] = {}
        self.ranks = Ranks(tree, wakeups)
        self.version = 0
        """Rises whenever an application or a queue has more or less than before."""

    # Marks

    def mark(self, things: Iterable[object]) -> None:
        """Mark things that blockers depend on: quotas, task groups, open questions to the RM."""
        for thing in things:
            self._things[thing] = None

    def mark_app(self, app: Application) -> None:
        """Mark the key, the state or the asks of an application, and so its queues' keys."""
        self._apps[app] = None
        self._leaves[app.leaf] = None
        self._wakeups.waiting.runnable = True
        self.version += 1

    def mark_due(self, app: Application) -> None:
        """Mark an application that may have a step to take which was not possible before.

        Its usage is unchanged, so that failed searches are not repeated.
        """
        self._apps[app] = None
        self._leaves[app.leaf] = None
        self._wakeups.waiting.runnable = True

    def mark_state(self, app: Application) -> None:
        """Mark another state of an application: others may start, or its own reserved asks."""
        self.mark_app(app)
        self.mark(app.leaf.lineage)
        self._wakeups.reserved.wake_of(app)

    def mark_leaf(self, leaf: Queue) -> None:
        """Mark pending or allocated amounts of the leaf and those above it."""
        self._leaves[leaf] = None
        self._wakeups.waiting.runnable = True

    def mark_queue(self, queue: Queue) -> None:
        """Mark a queue that was stopped or started, with its contents."""
        self._leaves.update(dict.fromkeys((queue, *queue.children.values())))
        self._things[queue] = None
        self._wakeups.waiting.runnable = True
        self.version += 1

    def mark_resized(self, leaf: Queue) -> None:
        """Mark another maximum or guarantee of a leaf: of all shares only its own follows from it.

        The fair order of applications is by what they have of the guarantee (spec § 5.2).
        """
        derive_denominators(leaf)
        _forget_precedence(leaf)
        self._leaves[leaf] = None
        self._things[leaf] = None
        for app in leaf.applications.values():
            self.mark_app(app)

    def mark_cluster(self) -> None:
        """Mark the size of the cluster: root's maximum, all shares, and limits that are a part of it."""
        self._tree.shares_stale = True
        self._things[self._tree.root] = None
        self.mark(self._wakeups.blockers.of(ReservationLimit))
        self._wakeups.waiting.runnable = True

    def mark_node(self, node: Node) -> None:
        """Mark a node that is new, has more room, is open again, or comes earlier in the order."""
        self._nodes[node] = None

    def mark_filled(self, node: Node) -> None:
        """Mark less room on the node, or the RM's consent to something there: that may be a victim."""
        self._index.took(node)
        if node.reservations:
            self._touched(node)

    def mark_victims(self, node: Node) -> None:
        """Mark a change of the possible victims on the node."""
        self._index.victims_changed(node)
        if node.reservations:
            self._touched(node)

    def change_everything(self) -> Iterator[int]:
        """Mark all queues and applications, as settings or sizes have changed, and try all asks.

        In steps of a job, with no pass and no new application in between.
        """
        apps = [app for queue in self._tree.all() for app in queue.applications.values()]
        for app in apps:
            yield from self._wakeups.waiting.unpark_all(app)
        self._tree.shares_stale = True
        for queue in self._tree.all():
            # Keys of another shape may come: nothing may be parked that is not ranked.
            queue.ranking.clear()
        for app in apps:
            if app.leaf is not None:
                self.mark_app(app)
            yield 1
        self._wakeups.reserved.wake_all()
        self._wakeups.waiting.runnable = True

    # Things that go

    def forget_app(self, app: Application) -> None:
        """The application is gone."""
        self._apps.pop(app, None)
        self._wakeups.replacing.forget(app)
        self._wakeups.waiting.release(app)
        app.leaf.ranking.discard(app)

    def forget_leaf(self, leaf: Queue) -> None:
        """An empty queue is about to be removed."""
        self._leaves.pop(leaf, None)
        self.ranks.alone.pop(leaf, None)
        for queue in leaf.lineage:
            self.ranks.rank_queue(queue)

    def forget_node(self, node: Node) -> None:
        """The node is gone."""
        self._nodes.pop(node, None)
        self._index.left(node)
        self._wakeups.kept_nodes.left(node)

    # What follows

    def placed(self, app: Application, request: Request, node: Node, *, same_priority: bool) -> None:
        """An ask was placed by a decision, and others are placed before the next `settle`.

        The hot path: nothing is marked, and the ranks follow at once.
        """
        self.version += 1
        if self.usage.followers:
            self.usage.touched[app] = app.leaf
        if app.reserved and app.allocation_count == 1:
            self._wakeups.reserved.wake_of(app)
        self.ranks.after_placing(app, app.leaf, same_priority=same_priority)
        if request.state is not ASSUMED:
            if request.ask.placeholder:
                # A real ask may take its place.
                self._wakeups.replacing.wake((app,))
                self._wakeups.waiting.runnable = True
            if node.note_known_change(narrowed=True):
                self.mark_node(node)
                return
        self.mark_filled(node)

    def open_blockers(self) -> None:
        """Open the blockers that may let somebody through, as a thing has changed."""
        wakeups = self._wakeups
        if self._things:
            things, self._things = self._things, {}
            for blocker in wakeups.blockers.that_may_open(things):
                wakeups.waiting.changed(blocker)
        if not self._nodes:
            return
        nodes, self._nodes = self._nodes, {}
        for node in nodes:
            for blocker in self._index.improved(node):
                wakeups.waiting.changed(blocker)
            for kept in wakeups.kept_nodes.that_may_use(node):
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
        """For asks that require the node, others may have to stop there than before (§ 9.5)."""
        self._wakeups.reserved.wake_on(node)
        self._wakeups.waiting.runnable = True

    def settle(self) -> None:
        """Open blockers, and rank changed items anew; a pass follows."""
        if self._things or self._nodes:
            self.open_blockers()
        wakeups, ranks = self._wakeups, self.ranks
        for app in self._apps:
            if app.gang.groups:
                wakeups.replacing.wake((app,))
        if self._tree.shares_stale:
            self._tree.shares_stale = False
            self._leaves.update(dict.fromkeys(ranks.derive_shares()))
        if ranks.alone and (self._leaves or wakeups.reserved.ready or wakeups.replacing.ready):
            # A sibling may come, or the queue is ranked among others that come first.
            for queue in ranks.alone:
                ranks.rank_queue(queue)
            ranks.alone.clear()
        if not self._leaves:
            return
        for app in self._apps:
            ranks.rank_app(app)
        for queue in dict.fromkeys([queue for leaf in self._leaves for queue in leaf.lineage[:-1]]):
            ranks.rank_queue(queue)
        self._apps.clear()
        self._leaves.clear()
