"""What quota would admit and no node takes: how much the cluster is short of (spec § 8.12).

An ask counts when it was looked at, no node took it, and it fits in what its user, its group and
its queues may still have, behind those that come before it. The size of the cluster does not bound
it: that is what an autoscaler is to change. An ask that waits for its turn or for an answer of the
RM is not without a node.
"""

from collections.abc import Iterable, Iterator
from heapq import nsmallest
from itertools import chain
from typing import NamedTuple

from licorne_core.apps.application import Application
from licorne_core.apps.groups import AskGroup, waits
from licorne_core.apps.requests import Place
from licorne_core.effects import ContainerState
from licorne_core.partition import Partition
from licorne_core.queues.queue import Queue
from licorne_core.quotas import Quota, headroom
from licorne_core.resources import Items
from licorne_core.scheduling.predicate_results import PredicateResults

REASON = "request is waiting for cluster resources become available"

PART = 1_000
"""Groups that are looked at, and asks told, before others have their turn: some milliseconds."""


class Outstanding(NamedTuple):
    """The first `asks` of a group, in order, wait for a larger cluster."""

    leaf: Queue
    app: Application
    group: AskGroup
    asks: int


Scan = Iterator[Outstanding]


def scan(partition: Partition) -> Scan:
    """Every group that was tried, in that order, with the number of its asks, which may be 0.

    The scan may be interrupted. It need not see what changes in the meantime.
    """
    rooms = _Rooms(partition.tree.root)
    for leaf in _leaves(partition.tree.root):
        for app in _applications(leaf):
            for group in _groups(app, partition.results):
                asks = rooms.take(app.quotas, group.ask_class.items, group.waiting)
                yield Outstanding(leaf, app, group, asks)


def unreported(scanning: Scan) -> tuple[list[ContainerState], Scan | None]:
    """The asks in the next part of a scan that the RM was not told of, and what is left of it.

    They count as reported from now on.
    """
    states: list[ContainerState] = []
    for _ in range(PART):
        found = next(scanning, None)
        if found is None:
            return states, None
        missing = found.asks - found.group.reported
        for place in _first_unreported(found.group, min(missing, PART - len(states))):
            place.request.reported = True
            found.group.reported += 1
            app_id, key = found.app.app_id, place.request.key
            states.append(ContainerState(app_id=app_id, key=key, reason=REASON))
        if len(states) == PART:
            return states, chain((found,), scanning)
    return states, scanning


def _first_unreported(group: AskGroup, count: int) -> list[Place]:
    if count <= 0:
        return []
    waiting = (place for place in group.heap if waits(place) and not place.request.reported)
    return nsmallest(count, waiting)


class _Rooms:
    """What is left of each maximum for those who come next."""

    def __init__(self, root: Queue) -> None:
        self._root = root
        self._left: dict[Quota, dict[str, int]] = {}

    def take(self, quotas: Iterable[Quota], items: Items, wanted: int) -> int:
        """How many of so many asks fit; they take their room."""
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


def _leaves(queue: Queue) -> Iterator[Queue]:
    if queue.is_leaf:
        yield queue
        return
    for child in queue.ranking.ordered():
        yield from _leaves(child)


def _applications(leaf: Queue) -> Iterable[Application]:
    """Those that are looked at, in order where one may take what the next one wants."""
    bounded = any(queue.max is not None for queue in leaf.lineage[:-1]) or any(
        tracker.max is not None for app in leaf.applications.values() for tracker in app.trackers
    )
    if bounded:
        return leaf.ranking.ordered()
    return [app for app in leaf.applications.values() if app in leaf.ranking]


def _groups(app: Application, results: PredicateResults) -> Iterator[AskGroup]:
    """Those that were tried, found no node and may go to any, in order.

    A node that is passed over because the RM did not answer was not refused.
    """
    if not app.pending_count:
        return
    ranked = app.ranking.ordered() if len(app.groups) > 1 else list(app.groups.values())
    for group in ranked:
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
