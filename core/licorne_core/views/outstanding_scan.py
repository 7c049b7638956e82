"""Scan for the shortage of a cluster: asks that quota admits and no node takes (spec § 8.12).

An ask counts when it was tried, no node took it, and it fits in the headroom of its user, its group
and its queues, behind the asks before it. The size of the cluster does not bound it: an autoscaler
is to change that. An ask that waits for its turn or for an answer of the RM is not without a node.
"""

from collections.abc import Iterable, Iterator
from heapq import heappop
from typing import NamedTuple

from licorne_core.messages.effects import ContainerState
from licorne_core.messages.reports import OutstandingShape
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.groups import AskGroup, waits
from licorne_core.model.queues.queue import Queue
from licorne_core.model.quotas import Quota, headroom
from licorne_core.partitions.jobs import Job
from licorne_core.partitions.partition import Partition
from licorne_core.scheduling.predicates import PredicateResults
from licorne_core.values.asks import Shape
from licorne_core.values.ids import QueuePath
from licorne_core.values.resources import Items
from licorne_core.values.slices import in_runs

REASON = "request is waiting for cluster resources become available"

PART = 1_000
"""Queues, applications, groups and asks that are looked at before others have their turn: at most
some milliseconds."""


class Outstanding(NamedTuple):
    """The first `asks` of a group, in order, wait for a larger cluster."""

    leaf: Queue
    app: Application
    group: AskGroup
    asks: int


Scan = Iterator[Outstanding | None]
"""Results, and a None for each look at something else."""


def scan(partition: Partition) -> Scan:
    """Every group that was tried, in that order, with the number of its asks, which may be 0.

    The scan may be interrupted. It need not see what changes in the meantime.
    """
    rooms = _Rooms(partition.tree.root)
    for leaf in _leaves(partition.tree.root):
        yield None
        for app in () if leaf is None else _applications(leaf):
            yield None
            for group in () if app is None else _groups(app, partition.results):
                if leaf is None or app is None or group is None:
                    yield None
                else:
                    asks = rooms.take(app.quotas, group.ask_class.items, group.waiting)
                    yield Outstanding(leaf, app, group, asks)


class Inspection(Job):
    """A scan for the asks that were not reported yet; they count as reported once it finds them."""

    def __init__(self, partition: Partition, now: float) -> None:
        """Begin a scan."""
        self.states: list[ContainerState] = []
        """Asks that were found, until they are taken away."""
        self._partition = partition
        super().__init__(now)

    def steps(self) -> Iterator[int]:
        """Report the first asks of each group; see `Job`."""
        for found in scan(self._partition):
            yield 1
            if found is not None:
                yield from self._report(found)

    def _report(self, found: Outstanding) -> Iterator[int]:
        group, app_id = found.group, found.app.app_id
        while group.reported < found.asks and (heap := group.unreported()):
            place = heappop(heap)
            request = place.request
            if waits(place) and not request.reported:
                request.reported = True
                group.reported += 1
                self.states.append(ContainerState(app_id=app_id, key=request.key, reason=REASON))
            yield 1


class _Rooms:
    """Headroom of each maximum for the next asks."""

    def __init__(self, root: Queue) -> None:
        self._root = root
        self._left: dict[Quota, dict[str, int]] = {}

    def take(self, quotas: Iterable[Quota], items: Items, wanted: int) -> int:
        """Take room for as many of so many asks as fit; return their number."""
        bounds = [self._room(q) for q in quotas if q.max is not None and q is not self._root]
        for room in bounds:
            for name, value in items:
                if name in room:
                    wanted = min(wanted, max(room[name], 0) // value)
        for room in bounds:
            for name, value in items:
                if name in room:
                    room[name] -= wanted * value
        return wanted

    def _room(self, quota: Quota) -> dict[str, int]:
        room = self._left.get(quota)
        if room is None:
            room = self._left[quota] = headroom(quota)
        return room


def _leaves(queue: Queue) -> Iterator[Queue | None]:
    if queue.is_leaf:
        yield queue
        return
    for child in queue.ranking.in_order():
        yield None
        if child is not None:
            yield from _leaves(child)


def _applications(leaf: Queue) -> Iterator[Application | None]:
    """Applications to scan, in order where one may take the resources of the next."""
    bounded = any(queue.max is not None for queue in leaf.lineage[:-1])
    applications = list(leaf.applications.values())
    for app in () if bounded else applications:
        if any(tracker.max is not None for tracker in app.trackers):
            bounded = True
            break
        yield None
    if bounded:
        yield from leaf.ranking.in_order()
    else:
        for app in applications:
            yield app if app in leaf.ranking else None


def _groups(app: Application, results: PredicateResults) -> Iterator[AskGroup | None]:
    """Groups that were tried, found no node and may go to any, in order.

    A node that is passed over because the RM did not answer was not refused.
    """
    if not app.pending_count:
        return
    for group in app.ranking.in_order() if len(app.groups) > 1 else list(app.groups.values()):
        if (
            isinstance(group, AskGroup)
            and group.waiting
            and group.attempted
            and group.nowhere
            and app.gang.open_group(group.key[1], placeholder=group.key[2]) is None
            and not results.is_silent_about(group.ask_class)
            and group.ask_class.required_node is None
        ):
            yield group
        else:
            yield None


_Size = tuple[int, Shape, dict[QueuePath, int]]
"""A size: minus its number of asks, its amounts, and its number of asks by queue."""


def outstanding_shapes(found: Iterable[Outstanding | None]) -> Iterator[OutstandingShape | None]:
    """Outstanding asks by size, the most frequent first.

    There is a None wherever the reader may pause.
    """
    sizes: dict[Shape, dict[QueuePath, int]] = {}
    for one in found:
        if one is not None and one.asks:
            queues = sizes.setdefault(one.group.ask_class.shape, {})
            queues[one.leaf.path] = queues.get(one.leaf.path, 0) + one.asks
        yield None
    items = ((-sum(queues.values()), size, queues) for size, queues in sizes.items())
    for size in in_runs(items, key=_rank):
        if size is None:
            yield None
        else:
            yield OutstandingShape(resources=size[1].resources, count=-size[0], queues=size[2])


def _rank(size: _Size) -> tuple[int, Shape]:
    return size[:2]
