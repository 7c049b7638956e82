"""A partition that left its RM's configuration (spec § 2.7.5)."""

from collections.abc import Iterator

from licorne_core.events.nodes import NodeRemoved
from licorne_core.handlers.apps import drop_asks, release_all
from licorne_core.handlers.lifecycle import advance
from licorne_core.handlers.nodes import forget_foreign_on
from licorne_core.handlers.outcome import OutcomeJob
from licorne_core.handlers.settling import PARTITION
from licorne_core.messages.effects import ApplicationUpdate
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.states import AppEvent, AppState
from licorne_core.model.queues.changes import facts, snapshot
from licorne_core.model.queues.tree import stop
from licorne_core.partitions.partition import Partition
from licorne_core.partitions.registry import Registry, Rm
from licorne_core.values.ids import PartitionName

PARTITION_REMOVED = "PartitionRemoved"
_LAST_EVENT = {
    AppState.FAILING: AppEvent.FAIL,
    AppState.COMPLETING: AppEvent.COMPLETE,
}


def remove_partition(
    job: OutcomeJob, registry: Registry, rm: Rm, name: PartitionName
) -> Iterator[int]:
    """Stop and empty the partition: its applications fail, and its allocations are released.

    It is there until the last step.
    """
    partition = rm.partitions[name]
    stop(partition.tree)
    yield PARTITION
    for app in list(partition.applications.values()):
        yield from _end(job, partition, app)
    for node in list(partition.nodes.by_id.values()):
        yield from forget_foreign_on(job, partition, node)
        partition.cluster.remove(node, job.now)
        partition.journal.note(NodeRemoved(job.now, node.node_id, partition.nodes.total))
        yield 1
    job.tell()
    if partition.journal.on:
        queues = [(queue, snapshot(queue), None) for queue in partition.tree.walk()]
        for fact in facts(reversed(queues), job.now):
            partition.journal.note(fact)
            yield 1
    rm.forget(name)
    registry.drop(partition)


def _end(job: OutcomeJob, partition: Partition, app: Application) -> Iterator[int]:
    """End the application's requests, and it with the last of them."""
    job.outcome.updates += _begin_to_fail(partition, app, job.now)
    yield from drop_asks(job, partition, app)
    yield from release_all(job, partition, app, PARTITION_REMOVED)
    event = _LAST_EVENT[app.state]
    job.outcome.last_updates += advance(partition, app, event, job.now, PARTITION_REMOVED)
    yield 1


def _begin_to_fail(partition: Partition, app: Application, now: float) -> list[ApplicationUpdate]:
    """The application fails, unless it is completing already."""
    updates: list[ApplicationUpdate] = []
    if app.state is AppState.RESUMING:
        # From there it cannot fail.
        updates += advance(partition, app, AppEvent.RUN, now, PARTITION_REMOVED)
    if app.state is not AppState.FAILING:
        updates += advance(partition, app, AppEvent.FAIL, now, PARTITION_REMOVED)
    return updates
