"""What has changed since the last pass, so that a pass looks at nothing else.

Applications and queues whose key may have changed are ranked again before the next
decision; gates that opened wake what is parked under them. A *gate* is what has to change
before a blocked ask is worth another look: its ask class (a node that fits is
missing), or a queue and a class (that queue's maximum is in the way).
"""

from collections.abc import Hashable

from licorne_core.apps.application import Application
from licorne_core.apps.states import SCHEDULABLE
from licorne_core.asks import AskClass
from licorne_core.queues.queue import Queue
from licorne_core.queues.quota import denominators, share
from licorne_core.queues.states import QueueState
from licorne_core.queues.tree import QueueTree
from licorne_core.resources import Items
from licorne_core.scheduling.order import app_key, queue_key, settle_priority

Gate = Hashable


def within_max(queue: Queue, items: Items) -> bool:
    """Whether the amounts fit under one queue's maximum (spec § 4.5: strictly at root)."""
    limit = queue.max
    if limit is None:
        return True
    allocated = queue.allocated
    for name, value in items:
        bound = limit.get(name)
        if bound is None:
            if queue.parent is None:
                return False
        elif allocated.get(name, 0) + value > bound:
            return False
    return True


class Frontier:
    """The changes of one partition that the next pass has to take up."""

    __slots__ = ("_apps", "_leaves", "_tree", "_types", "awake", "runnable")

    def __init__(self, tree: QueueTree) -> None:
        """Over this tree."""
        self._tree = tree
        self._apps: dict[Application, Queue] = {}
        self._leaves: dict[Queue, None] = {}
        self._types: tuple[str, ...] = ()
        self.awake: set[Gate] = set()
        self.runnable = False

    def app_changed(self, app: Application, leaf: Queue) -> None:
        """The application's key, state or asks changed, and so did its queues' keys."""
        self._apps[app] = leaf
        self._leaves[leaf] = None
        self.runnable = True

    def leaf_changed(self, leaf: Queue) -> None:
        """Pending or allocated amounts of the leaf and those above it changed."""
        self._leaves[leaf] = None
        self.runnable = True

    def everything_changed(self) -> None:
        """Settings or sizes changed: rank all queues and applications again, look at all asks."""
        self._tree.shares_stale = True
        for queue in self._tree.walk():
            queue.ranking.clear()
            queue.short_of.clear()
            for app in queue.applications.values():
                self.app_changed(app, queue)
                app.ranking.wake_all()
        self.runnable = True

    def knows(self, items: Items) -> None:
        """Note the resource types of a new ask; a new type changes every queue's key."""
        for name, _ in items:
            if name not in self._types:
                self._types = tuple(sorted((*self._types, name)))
                self._tree.shares_stale = True

    def open(self, gate: Gate) -> None:
        """What the gate blocked is worth another look."""
        self.awake.add(gate)
        self.runnable = True

    def room_in(self, leaf: Queue) -> None:
        """Something was freed in the leaf: open the gates of its and its ancestors' maximum."""
        for queue in leaf.lineage:
            short_of: dict[AskClass, None] = queue.short_of
            if short_of:
                fitting = [cls for cls in short_of if within_max(queue, cls.items)]
                for ask_class in fitting:
                    del short_of[ask_class]
                    self.open((queue, ask_class))

    def settle(self) -> None:
        """Rank anew what has changed."""
        if self._tree.shares_stale:
            self._derive_shares()
        if not self._leaves:
            return
        for app, leaf in self._apps.items():
            self.rank_app(app, leaf)
        queues: dict[Queue, None] = {}
        for leaf in self._leaves:
            for queue in leaf.lineage:
                queues[queue] = None
        for queue in queues:
            queue.share = share(queue)
            self.rank_queue(queue)
        self._apps.clear()
        self._leaves.clear()

    def allocated(self, app: Application, leaf: Queue) -> None:
        """An ask of the application was served: rank what lies between it and root."""
        self.rank_app(app, leaf)
        for queue in leaf.lineage[:-1]:
            queue.share = share(queue)
            self.rank_queue(queue)

    def rank_app(self, app: Application, leaf: Queue) -> None:
        """Put the application in its place, or take it out when there is nothing to do for it."""
        if app.pending and app.state in SCHEDULABLE and app.app_id in leaf.applications:
            leaf.ranking.put(app, app_key(app, leaf))
        else:
            leaf.ranking.discard(app)

    def rank_queue(self, queue: Queue) -> None:
        """Put the queue in its place among its siblings (spec § 4.9: only those with pending)."""
        parent = queue.parent
        if parent is None:
            return
        if queue.pending and queue.state is not QueueState.STOPPED:
            key = queue_key(queue, priority_sort=parent.settings.priority_sort, types=self._types)
            parent.ranking.put(queue, key)
        else:
            parent.ranking.discard(queue)

    def _derive_shares(self) -> None:
        """Cluster size or settings changed: every share and key may have."""
        self._tree.shares_stale = False
        queues = list(self._tree.walk())
        for queue in reversed(queues):
            queue.denominators = denominators(queue)
            settle_priority(queue)
            if queue.is_leaf:
                self._leaves[queue] = None
