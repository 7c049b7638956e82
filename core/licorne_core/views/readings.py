"""Readings for a history: few numbers of a thing, which cost next to nothing, again and again."""

from collections.abc import Iterator, Mapping
from heapq import nlargest
from typing import NamedTuple

from licorne_core.model.nodes.book import utilization
from licorne_core.partitions.partition import Partition
from licorne_core.values.errors import NotFound, shown
from licorne_core.values.ids import PartitionName, QueuePath, RmId
from licorne_core.values.resources import EMPTY, Resources
from licorne_core.views.partitions import PartitionViews
from licorne_core.views.queues import bounded, level_by_level

PART = 100
"""Queues and nodes that are read without a pause."""

TENTHS = 10


class QueueReading(NamedTuple):
    """Amounts of a queue. They are running totals of the core: read them, do not keep them."""

    allocated: Mapping[str, int]
    pending: Mapping[str, int]
    guaranteed: Resources
    max: Resources
    """A type that is missing has no maximum."""
    applications: int
    """Running ones."""


class NodesReading(NamedTuple):
    """Nodes by tenths of their weighted use; a node with more than nine tenths is in the last."""

    nodes: int
    fill: tuple[int, ...]


class Numbers(NamedTuple):
    """Nodes that operators drained, reservations of nodes, and users that have applications or limits."""

    cordoned: int
    reservations: int
    users: int


class LargeQueue(NamedTuple):
    """A queue, by what is used and wants to be used in it, relative to its partition."""

    size: float
    partition: PartitionName
    path: QueuePath


class ReadingViews(PartitionViews):
    """Readings of RMs, queues and nodes."""

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
        """Numbers of things in a partition of which an operator wants to know that there are some."""
        owner = self._registry.partition(partition)
        nodes = owner.nodes
        cordoned = sum(node_id in nodes.by_id for node_id in nodes.cordons)
        return Numbers(cordoned, len(owner.wakeups.reserved), len(owner.limits.users))

    def nodes_reading(self, partition: PartitionName) -> Iterator[NodesReading | None]:
        """Read all nodes, after a None wherever the reader may pause."""
        return _nodes(self._registry.partition(partition))

    def large_queues(self, partition: PartitionName, most: int) -> Iterator[LargeQueue | None]:
        """The largest queues, after a None wherever the reader may pause."""
        return _largest(self._registry.partition(partition), most)


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
