"""What has changed since the last pass, so that a pass looks at nothing else.

Applications and queues whose key may have changed are ranked again before the next
decision; gates that opened wake what is parked under them.
"""

from collections.abc import Iterable

from licorne_core.apps.application import Application
from licorne_core.apps.states import SCHEDULABLE, AppState
from licorne_core.asks import AskClass
from licorne_core.config.properties import AppSortPolicy
from licorne_core.nodes.node import Node
from licorne_core.queues.queue import Queue
from licorne_core.queues.quota import denominators, share
from licorne_core.queues.state_aware import StateAwareAdmission
from licorne_core.queues.states import QueueState
from licorne_core.queues.tree import QueueTree
from licorne_core.quotas import Quota, may_run_one_more, within_max
from licorne_core.scheduling.candidates import RESERVE, NodeIndex
from licorne_core.scheduling.gates import RUNNING, Gate, Gates, QuotaGate
from licorne_core.scheduling.order import app_key, queue_key, settle_priority
from licorne_core.scheduling.reserved import ReservedAsks


class Frontier:
    """The changes of one partition that the next pass has to take up.

    `resting` are the applications that the last passes found in need of a back-off, `ripening`
    those with asks that will be old enough for a reservation, and when. `reserved` are the asks
    with a reservation, `classes` says how many applications have asks of a class that wait, for a
    node or for a word of the RM, `types` the resource types that asks were heard of with, sorted.
    """

    __slots__ = (
        "_apps",
        "_index",
        "_leaves",
        "_tree",
        "classes",
        "gates",
        "reserved",
        "resting",
        "ripening",
        "runnable",
        "state_aware_as_fifo",
        "types",
    )

    def __init__(self, tree: QueueTree, index: NodeIndex) -> None:
        """Over these queues and nodes."""
        self._tree = tree
        self._index = index
        self._apps: dict[Application, Queue] = {}
        self._leaves: dict[Queue, None] = {}
        self.types: tuple[str, ...] = ()
        self.classes: dict[AskClass, int] = {}
        self.gates = Gates(index.starved)
        self.resting: list[Application] = []
        self.ripening: list[tuple[Application, float]] = []
        self.reserved = ReservedAsks(tree.root)
        self.state_aware_as_fifo = False
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
            queue.admission = StateAwareAdmission(queue.admission.starting)
            for app in queue.applications.values():
                self.app_changed(app, queue)
                app.ranking.wake_all()
        self.reserved.wake_all()
        self.runnable = True

    def forget(self, app: Application, leaf: Queue) -> None:
        """The application is gone; in a state-aware leaf the next one may be let in."""
        self._apps.pop(app, None)
        admission = leaf.admission
        admission.note(app, present=False)
        due = admission.next_accepted()
        if due is not None:
            self.app_changed(due, leaf)

    def class_came(self, ask_class: AskClass) -> None:
        """One more application asks for the class; a new resource type changes every key."""
        self.classes[ask_class] = self.classes.get(ask_class, 0) + 1
        for name, _ in ask_class.items:
            if name not in self.types:
                self.types = tuple(sorted((*self.types, name)))
                self._tree.shares_stale = True
        if ask_class.size is not ask_class:
            self.class_came(ask_class.size)

    def class_went(self, ask_class: AskClass, quotas: Iterable[Quota]) -> None:
        """One application less asks for the class.

        With the last one, what the class was found too large for is forgotten.
        """
        left = self.classes[ask_class] - 1
        if left:
            self.classes[ask_class] = left
        else:
            del self.classes[ask_class]
            self._index.drop(ask_class)
            for quota in quotas:
                quota.short_of.pop(ask_class, None)
        if ask_class.size is not ask_class:
            self.class_went(ask_class.size, quotas)

    def open(self, gate: Gate) -> None:
        """What the gate blocked is worth another look."""
        self.gates.open(gate)
        self.runnable = True

    def open_for(self, ask_class: AskClass, gate: Gate) -> None:
        """The same for a gate that only asks of a class stand at, reserved ones included."""
        self.open(gate)
        self.reserved.wake(ask_class)

    def node_changed(self, node: Node) -> None:
        """The node is new, has more room, is open again, or comes earlier: who can use it?"""
        for ask_class in self._index.changed(node):
            self.open_for(ask_class, ask_class)
        for ask_class in self._index.claimable(node):
            self.open((RESERVE, ask_class))
        if node.reservations:
            self.reserved.wake_on(node)
            self.runnable = True

    def room_in(self, quotas: Iterable[Quota]) -> None:
        """Something was freed: open the gates of the maxima that let more asks through now."""
        for quota in quotas:
            if quota.short_of:
                for ask_class in list(quota.short_of):
                    if ask_class not in self.classes:
                        del quota.short_of[ask_class]
                    elif within_max(quota, ask_class.items):
                        del quota.short_of[ask_class]
                        self.open_for(ask_class, QuotaGate(quota, ask_class))

    def may_run_again(self, quotas: Iterable[Quota]) -> None:
        """One application less runs: another one may start."""
        for quota in quotas:
            if quota.max_applications and may_run_one_more(quota):
                self.open((quota, RUNNING))
                self.reserved.wake_kept(RUNNING)

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

    def allocated(self, app: Application, leaf: Queue, *, same_priority: bool) -> None:
        """An ask of the application was served: rank what lies between it and root.

        In a fifo leaf an application keeps its place as long as its priority is the same.
        """
        stays = same_priority and app.pending and leaf.settings.app_sort is AppSortPolicy.FIFO
        if not stays:
            self.rank_app(app, leaf)
        for queue in leaf.lineage[:-1]:
            queue.share = share(queue)
            self.rank_queue(queue)

    def rank_app(self, app: Application, leaf: Queue) -> None:
        """Put the application in its place, or take it out when there is nothing to do for it."""
        if not self.is_state_aware(leaf):
            self._place(app, leaf, due=True)
            return
        admission = leaf.admission
        before = admission.next_accepted()
        admission.note(app, present=app.app_id in leaf.applications)
        self._place(
            app, leaf, due=app.state is not AppState.ACCEPTED or app is admission.next_accepted()
        )
        for other in (before, admission.next_accepted()):
            if other is not None and other is not app:
                self._place(other, leaf, due=other is admission.next_accepted())

    def is_state_aware(self, leaf: Queue) -> bool:
        """Whether new applications are let in one at a time (spec § 5.2, § 2.9 row 3)."""
        return leaf.settings.app_sort is AppSortPolicy.STATE_AWARE and not self.state_aware_as_fifo

    def starting_changed(self, leaf: Queue, starting: Application | None) -> None:
        """Another application is starting in a state-aware leaf, or none is any more."""
        admission = leaf.admission
        before = admission.next_accepted()
        admission.starting = starting
        for app in (before, admission.next_accepted()):
            if app is not None:
                self.app_changed(app, leaf)

    def _place(self, app: Application, leaf: Queue, *, due: bool) -> None:
        self.reserved.rank_app(app, leaf)
        present = app.pending and app.state in SCHEDULABLE and app.app_id in leaf.applications
        if present and due:
            leaf.ranking.put(app, app_key(app, leaf))
        else:
            leaf.ranking.discard(app)
            # Nobody looks inside until it comes back, and gates may open meanwhile.
            app.ranking.wake_all()

    def rank_queue(self, queue: Queue) -> None:
        """Put the queue in its place among its siblings (spec § 4.9: only those with pending)."""
        parent = queue.parent
        if parent is None:
            return
        if queue.pending and queue.state is not QueueState.STOPPED:
            key = queue_key(queue, priority_sort=parent.settings.priority_sort, types=self.types)
            parent.ranking.put(queue, key)
            self.reserved.rank_queue(queue, key)
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
