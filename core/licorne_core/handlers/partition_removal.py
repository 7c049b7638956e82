"""A partition that left its RM's configuration (spec § 2.7.5)."""

from collections.abc import Iterator
from itertools import islice

from licorne_core.events.journal import EventDetail
from licorne_core.events.nodes import NodeRemoved
from licorne_core.handlers.apps import drop_asks
from licorne_core.handlers.lifecycle import advance, end_placeholder_time, note_freed
from licorne_core.handlers.nodes import forget_foreign_on
from licorne_core.handlers.outcome import Outcome
from licorne_core.handlers.settling import PARTITION
from licorne_core.messages.commands import TerminationType
from licorne_core.messages.effects import ApplicationUpdate, Release
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.states import AppEvent, AppState
from licorne_core.model.queues.changes import facts, snapshot
from licorne_core.model.queues.tree import stop
from licorne_core.partitions.jobs import CommandJob, Slice
from licorne_core.partitions.partition import Partition
from licorne_core.partitions.registry import Registry, Rm
from licorne_core.values.ids import PartitionName

PARTITION_REMOVED = "PartitionRemoved"
_LAST_EVENT = {
    AppState.FAILING: AppEvent.FAIL,
    AppState.COMPLETING: AppEvent.COMPLETE,
}


def remove_partition(
    job: CommandJob, registry: Registry, rm: Rm, name: PartitionName
) -> Iterator[int]:
    """Stop and empty the partition: its applications fail, and its allocations are released.

    It is there until the last step.
    """
    partition = rm.partitions[name]
    stop(partition.tree)
    yield PARTITION
    while partition.applications or partition.nodes.by_id:
        part = Slice(rm.slice_size)
        outcome = Outcome()
        for app in list(partition.applications.values()):
            if part.is_spent:
                break
            _end(partition, app, job.now, part, outcome)
        _remove_nodes(partition, job.now, part)
        job.effects += outcome.effects(rm.rm_id)
        yield rm.slice_size - part.left
    if partition.journal.on:
        queues = [(queue, snapshot(queue), None) for queue in partition.tree.walk()]
        for fact in facts(reversed(queues), job.now):
            partition.journal.note(fact)
            yield 1
    rm.forget(name)
    registry.drop(partition)


def _end(partition: Partition, app: Application, now: float, part: Slice, outcome: Outcome) -> None:
    """End a slice of the application's requests, and the application with the last of them."""
    if len(app.requests) <= part.left:
        outcome.updates += _begin_to_fail(partition, app, now)
    drop_asks(partition, app, now, part)
    if app.allocation_count < len(app.requests):
        return
    for request in part.take(app.booked()):
        allocation = partition.allocations.release(app, request)
        note_freed(partition, app, allocation, EventDetail.ALLOC_CANCEL, now)
        release = Release(
            app_id=app.app_id,
            key=request.key,
            termination=TerminationType.STOPPED_BY_RM,
            message=PARTITION_REMOVED,
        )
        outcome.release(partition, release)
    end_placeholder_time(partition, app)
    if not app.requests:
        event = _LAST_EVENT[app.state]
        outcome.last_updates += advance(partition, app, event, now, PARTITION_REMOVED)
        part.take((app,))


def _begin_to_fail(partition: Partition, app: Application, now: float) -> list[ApplicationUpdate]:
    """The application fails, unless it is completing already."""
    updates: list[ApplicationUpdate] = []
    if app.state is AppState.RESUMING:
        # From there it cannot fail.
        updates += advance(partition, app, AppEvent.RUN, now, PARTITION_REMOVED)
    if app.state is not AppState.FAILING:
        updates += advance(partition, app, AppEvent.FAIL, now, PARTITION_REMOVED)
    return updates


def _remove_nodes(partition: Partition, now: float, part: Slice) -> None:
    """Nodes go when nothing is on them any more."""
    if partition.applications:
        return
    for node in list(islice(partition.nodes.by_id.values(), max(0, part.left))):
        forget_foreign_on(partition, node, part)
        if part.is_spent:
            return
        part.take((node,))
        partition.cluster.remove(node, now)
        partition.journal.note(NodeRemoved(now, node.node_id, partition.nodes.total))
