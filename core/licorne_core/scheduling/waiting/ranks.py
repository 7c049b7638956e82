"""Ranks: the places of applications in their leaves, and of queues among their siblings."""

from typing import Final

from licorne_core.config.schema import AppSortPolicy
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.states import SCHEDULABLE, AppState
from licorne_core.model.fair_shares import FairShares
from licorne_core.model.queues.queue import Queue, QueueState, derive_denominators, largest_quotient
from licorne_core.model.queues.tree import QueueTree, is_state_aware
from licorne_core.scheduling.order import app_key, queue_key, settle_priority
from licorne_core.scheduling.waiting.wakeups import Wakeups
from licorne_core.values.resources import Items

_STOPPED: Final = QueueState.STOPPED
_STATE_AWARE: Final = AppSortPolicy.STATE_AWARE
_FIFO: Final = AppSortPolicy.FIFO


class Ranks:
    """The places of applications in their leaves, and of queues among their siblings."""

    __slots__ = ("_shares", "_tree", "_wakeups", "alone", "types")

    def __init__(self, tree: QueueTree, wakeups: Wakeups, shares: FairShares) -> None:
        """Rank in these queues."""
        self._shares = shares
        self._tree = tree
        self._wakeups = wakeups
        self.alone: dict[Queue, None] = {}
        """Queues that are ranked alone, and may have an older key."""
        self.types: tuple[str, ...] = ()
        """Resource types of all asks so far, sorted: all count in the keys of queues."""

    def after_placing(self, app: Application, leaf: Queue, *, same_priority: bool) -> None:
        """Rank the queues between a served ask and root.

        In a fifo leaf an application keeps its place as long as its priority is the same. No key
        becomes smaller by it. The key of a queue that has no ranked siblings decides nothing, so it
        is left for later: a chain of queues costs little more than one.
        """
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
        by_state = leaf.settings.app_sort is _STATE_AWARE
        if not (by_state and is_state_aware(self._tree, leaf)):
            self._place(app, leaf, due=True)
            return
        admission = leaf.admission
        before = admission.next_accepted()
        admission.note(app, present=app.app_id in leaf.applications and not app.held)
        self._place(app, leaf, due=app.state is not AppState.ACCEPTED or app is admission.next_accepted())
        for other in (before, admission.next_accepted()):
            if other is not None and other is not app:
                self._place(other, leaf, due=other is admission.next_accepted())

    def _place(self, app: Application, leaf: Queue, *, due: bool) -> None:
        present = app.pending_count and app.state in SCHEDULABLE and app.app_id in leaf.applications
        if present and due and not app.held:
            if app.blocker is not None:
                self._wakeups.waiting.unpark(app)
            leaf.ranking.put(app, app_key(app, leaf))
        elif app in leaf.ranking:
            # It is not searched until it comes back, and blockers may change meanwhile.
            self._wakeups.waiting.release(app)
            leaf.ranking.discard(app)

    def rank_queue(self, queue: Queue) -> None:
        """Put the queue in its place among its siblings (spec § 4.9: only those with pending).

        Nothing is looked at in a stopped queue. Root has no siblings, so its children are not
        ranked either.
        """
        parent = queue.parent
        if parent is None:
            return
        queue.share = largest_quotient(queue.allocated, queue.denominators)
        if queue.memory is not None and queue.fair_step != self._shares.step:
            self._shares.weigh(queue)
        key = queue_key(queue, priority_sort=parent.settings.priority_sort, types=self.types)
        wakeups = self._wakeups
        if wakeups.reserved.ready:
            wakeups.reserved.queue_key_changed(queue, key)
        if wakeups.replacing.ready:
            wakeups.replacing.queue_key_changed(queue, key)
        if queue.pending and queue.state is not _STOPPED and parent.state is not _STOPPED:
            parent.ranking.put(queue, key)
        else:
            parent.ranking.discard(queue)

    def pass_time(self, step: int) -> None:
        """Order by what was used up to another second: only where usage is remembered.

        What is set aside stays so: another place lets nothing through.
        """
        shares, wakeups = self._shares, self._wakeups
        shares.step = step
        for parent in shares.parents:
            priority_sort = parent.settings.priority_sort
            for queue in parent.ranking.items():
                shares.weigh(queue)
                key = queue_key(queue, priority_sort=priority_sort, types=self.types)
                parent.ranking.rekey(queue, key)
                if wakeups.reserved.ready:
                    wakeups.reserved.queue_key_changed(queue, key)
                if wakeups.replacing.ready:
                    wakeups.replacing.queue_key_changed(queue, key)
        for leaf in shares.leaves:
            for app in leaf.ranking.items():
                leaf.ranking.rekey(app, app_key(app, leaf))
                if wakeups.reserved.ready:
                    wakeups.reserved.app_key_changed(app)

    def derive_shares(self) -> list[Queue]:
        """Derive every share anew; return the leaves: cluster size or settings have changed."""
        self._wakeups.reserved.everything_changed()
        self._wakeups.replacing.everything_changed()
        queues = list(self._tree.walk())
        for queue in queues:
            derive_denominators(queue)
        if self._shares.is_on:
            self._shares.forget_shares()
        for queue in reversed(queues):
            settle_priority(queue)
        return [queue for queue in queues if queue.is_leaf]

    def note_types(self, items: Items) -> None:
        """Note the resource types of an ask; a new one changes the key of every queue."""
        for name, _ in items:
            if name not in self.types:
                self.types = tuple(sorted((*self.types, name)))
                self._tree.shares_stale = True
