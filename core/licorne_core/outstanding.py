"""What quota would admit and no node takes: how much the cluster is short of (spec § 8.12).

An ask counts when it was looked at and fits in what its user, its group and its queues may still
have, behind those that come before it. The size of the cluster does not bound it: that is what an
autoscaler is to change.
"""

from collections.abc import Iterable, Iterator
from heapq import nsmallest
from itertools import chain
from typing import NamedTuple

from licorne_core.apps.application import Application
from licorne_core.apps.runs import Claim, PendingAsk, Run
from licorne_core.effects import ContainerState
from licorne_core.partition import Partition
from licorne_core.queues.queue import Queue
from licorne_core.quotas import Quota
from licorne_core.resources import Items

REASON = "request is waiting for cluster resources become available"

PART = 1_000
"""Runs that are looked at, and asks told, before others have their turn: some milliseconds."""


class Outstanding(NamedTuple):
    """So many asks of a run, the first in order, wait for a larger cluster."""

    leaf: Queue
    app: Application
    run: Run
    asks: int


Walk = Iterator[Outstanding]


def outstanding(partition: Partition) -> Walk:
    """All of them, in the order of queues, applications and runs."""
    return (found for found in walk(partition) if found.asks)


def walk(partition: Partition) -> Walk:
    """Every run that was looked at, in that order, with the number of its asks: it may be none.

    Who lays the walk aside for a while finds what has come in the meantime, or not; nothing worse.
    """
    rooms = _Rooms(partition.tree.root)
    for leaf in _leaves(partition.tree.root):
        for app in _applications(leaf):
            for run in _runs(app):
                asks = rooms.take(app.quotas, run.ask_class.items, run.waiting)
                yield Outstanding(leaf, app, run, asks)


def untold(walking: Walk) -> tuple[list[ContainerState], Walk | None]:
    """The asks in the next part of a walk that the RM has not been told of, and what is left of it.

    They count as told from now on.
    """
    states: list[ContainerState] = []
    for _ in range(PART):
        found = next(walking, None)
        if found is None:
            return states, None
        missing = found.asks - len(found.run.told)
        for entry in _first_untold(found.run, min(missing, PART - len(states))):
            found.run.told.add(entry[3].key)
            app_id, key = found.app.app_id, entry[3].key
            states.append(ContainerState(app_id=app_id, key=key, reason=REASON))
        if len(states) == PART:
            return states, chain((found,), walking)
    return states, walking


def _first_untold(run: Run, count: int) -> list[PendingAsk]:
    if count <= 0:
        return []
    told = run.told
    waiting = (entry for entry in run.heap if run.waits(entry) and entry[3].key not in told)
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
            assert quota.max is not None, "only what has a maximum is asked for"
            used = quota.allocated
            room = {name: limit - used.get(name, 0) for name, limit in quota.max.items()}
            self._left[quota] = room
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


def _runs(app: Application) -> list[Run]:
    """Those that were looked at and may go to any node, in order."""
    if not app.pending:
        return []
    ranked = app.ranking.ordered() if len(app.runs) > 1 else app.runs.values()
    return [
        run
        for run in ranked
        if not isinstance(run, Claim)
        and run.waiting
        and run.attempted
        and run.ask_class.required_node is None
    ]
