"""Wakeups: each call finds the blockers that a change may open.

Also here:

* Backlog: groups that found no room at their last try, each heard in its turn (spec § 8.6).
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import islice

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import TaskGroup
from licorne_core.model.apps.groups import AskGroup
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.model.quotas import Quota, may_run_one_more
from licorne_core.scheduling.node_search.candidates import NodeIndex
from licorne_core.scheduling.order import ReservedAsks
from licorne_core.scheduling.replacing import ReplacingApps
from licorne_core.scheduling.reservations.promises import ReservationLimits, reservers
from licorne_core.scheduling.waiting.blockers import GangWaits, RunningLimits, StoppedQueues
from licorne_core.scheduling.waiting.shortages import KeptNodes, QuotaShortages
from licorne_core.scheduling.waiting.waiting import Waiting
from licorne_core.values.ranking import Key


class Backlog:
    """Groups that no node took, or that were more than the cluster had left, in a ring.

    Always true: every group that waits, is `nowhere` and may go to any node is in it. Others may
    be: they are forgotten when it is their turn. A group that is tried again keeps its place.
    """

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        """Start empty."""
        self._groups: OrderedDict[AskGroup, None] = OrderedDict()

    def __contains__(self, group: AskGroup) -> bool:
        """True if it will have its turn."""
        return group in self._groups

    def note(self, group: AskGroup) -> None:
        """The group was tried, and there is no room for it."""
        if group.ask_class.required_node is None:
            self._groups[group] = None

    def forget(self, group: AskGroup) -> None:
        """Forget a group without waiting or assumed asks."""
        self._groups.pop(group, None)

    def first_groups(self, most: int) -> Iterable[AskGroup]:
        """So many at most, those whose turn comes first; former ones may be among them."""
        return islice(self._groups, most)

    def next_groups(self, most: int) -> Iterator[AskGroup | None]:
        """Yield so many groups at most, behind the last one yielded; None for a former one.

        The caller may stop early: the next call goes on there.
        """
        groups = self._groups
        for _ in range(min(most, len(groups))):
            group = next(iter(groups))
            if group.nowhere:
                groups.move_to_end(group)
                yield group
            else:
                del groups[group]
                yield None

    def clear(self) -> None:
        """Forget all groups."""
        self._groups.clear()


class Wakeups:
    """The blockers of one partition, and their waiting items."""

    __slots__ = (
        "_index",
        "backlog",
        "gang_waits",
        "kept_nodes",
        "replacing",
        "reservation_limits",
        "reserved",
        "running_limits",
        "shortages",
        "stopped_queues",
        "waiting",
    )

    def __init__(self, index: NodeIndex, nodes: NodeBook) -> None:
        """Start without waiting items."""
        self._index = index
        self.reservation_limits = ReservationLimits(nodes)
        self.reserved = ReservedAsks()
        self.replacing = ReplacingApps()
        self.waiting = Waiting()
        self.gang_waits = GangWaits()
        self.shortages = QuotaShortages()
        self.running_limits = RunningLimits()
        self.stopped_queues = StoppedQueues()
        self.kept_nodes = KeptNodes()
        self.backlog = Backlog()

    def clear(self) -> None:
        """Forget all waiting items."""
        self.waiting.clear()
        self.reserved = ReservedAsks()
        self.replacing = ReplacingApps()
        self.gang_waits = GangWaits()
        self.shortages = QuotaShortages()
        self.running_limits = RunningLimits()
        self.stopped_queues = StoppedQueues()
        self.kept_nodes.clear()
        self.backlog.clear()

    def node_improved(self, node: Node) -> None:
        """Wake items for a node that is new, has more room, is open again, or comes earlier."""
        for blocker in self._index.improved(node):
            self.waiting.changed(blocker)
        if node.reservations:
            self._wake_reserved(node)
        if self.replacing.wake_on(node):
            self.waiting.runnable = True
        for kept in self.kept_nodes.that_may_use(node):
            self.waiting.changed(kept)

    def node_filled(self, node: Node) -> None:
        """The node has less room, or the RM agreed to something there: that may be a victim."""
        self._index.took(node)
        if node.reservations:
            self._wake_reserved(node)

    def victims_changed(self, node: Node) -> None:
        """Note a change of the possible victims on the node."""
        self._index.victims_changed(node)
        if node.reservations:
            self._wake_reserved(node)

    def _wake_reserved(self, node: Node) -> None:
        """For asks that require the node, others may have to stop there than before (§ 9.5)."""
        self.reserved.wake_on(node)
        self.waiting.runnable = True

    def room_in(self, quotas: Iterable[Quota]) -> None:
        """Wake shapes that fit now, as something was freed below these maxima."""
        for quota in quotas:
            for blocker in self.shortages.that_may_fit(quota):
                self.waiting.changed(blocker)

    def may_run_again(self, quotas: Iterable[Quota]) -> None:
        """Wake applications that may start, as one less runs in these quotas."""
        for quota in quotas:
            limit = self.running_limits.find(quota)
            if limit is not None and may_run_one_more(quota):
                self.waiting.changed(limit)

    def may_reserve_again(self, app: Application) -> None:
        """Wake reservation requests, as a node less is reserved, or more may be."""
        for reserver in reservers(app):
            self._changed_limit(reserver)

    def cluster_resized(self, root: Queue) -> None:
        """More amounts may be allocated, or more nodes reserved, which are a part of all nodes."""
        self.room_in((root,))
        for limit in list(self.reservation_limits):
            self._changed_limit(limit.reserver)
        self.waiting.runnable = True

    def _changed_limit(self, reserver: Application | Queue) -> None:
        limit = self.reservation_limits.find(reserver)
        if limit is not None and limit.lets_through():
            self.waiting.changed(limit)

    def queue_started(self, queue: Queue) -> None:
        """Wake priority-pass items of a queue that is not stopped any more."""
        blocker = self.stopped_queues.find(queue)
        if blocker is not None and blocker.lets_through():
            self.waiting.changed(blocker)

    def placeholder_went(self, task_group: TaskGroup) -> None:
        """Wake real asks if no placeholder is open any more: they are normal ones then."""
        blocker = self.gang_waits.find(task_group)
        if blocker is not None and blocker.lets_through():
            self.waiting.changed(blocker)

    def app_key_changed(self, app: Application) -> None:
        """Rank priority-pass items anew, as the application or its leaf's settings changed."""
        self.replacing.app_key_changed(app)
        self.reserved.app_key_changed(app)

    def queue_key_changed(self, queue: Queue, key: Key) -> None:
        """The queue has this place among its siblings now."""
        if self.reserved.ready:
            self.reserved.queue_key_changed(queue, key)
        if self.replacing.ready:
            self.replacing.queue_key_changed(queue, key)

    @property
    def any_priority_pass(self) -> bool:
        """True if anything comes before the regular pass, and is ranked by queues' keys as well."""
        return bool(self.reserved.ready or self.replacing.ready)

    def all_keys_changed(self) -> None:
        """Every key may be another one, and of another form."""
        self.reserved.everything_changed()
        self.replacing.everything_changed()

    def app_counts(self, app: Application) -> None:
        """The application counts in its quotas: its reserved asks need not wait for its start."""
        if app.reserved:
            found = (request.reservation for request in app.reserved.values())
            self.reserved.wake([r for r in found if r is not None])
