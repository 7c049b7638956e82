"""Readings for a history and for summaries of runs: a few figures of an object, at almost no cost."""

from collections.abc import Iterator, KeysView, Mapping
from heapq import nlargest
from typing import NamedTuple

from licorne_core.messages.commands import Hold, TerminationType
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import BOOKED, Request, RequestState, is_ask, seconds_lost
from licorne_core.model.nodes.book import utilization
from licorne_core.model.queues.queue import Queue
from licorne_core.partitions.partition import Partition
from licorne_core.values.asks import Allocation, Ask
from licorne_core.values.errors import NotFound, shown
from licorne_core.values.ids import AllocationKey, AppId, PartitionName, QueuePath, RmId
from licorne_core.values.resources import EMPTY, Resources
from licorne_core.views.partitions import PartitionViews
from licorne_core.views.queues import bounded, level_by_level

PART = 100
"""Number of queues and nodes that are read without a pause."""

TENTHS = 10


class QueueReading(NamedTuple):
    """Amounts of a queue. They are running totals of the core, for immediate reading only."""

    allocated: Mapping[str, int]
    pending: Mapping[str, int]
    guaranteed: Resources
    max: Resources
    """The maximum; a missing type is unlimited."""
    applications: int
    """Number of running applications."""


class NodesReading(NamedTuple):
    """Number of nodes by tenth of weighted use; nodes with more than nine tenths count in the last."""

    nodes: int
    fill: tuple[int, ...]


class Numbers(NamedTuple):
    """Numbers of closed nodes, of reservations, and of users with applications or limits."""

    closed: int
    reservations: int
    users: int


class LargeQueue(NamedTuple):
    """A queue, with its used and requested amounts relative to its partition."""

    size: float
    partition: PartitionName
    path: QueuePath


class PartitionReading(NamedTuple):
    """Totals of a partition; its amounts are running totals of the core, like those of queues."""

    capacity: Resources
    allocated: Mapping[str, int]
    asks: int
    """Number of asks that wait for a node, or for an answer about a node."""


class RequestReading(NamedTuple):
    """An ask and its current state."""

    ask: Ask
    allocation: Allocation | None
    is_ask: bool
    """True if the RM counts it as an ask and not as an allocation."""
    is_pending: bool
    """True if the ask waits for a node."""
    is_booked: bool
    """True if the request is counted in its queues and for its user."""
    stop: TerminationType | None
    """The termination with which the RM was asked to stop it; None if it was not asked."""


