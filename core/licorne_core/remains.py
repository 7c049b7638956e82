"""Partitions that are gone, taken apart so that their memory comes back (DESIGN § 2).

The things of a partition know one another, so Python frees none of them by itself when the
partition is dropped. Waiting for its garbage collector would mean a pass over everything that all
RMs have. So what is gone is taken apart, a slice at a time.
"""

from collections import deque

from licorne_core.apps.application import Application
from licorne_core.partition import Partition

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
        left = _let_go(app, left)
        if not app.requests:
            applications.popitem()
    while nodes and left > 0:
        _, node = nodes.popitem()
        node.allocations = {}
        node.reservations = {}
        left -= 1
    if applications or nodes:
        return True
    for queue in partition.tree.walk():
        queue.applications.clear()
        queue.ranking.clear()
    partition.completed.clear()
    partition.rejected.clear()
    return False


def _let_go(app: Application, left: int) -> int:
    """Let requests of the application go, and it with the last; how many things are left to."""
    requests = app.requests
    while requests and left > 0:
        _, request = requests.popitem()
        request.partner = request.promise = request.reservation = None
        if request.is_pending:
            group = request.group
            if group.heap:
                group.heap.pop()
        left -= 1
    if not requests:
        # An emptied dictionary keeps its memory; another one has none.
        app.requests = {}
        for group in app.groups.values():
            group.blocker = group.app = None
            group.reservation_request = group.preemption_request = None
            group.heap.clear()
            group.log.clear()
        app.blocker = None
        app.groups.clear()
        app.reserved.clear()
        app.ranking.clear()
        app.leaf, app.quotas, app.trackers = None, (), ()
        left -= 1
    return left
