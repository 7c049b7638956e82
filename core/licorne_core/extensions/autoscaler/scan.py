"""Scan for a shortage of nodes: asks that quotas admit but that fit no node (spec § 8.12).

An ask is outstanding if it was tried, fits no node, and fits in the headroom of its user, its
group, further quotas and its queues after the outstanding asks before it. The maximum of root does not
count: an autoscaler is to raise it. An ask that waits for its turn or for an answer of the RM is not
outstanding.
"""

from collections.abc import Iterable, Iterator
from heapq import heappop
from typing import NamedTuple

from licorne_core.extensions.autoscaler.messages import ContainerState
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.groups import AskGroup, waits
from licorne_core.model.queues.queue import Queue
from licorne_core.model.queues.users import in_order
from licorne_core.model.quotas import Quota, headroom
from licorne_core.partitions.jobs import Job
from licorne_core.standard.predicates.results import PredicateResults
from licorne_core.values.resources import Items

REASON = "request is waiting for cluster resources become available"

PART = 1_000
"""Number of queues, applications, groups and asks read between two pauses: some milliseconds of work."""


class Outstanding(NamedTuple):
    """A group, and the number of its outstanding asks, which are its first asks in order."""

    leaf: Queue
    app: Application
    group: AskGroup
    asks: int


Scan = Iterator[Outstanding | None]
"""Results of a scan; None for a step without a result."""


def scan(root: Queue, results: PredicateResults) -> Scan:
    """Every group that was tried, in the order of the pass, with its number of outstanding asks, or 0.

    The reader may pause at every step. Later changes may be missed.
    """
    rooms = _Rooms(root)
    for leaf in _leaves(root):
        yield None
        for app in () if leaf is None else _applications(leaf):
            yield None
            for group in () if app is None else _groups(app, results):
                if leaf is None or app is None or group is None:
                    yield None
                else:
                    asks = rooms.take(app.quotas, group.ask_class.items, group.waiting)
                    yield Outstanding(leaf, app, group, asks)


class Inspection(Job):
    """A scan for unreported outstanding asks, which marks them as reported."""

    def __init__(self, root: Queue, results: PredicateResults, now: float) -> None:
        """Begin a scan of the queues of a partition."""
        self.states: list[ContainerState] = []
        """Asks found, which the caller removes."""
        self._found = scan(root, results)
        super().__init__(now)

    def steps(self) -> Iterator[int]:
        """Report the first asks of each group; see `Job`."""
        for found in self._found:
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
    """Remaining headroom of each quota."""

    def __init__(self, root: Queue) -> None:
        self._root = root
        self._left: dict[Quota, dict[str, int]] = {}

    def take(self, quotas: Iterable[Quota], items: Items, wanted: int) -> int:
        """Reserve headroom for at most `wanted` asks of one size; return the number of asks that fit."""
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
    """Applications to scan; in the order of the pass if one may use up the headroom of the next."""
    bounded = any(queue.max is not None for queue in leaf.lineage[:-1])
    applications = list(leaf.applications.values())
    for app in () if bounded else applications:
        if any(quota.max is not None for quota in (*app.trackers, *app.further)):
            bounded = True
            break
        yield None
    if bounded:
        yield from in_order(leaf.ranking)
    else:
        for app in applications:
            yield app if app.is_ranked else None


def _groups(app: Application, results: PredicateResults) -> Iterator[AskGroup | None]:
    """Groups without a required node that fit no node at the last try, in order.

    Groups of a class with unanswered predicate checks are left out: the RM has not refused their nodes.
    """
    if not app.pending_count:
        return
    for group in app.ranking.in_order() if len(app.groups) > 1 else list(app.groups.values()):
        if (
            isinstance(group, AskGroup)
            and group.waiting
            and group.attempted
            and (group.nowhere or group.no_place)
            and app.gang.open_group(group.key[1], placeholder=group.key[2]) is None
            and not results.is_silent_about(group.ask_class)
            and group.ask_class.required_node is None
        ):
            yield group
        else:
            yield None