class ReadingViews(PartitionViews):
    """Readings of RMs, partitions, queues, nodes and requests."""

    def partitions_made(self) -> tuple[PartitionName, ...]:
        """All partitions in the order of their creation."""
        return tuple(self._registry.partitions)

    def partition_meant(self, rm_id: RmId, named: str) -> PartitionName | None:
        """The partition that an item of an RM names; None if the RM has no partition of that name."""
        rm = self._registry.rms.get(rm_id)
        partition = None if rm is None else rm.named(named)
        return None if partition is None else partition.name

    def partition_reading(self, partition: PartitionName) -> PartitionReading:
        """Read a partition; raises NotFound."""
        owner = self._registry.partition(partition)
        capacity = owner.rm.core.floating.shown(owner.nodes.total)
        return PartitionReading(capacity, owner.tree.root.allocated, owner.tally.asks)

    def holds(self, partition: PartitionName) -> tuple[Hold, ...]:
        """The reasons to schedule nothing in a partition; raises NotFound."""
        return tuple(self._registry.partition(partition).holds)

    def below_guarantee(self, partition: PartitionName) -> Iterator[QueuePath | None]:
        """The queues below their guarantee of a type that their waiting asks request.

        None marks a possible pause of the reader.
        """
        return _below_guarantee(self._registry.partition(partition).tree.root)

    def app_ids(self, partition: PartitionName) -> KeysView[AppId]:
        """The ids of active applications of a partition, as a live view; empty for an unknown partition."""
        owner = self._registry.partitions.get(partition)
        return {}.keys() if owner is None else owner.applications.keys()

    def queue_of(self, partition: PartitionName, app_id: AppId) -> QueuePath | None:
        """The queue of an active application; None if there is no such application."""
        app = self._active(partition, app_id)
        return None if app is None else app.queue_path

    def request(self, partition: PartitionName, app_id: AppId, key: AllocationKey) -> RequestReading | None:
        """Read a request of an active application; None if there is none."""
        app = self._active(partition, app_id)
        request = None if app is None else app.requests.get(key)
        return None if request is None else _request(request)

    def requests(self, partition: PartitionName, app_id: AppId) -> Iterator[RequestReading]:
        """Read all requests of an active application, if there is one."""
        app = self._active(partition, app_id)
        return iter(()) if app is None else map(_request, app.requests.values())

    def seconds_lost(self, partition: PartitionName, app_id: AppId, key: AllocationKey, now: float) -> float:
        """Seconds of work that would be lost if an allocation was stopped now; 0.0 if there is none."""
        app = self._active(partition, app_id)
        request = None if app is None else app.requests.get(key)
        if request is None or request.allocation is None:
            return 0.0
        return seconds_lost(request, None, now)

    def _active(self, partition: PartitionName, app_id: AppId) -> Application | None:
        owner = self._registry.partitions.get(partition)
        return None if owner is None else owner.applications.get(app_id)

    def registrations(self) -> list[tuple[RmId, float, int]]:
        """Id, time and session of the registration of each RM."""
        return [(rm.rm_id, rm.registered_time, rm.session) for rm in self._registry.rms.values()]

    def reading(self, partition: PartitionName, path: str) -> QueueReading:
        """Read a queue; raises NotFound."""
        owner = self._registry.partition(partition)
        queue = owner.tree.get(path)
        if queue is None:
            raise NotFound(f"queue {shown(path)} not found")
        return QueueReading(
            queue.allocated,
            queue.pending,
            queue.guaranteed or EMPTY,
            bounded(queue, owner, queue.max or EMPTY),
            queue.running_applications,
        )

    def numbers(self, partition: PartitionName) -> Numbers:
        """Numbers of closed nodes, reservations and users in a partition; raises NotFound."""
        owner = self._registry.partition(partition)
        nodes = owner.nodes
        closed = sum(node_id in nodes.by_id for node_id in nodes.closed)
        return Numbers(closed, len(owner.wakeups.reserved), len(owner.limits.users))

    def nodes_reading(self, partition: PartitionName) -> Iterator[NodesReading | None]:
        """Read all nodes, after a None wherever the reader may pause."""
        return _nodes(self._registry.partition(partition))

    def large_queues(self, partition: PartitionName, most: int) -> Iterator[LargeQueue | None]:
        """The `most` largest queues, after a None wherever the reader may pause."""
        return _largest(self._registry.partition(partition), most)


def _request(request: Request) -> RequestReading:
    state, stop = request.state, None
    if state is RequestState.PREEMPTING:
        stop = TerminationType.PREEMPTED_BY_SCHEDULER
    elif state is RequestState.RELEASING:
        is_replaced = request.partner is not None
        stop = TerminationType.PLACEHOLDER_REPLACED if is_replaced else TerminationType.TIMEOUT
    return RequestReading(
        request.ask, request.allocation, is_ask(request), request.is_pending, state in BOOKED, stop
    )


def _below_guarantee(root: Queue) -> Iterator[QueuePath | None]:
    queues, number = [root], 0
    while queues:
        queue, number = queues.pop(), number + 1
        if not number % PART:
            yield None
        pending = queue.pending
        if not pending:
            continue
        queues += queue.children.values()
        allocated = queue.allocated
        for name, amount in (queue.guaranteed or {}).items():
            if amount > allocated.get(name, 0) and pending.get(name, 0) > 0:
                yield queue.path
                break


def _nodes(partition: Partition) -> Iterator[NodesReading | None]:
    fill = [0] * TENTHS
    policy = partition.nodes.order.policy
    for number, node in enumerate(list(partition.nodes.by_id.values()), 1):
        fill[max(0, min(TENTHS - 1, int(utilization(node, policy) * TENTHS)))] += 1
        if not number % PART:
            yield None
    yield NodesReading(sum(fill), tuple(fill))


def _largest(partition: Partition, most: int) -> Iterator[LargeQueue | None]:
    total = partition.nodes.total
    sizes: list[LargeQueue] = []
    number = 0
    for path in level_by_level(partition.tree.root):
        queue = None if path is None else partition.tree.get(path)
        if queue is not None and path is not None:
            size = max(
                (
                    (queue.allocated.get(name, 0) + queue.pending.get(name, 0)) / amount
                    for name, amount in total.items()
                    if amount > 0
                ),
                default=0.0,
            )
            sizes.append(LargeQueue(size, partition.name, path))
            number += 1
            if not number % PART:
                sizes = nlargest(most, sizes)
                yield None
    yield from nlargest(most, sizes)
