"""Disposal of removed partitions, so that their memory comes back (DESIGN § 2).

The things of a partition know one another, so Python frees none of them by itself when the
partition is dropped. Waiting for its garbage collector would mean a pass over everything that all
RMs have. So a removed partition is taken apart, a slice at a time.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any

from licorne_core.model.apps.application import Application
from licorne_core.partitions.jobs import Slice
from licorne_core.partitions.partition import Partition
from licorne_core.scheduling.waiting.wakeups import Wakeups

MOST = 1_000
"""Requests, applications, nodes, allocations and queues that are let go at a time."""


class Disposal:
    """The partitions that are gone and still take memory."""

    __slots__ = ("count", "gone")

    def __init__(self) -> None:
        """Start empty."""
        self.count = 0
        """Number of removed partitions so far."""
        self.gone: deque[Iterator[int]] = deque()
        """Progress of each disposal."""

    def add(self, partition: Partition) -> None:
        """Add a removed partition, which must not be used any more."""
        self.count += 1
        self.gone.append(_take_apart(partition))

    def take_apart(self) -> None:
        """Release a slice of the oldest partition; there has to be one."""
        if Slice(MOST).spend(self.gone[0]):
            self.gone.popleft()


def _take_apart(partition: Partition) -> Iterator[int]:
    """Release all things, step by step; each step yields the number of things released."""
    wakeups, applications = partition.wakeups, partition.applications
    # They know the partition.
    partition.job = partition.inspection = None
    for reservation in list(wakeups.reserved):
        wakeups.reserved.remove(reservation)
        yield 1
    while applications:
        _, app = applications.popitem()
        yield from _let_go(app, wakeups)
    yield from partition.index.clear()
    nodes = partition.nodes.by_id
    while nodes:
        _, node = nodes.popitem()
        partition.nodes.changed.forget(node)
        for things in (node.allocations, node.foreign, node.reservations):
            yield from _empty(things)
        yield 1
    yield from _empty(partition.foreign)
    # The last things that know applications, groups of asks and nodes.
    yield from partition.tree.take_apart()
    yield from _empty(partition.completed)
    yield from _empty(partition.rejected)
    partition.wakeups.clear()
    partition.nodes.changed.clear()


def _empty(things: dict[Any, Any]) -> Iterator[int]:
    while things:
        things.popitem()
        yield 1


def _let_go(app: Application, wakeups: Wakeups) -> Iterator[int]:
    """Release requests and groups of the application, and it with the last of them."""
    waiting = wakeups.waiting
    wakeups.replacing.forget(app)
    requests, groups = app.requests, app.groups
    while requests:
        key, request = requests.popitem()
        if app.backing_off.pop(key, None) is None and request.is_pending and request.group.heap:
            # There is at least one place for each that is pending; which one goes is all the same.
            request.group.heap.pop()
        # Its gang and its RM's checks may still have the request: nothing leads on from there.
        request.group = request.partner = request.promise = request.reservation = None
        yield 1
    while groups:
        _, group = groups.popitem()
        for item in (group, group.reservation_request, group.preemption_request):
            if item is not None:
                waiting.withdraw(item)
        wakeups.backlog.forget(group)
        group.app = group.reservation_request = group.preemption_request = None
        group.let_go()
        yield 1
    waiting.unpark(app)
    # An emptied dictionary keeps its memory; another one has none.
    app.requests, app.groups = {}, {}
    app.reserved.clear()
    app.forget_groups()
    app.leaf, app.quotas, app.trackers = None, (), ()
    yield 1
