"""Partitions that are gone, taken apart so that their memory comes back (DESIGN § 2).

The things of a partition know one another, so Python frees none of them by itself when the
partition is dropped. Waiting for its garbage collector would mean a pass over everything that all
RMs have. So what is gone is taken apart, a slice at a time.
"""

from collections import deque

from licorne_core.apps.application import Application
from licorne_core.partition import Partition
from licorne_core.scheduling.waiting import Waiting

MOST = 1_000
"""Requests, applications and nodes that are let go at a time."""


class Remains:
    """The partitions that are gone and still take memory."""

    __slots__ = ("_partitions",)

    def __init__(self) -> None:
        """None."""
        self._partitions: deque[Partition] = deque()

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._partitions)

    def add(self, partition: Partition) -> None:
        """A partition is gone; nobody uses anything of it any more."""
        self._partitions.append(partition)

    def take_apart(self) -> None:
        """Let some of what the oldest has go."""
        if self._partitions and not _take_apart(self._partitions[0], MOST):
            self._partitions.popleft()


def _take_apart(partition: Partition, most: int) -> bool:
    """Let so many things go; whether there are more."""
    left = most
    applications, nodes = partition.applications, partition.nodes.by_id
    while applications and left > 0:
        app = next(reversed(applications.values()))
        left = _let_go(app, partition.wakeups.waiting, left)
        if not (app.requests or app.groups):
            applications.popitem()
    while nodes and left > 0:
        _, node = nodes.popitem()
        node.allocations = {}
        node.reservations = {}
        left -= 1
    if applications or nodes:
        return True
    _forget_derived(partition)
    return False


def _forget_derived(partition: Partition) -> None:
    """Let the last things go that know applications, groups of asks and nodes."""
    for queue in partition.tree.walk():
        queue.applications.clear()
        queue.ranking.clear()
    partition.completed.clear()
    partition.rejected.clear()
    partition.wakeups.clear()
    partition.nodes.changed.clear()


def _let_go(app: Application, waiting: Waiting, left: int) -> int:
    """Let requests and groups of the application go, and it with the last of them.

    Returns how many things are left to let go in this slice.
    """
    requests, groups = app.requests, app.groups
    while requests and left > 0:
        _, request = requests.popitem()
        if request.is_pending and request.group.heap:
            # There is at least one place for each that is pending; which one goes is all the same.
            request.group.heap.pop()
        request.partner = request.promise = request.reservation = None
        left -= 1
    while groups and left > 0 and not requests:
        _, group = groups.popitem()
        for item in (group, group.reservation_request, group.preemption_request):
            if item is not None:
                waiting.unpark(item)
        group.app = group.reservation_request = group.preemption_request = None
        group.heap.clear()
        left -= 1
    if not groups and not requests:
        waiting.unpark(app)
        # An emptied dictionary keeps its memory; another one has none.
        app.requests, app.groups = {}, {}
        app.reserved.clear()
        app.ranking.clear()
        app.leaf, app.quotas, app.trackers = None, (), ()
        left -= 1
    return left
