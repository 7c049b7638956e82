"""Changes since the last pass, so that a pass looks at nothing else.

Applications and queues whose key may have changed are ranked again before the next decision.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from licorne_core.config.schema import AppSortPolicy
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.states import SCHEDULABLE, AppState
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.queues.queue import Queue, QueueState, derive_denominators, largest_quotient
from licorne_core.model.queues.tree import QueueTree, is_state_aware
from licorne_core.scheduling.node_search.candidates import NodeIndex
from licorne_core.scheduling.order import app_key, queue_key, settle_priority
from licorne_core.scheduling.waiting.wakeups import Wakeups
from licorne_core.values.asks import AskClass

_STOPPED: Final = QueueState.STOPPED
_STATE_AWARE: Final = AppSortPolicy.STATE_AWARE
_FIFO: Final = AppSortPolicy.FIFO


class Changes:
    """The changes of one partition that the next pass has to take up.

    Always true after `settle`: an application is ranked in its leaf if and only if it has pending
    asks and may be looked at, a queue in its parent if and only if it has and neither is stopped;
    both under the key that their books give. Only a queue that is ranked alone may have an older
    key: then it is in `_alone`.
    """

    __slots__ = (
        "_alone",
        "_apps",
        "_index",
        "_leaves",
        "_tree",
        "_wakeups",
        "types",
        "version",
    )

    def __init__(self, tree: QueueTree, index: NodeIndex, wakeups: Wakeups) -> None:
        """Note changes of these queues and nodes."""
        self._wakeups = wakeups
        self._tree = tree
        self._index = index
        self._apps: dict[Application, None] = {}
        self._leaves: dict[Queue, None] = {}
        self._alone: dict[Queue, None] = {}
        self.types: tuple[str, ...] = ()
        """The resource types that asks were heard of with, sorted: all count in queues' keys."""
        self.version = 0
        """Rises whenever an application or a queue has more or less than before."""

    def app_changed(self, app: Application) -> None:
        """The application's key, state or asks changed, and so did its queues' keys."""
        self.app_is_due(app)
        self.version += 1

    def app_is_due(self, app: Application) -> None:
        """Note that the application may have a step to take that was not possible before.

        Its usage is unchanged, so that failed searches are not repeated.
        """
        self._apps[app] = None
        self._leaves[app.leaf] = None
        self._wakeups.waiting.runnable = True
        if app.gang.free_count and app.pending_count:
            self._wakeups.replacing.wake((app,))

    def leaf_changed(self, leaf: Queue) -> None:
        """Pending or allocated amounts of the leaf and those above it changed."""
        self._leaves[leaf] = None
        self._wakeups.waiting.runnable = True

    def queue_changed(self, queue: Queue) -> None:
        """Note that the queue was stopped or started, with its contents."""
        self._leaves[queue] = None
        for child in queue.children.values():
            self._leaves[child] = None
        self._wakeups.queue_started(queue)
        self.version += 1
        self._wakeups.waiting.runnable = True

    def everything_changed(self) -> None:
        """Settings or sizes changed: rank all queues and applications again, try all asks."""
        for _ in self.change_everything():
            pass

    def change_everything(self) -> Iterator[int]:
        """The same in steps of a job, with no pass and no new application in between."""
        apps = [app for queue in self._tree.all() for app in queue.applications.values()]
        for app in apps:
            yield from self._wakeups.waiting.unpark_all(app)
        self._tree.shares_stale = True
        for queue in self._tree.all():
            # Keys of another shape may come: nothing may be parked that is not ranked.
            queue.ranking.clear()
            queue.admission.forget_accepted()
        for app in apps:
            if app.leaf is not None:
                self.app_changed(app)
            yield 1
        self._wakeups.reserved.wake_all()
        self._wakeups.waiting.runnable = True

    def leave(self, leaf: Queue) -> None:
        """An empty queue is about to be removed: nothing of it is noted any more."""
        self._leaves.pop(leaf, None)
        self._alone.pop(leaf, None)
        for queue in leaf.lineage:
            self._rank_anew(queue)

    def resized(self, leaf: Queue) -> None:
        """A leaf has another maximum or guarantee: of all shares only its own follows from it.

        The fair order of applications is by what they have of the guarantee (spec § 5.2).
        """
        derive_denominators(leaf)
        self._leaves[leaf] = None
        self._wakeups.room_in((leaf,))
        for app in leaf.applications.values():
            self.app_changed(app)

    def forget(self, app: Application) -> None:
        """The application is gone; in a state-aware leaf the next one may be let in."""
        self._apps.pop(app, None)
        self._wakeups.replacing.forget(app)
        self._unpark_all(app)
        admission = app.leaf.admission
        admission.note(app, present=False)
        due = admission.next_accepted()
        if due is not None:
            self.app_changed(due)
        app.leaf.ranking.discard(app)

    def starting_changed(self, leaf: Queue, starting: Application | None) -> None:
        """Note that another application is starting in a state-aware leaf, or none any more."""
        admission = leaf.admission
        before = admission.next_accepted()
        admission.starting = starting
        for app in (before, admission.next_accepted()):
            if app is not None:
                self.app_changed(app)

    def class_came(self, ask_class: AskClass) -> None:
        """Count a group that asks for the class; a new resource type changes every queue's key."""
        self._index.class_came(ask_class)
        for name, _ in ask_class.items:
            if name not in self.types:
                self.types = tuple(sorted((*self.types, name)))
                self._tree.shares_stale = True

    def settle(self) -> None:
        """Rank changed items anew."""
        if self._tree.shares_stale:
            self._derive_shares()
        if self._alone and (self._leaves or self._wakeups.any_priority_pass):
            # A sibling may come, or the queue is ranked among others that come first.
            for queue in self._alone:
                self._rank_anew(queue)
            self._alone.clear()
        if not self._leaves:
            return
        for app in self._apps:
            self.rank_app(app)
        queues: dict[Queue, None] = {}
        for leaf in self._leaves:
            for queue in leaf.lineage[:-1]:
                queues[queue] = None
        for queue in queues:
            self._rank_anew(queue)
        self._apps.clear()
        self._leaves.clear()

    def allocated(self, app: Application, leaf: Queue, *, same_priority: bool) -> None:
        """Rank the queues between a served ask and root.

        In a fifo leaf an application keeps its place as long as its priority is the same. No key
        becomes smaller by it. The key of a queue that has no ranked siblings decides nothing, so it
        is left for later: a chain of queues costs little more than one.
        """
        self.version += 1
        stays = same_priority and app.pending_count and leaf.settings.app_sort is _FIFO
        if not stays:
            self.rank_app(app)
        wakeups = self._wakeups
        late = not (wakeups.reserved.ready or wakeups.replacing.ready)
        for queue in leaf.lineage:
            parent = queue.parent
            if parent is None:
                return
            if late and queue.pending and parent.ranking.has_only(queue):
                self._alone[queue] = None
            else:
                self._rank_anew(queue)

    def rank_app(self, app: Application) -> None:
        """Put the application in its place, or take it out when there is nothing to do for it."""
        leaf: Queue = app.leaf
        if self._wakeups.reserved.ready or self._wakeups.replacing.ready:
            self._wakeups.app_key_changed(app)
        by_state = leaf.settings.app_sort is _STATE_AWARE
        if not (by_state and is_state_aware(self._tree, leaf)):
            self._place(app, leaf, due=True)
            return
        admission = leaf.admission
        before = admission.next_accepted()
        admission.note(app, present=app.app_id in leaf.applications)
        self._place(app, leaf, due=app.state is not AppState.ACCEPTED or app is admission.next_accepted())
        for other in (before, admission.next_accepted()):
            if other is not None and other is not app:
                self._place(other, leaf, due=other is admission.next_accepted())

    def _place(self, app: Application, leaf: Queue, *, due: bool) -> None:
        present = app.pending_count and app.state in SCHEDULABLE and app.app_id in leaf.applications
        if present and due:
            if app.blocker is not None:
                self._wakeups.waiting.unpark(app)
            leaf.ranking.put(app, app_key(app, leaf))
        elif app in leaf.ranking:
            # It is not searched until it comes back, and blockers may change meanwhile.
            self._unpark_all(app)
            leaf.ranking.discard(app)

    def _unpark_all(self, app: Application) -> None:
        if app.blocker is not None:
            self._wakeups.waiting.unpark(app)
        if app.pending_count:
            self._wakeups.waiting.unpark_inside(app)

    def _rank_anew(self, queue: Queue) -> None:
        """Put the queue in its place among its siblings (spec § 4.9: only those with pending).

        Nothing is looked at in a stopped queue. Root has no siblings, so its children are not
        ranked either.
        """
        parent = queue.parent
        if parent is None:
            return
        queue.share = largest_quotient(queue.allocated, queue.denominators)
        key = queue_key(queue, priority_sort=parent.settings.priority_sort, types=self.types)
        if self._wakeups.reserved.ready or self._wakeups.replacing.ready:
            self._wakeups.queue_key_changed(queue, key)
        if queue.pending and queue.state is not _STOPPED and parent.state is not _STOPPED:
            parent.ranking.put(queue, key)
        else:
            parent.ranking.discard(queue)

    def _derive_shares(self) -> None:
        """Cluster size or settings changed: every share and key may have."""
        self._tree.shares_stale = False
        self._wakeups.all_keys_changed()
        queues = list(self._tree.walk())
        for queue in queues:
            derive_denominators(queue)
        for queue in reversed(queues):
            settle_priority(queue)
            if queue.is_leaf:
                self._leaves[queue] = None


class Listeners(NamedTuple):
    """The nodes of one partition, and the listeners to changes."""

    nodes: NodeBook
    node_index: NodeIndex
    changes: Changes
    wakeups: Wakeups
