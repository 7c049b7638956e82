"""Checks of the waiting relation (rules W1 to W5 of `invariants.py`)."""

from collections.abc import Iterator
from typing import Any

from licorne_core.messages.commands import Hold
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.queues.queue import stopped_above
from licorne_core.partitions.partition import Partition
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.scheduling.waiting.waiting import Parked, way_up
from licorne_core.values.errors import InvariantBroken
from licorne_core.views.explain import first_failing, subject_of
from licorne_core.views.explain_nodes import nodes_check


def check_waiting(partition: Partition) -> None:
    """Raise InvariantBroken on a broken rule, with its name and place."""
    for item in _parked(partition):
        _check_parked(item)
    _check_waiting_lines(partition)
    for blocker in _blockers(partition):
        if blocker.is_unused:
            raise InvariantBroken(f"W3: {blocker!r} is kept and blocks nobody")
    if partition.cycle.reserving:
        _check_backlog(partition)
    if not partition.wakeups.waiting.runnable:
        _check_at_rest(partition)
    if Hold.UNFINISHED not in partition.holds:
        _check_stopped(partition)


def _parked(partition: Partition) -> Iterator[Parked]:
    for app in partition.applications.values():
        for item in (app, *app.ranking.ordered()):
            if item.blocker is not None:
                yield item


def _check_parked(item: Parked) -> None:
    """W2: the waiting lines have the item, and all that leads to it; none is active."""
    blocker = item.blocker
    for level, (ranking, member) in enumerate(way_up(item)):
        waiting_line = blocker.owner.waiting_lines.get(ranking)
        if waiting_line is None or member not in waiting_line.members:
            raise InvariantBroken(f"W2: {item!r} waits for {blocker!r}, which has not {member!r}")
        if not waiting_line.knows(member, blocker.items):
            raise InvariantBroken(f"W2: {member!r} leads to {item!r}, who wants less than is known")
        if not level and ranking.is_active(member):
            raise InvariantBroken(f"W2: {item!r} waits for {blocker!r} and is active")


def _check_waiting_lines(partition: Partition) -> None:
    """W2, reversed: members of a waiting line lead to an item parked with its blocker."""
    leading: dict[Blocker, set[tuple[Any, object]]] = {}
    for item in _parked(partition):
        known = leading.setdefault(item.blocker.owner, set())
        known.update((ranking, member) for ranking, member in way_up(item))
    for blocker, known in leading.items():
        for ranking, waiting_line in blocker.waiting_lines.items():
            for member in waiting_line.members:
                if (ranking, member) not in known:
                    raise InvariantBroken(f"W2: {member!r} leads to nobody behind {blocker!r}")


def _blockers(partition: Partition) -> Iterator[Blocker]:
    yield from partition.wakeups.shortages
    yield from partition.wakeups.running_limits
    yield from partition.wakeups.gang_waits
    yield from partition.wakeups.stopped_queues
    yield from partition.wakeups.reservation_limits
    yield from partition.preemption


def _check_at_rest(partition: Partition) -> None:
    """W1: no waiting ask could be served."""
    for app in partition.applications.values():
        for request in _first_of_each_group(app):
            stopped = first_failing(partition.check_context, subject_of(app, request))
            if stopped is None and nodes_check(partition, request).passed:
                raise InvariantBroken(f"W1: {request!r} waits for nothing")


def _first_of_each_group(app: Application) -> Iterator[Request]:
    """Asks of a group fit alike; those with a reservation are looked at one by one."""
    for group in app.groups.values():
        if group.waiting:
            yield group.first().request
    yield from (request for request in app.reserved.values() if request.is_pending)


def _check_backlog(partition: Partition) -> None:
    """W5: claims of groups without a node are heard."""
    for app in partition.applications.values():
        for group in app.groups.values():
            waits = group.waiting and group.nowhere and group.ask_class.required_node is None
            if waits and group not in partition.wakeups.backlog:
                raise InvariantBroken(f"W5: {group!r} has no node, and is not in the backlog")


def _check_stopped(partition: Partition) -> None:
    """W4: nothing is reserved, assumed or parked in a stopped queue."""
    for app in partition.applications.values():
        queue = stopped_above(app.leaf)
        if queue is None:
            continue
        parked = [item for item in (app, *app.ranking.ordered()) if item.blocker is not None]
        if app.reserved or app.assumed_count or parked:
            raise InvariantBroken(f"W4: {app!r} is in {queue!r}, and something waits for {parked}")
