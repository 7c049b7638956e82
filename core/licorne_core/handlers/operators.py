"""Commands of operators to a running partition, all refused in one form."""

from collections.abc import Iterator
from typing import Final

from licorne_core.handlers.lifecycle import drain_timer, look_again
from licorne_core.handlers.outcome import Commands
from licorne_core.handlers.predicates import roll_back_all, roll_back_on
from licorne_core.messages.commands import DrainNode, SetNodeSchedulable, SetQueueStopped
from licorne_core.messages.effects import (
    Effect,
    NodeDrainBegun,
    NodeSchedulableSet,
    OperatorRefusal,
    QueueStoppedSet,
)
from licorne_core.messages.events.cluster import operator_acted, schedulable_changed
from licorne_core.messages.events.records import EventType
from licorne_core.messages.operators import Cordon, DrainTerms, OperatorMark, told
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import PairEvent
from licorne_core.model.nodes.node import CORDONED, Node
from licorne_core.model.queues.queue import Queue, QueueState
from licorne_core.partitions.jobs import CommandJob
from licorne_core.partitions.partition import Partition, latest_end
from licorne_core.partitions.registry import Registry, Rm
from licorne_core.values.errors import LicorneError, shown
from licorne_core.values.ids import NodeId
from licorne_core.views.nodes import contents_of


class Refused(LicorneError):
    """An operator's command is impossible; the text has the reason."""

    def __init__(self, refusal: OperatorRefusal, reason: str) -> None:
        """Create a refusal; `refusal` is for programs."""
        super().__init__(reason)
        self.refusal = refusal


def partition_meant(rm: Rm, name: str) -> Partition:
    """The RM's partition of that wire name.

    Raises:
        Refused: it has none.
    """
    partition = rm.find(name)
    if partition is None:
        raise Refused(OperatorRefusal.NOT_FOUND, f"partition {shown(rm.normalized(name))} not found")
    return partition


def _set_node_schedulable(_: Registry, rm: Rm, command: SetNodeSchedulable, now: float) -> list[Effect]:
    """Cordon the node, or take that back; a node that is gone may still have a cordon to end."""
    partition = partition_meant(rm, command.partition)
    cordons, node_id = partition.nodes.cordons, command.node_id
    if command.schedulable and node_id in cordons and node_id not in partition.nodes.by_id:
        del cordons[node_id]
        return [NodeSchedulableSet(rm_id=rm.rm_id, changed=True, allocations=0)]
    node = _node_meant(partition, node_id)
    changed = (node.cordon is None) != command.schedulable
    if changed:
        cordon = None if command.schedulable else Cordon(mark=command.mark)
        _set_cordon(partition, node, cordon, now)
        text = f"{'uncordoned' if command.schedulable else CORDONED}{told(command.mark)}"
        partition.journal.note(operator_acted(now, EventType.NODE, node_id, text))
    allocations = len(node.allocations)
    return [NodeSchedulableSet(rm_id=rm.rm_id, changed=changed, allocations=allocations)]


def _drain_node(_: Registry, rm: Rm, command: DrainNode, now: float) -> list[Effect]:
    """Cordon the node, and have its allocations stopped from now on, or wait for their end."""
    partition = partition_meant(rm, command.partition)
    node = _node_meant(partition, command.node_id)
    there = contents_of(partition, node)
    deadline = None if command.seconds is None else now + command.seconds
    terms = DrainTerms(start=now, deadline=deadline, allocations=there.remaining)
    _set_cordon(partition, node, Cordon(mark=command.mark, drain=terms), now)
    look_again(partition, node, now)
    text = f"drained{told(command.mark)}"
    partition.journal.note(operator_acted(now, EventType.NODE, node.node_id, text))
    return [NodeDrainBegun(rm_id=rm.rm_id, terms=terms, exempt=there.exempt)]


def _node_meant(partition: Partition, node_id: NodeId) -> Node:
    """The node of that name.

    Raises:
        Refused: there is none.
    """
    node = partition.nodes.by_id.get(node_id)
    if node is None:
        what = f"node {shown(node_id)} not found in partition {partition.name}"
        raise Refused(OperatorRefusal.NOT_FOUND, what)
    return node


def _set_cordon(partition: Partition, node: Node, cordon: Cordon | None, now: float) -> None:
    """Set or end a cordon; open checks about a node that gets one are dropped (spec § 7.4)."""
    node_id = node.node_id
    if cordon is None:
        partition.nodes.cordons.pop(node_id, None)
        partition.timers.cancel(drain_timer(node_id))
    else:
        partition.nodes.cordons[node_id] = cordon
        if node.cordon is None:
            roll_back_on(partition, node, now, gone=False)
    if partition.cluster.set_cordon(node, cordon, now):
        partition.journal.note(schedulable_changed(now, node_id, schedulable=node.schedulable))


def _set_queue_stopped(registry: Registry, rm: Rm, command: SetQueueStopped, now: float) -> list[Effect]:
    """Stop or start the queue, unless it is so already."""
    job = registry.jobs.find(command)
    if job is None:
        partition = partition_meant(rm, command.partition)
        queue, stopped = partition.tree.get(command.queue), partition.tree.stopped
        if queue is None and not command.stopped and command.queue.lower() in stopped:
            del stopped[command.queue.lower()]
            return [QueueStoppedSet(rm_id=rm.rm_id, changed=True, state=QueueState.ACTIVE.value)]
        if queue is None:
            what = f"queue {shown(command.queue)} not found in partition {partition.name}"
            raise Refused(OperatorRefusal.NOT_FOUND, what)
        if queue.state is QueueState.DRAINING:
            what = f"queue {queue.path} is draining, as the configuration has it no more"
            raise Refused(OperatorRefusal.QUEUE_DRAINING, what)
        if command.stopped == (queue.state is QueueState.STOPPED):
            return [QueueStoppedSet(rm_id=rm.rm_id, changed=False, state=queue.state.value)]
        if not command.stopped:
            return [_start(rm, partition, queue, command.mark, now)]
        job = _QueueStop(command, rm, partition, queue, now)
    return registry.jobs.carry_on(job, now)


def _start(rm: Rm, partition: Partition, queue: Queue, mark: OperatorMark, now: float) -> QueueStoppedSet:
    """Everything in it is tried again: nothing was parked there meanwhile."""
    partition.tree.stopped.pop(queue.path, None)
    queue.state = QueueState.ACTIVE
    partition.journal.note(operator_acted(now, EventType.QUEUE, queue.path, f"started{told(mark)}"))
    partition.dirty.mark_queue(queue)
    return QueueStoppedSet(rm_id=rm.rm_id, changed=True, state=queue.state.value)


class _QueueStop(CommandJob):
    """The stop of one queue."""

    def __init__(
        self, command: SetQueueStopped, rm: Rm, partition: Partition, queue: Queue, now: float
    ) -> None:
        """Start to stop a queue that may be stopped."""
        self._rm_id = rm.rm_id
        self._partition = partition
        self._queue = queue
        self._mark = command.mark
        super().__init__(command, rm.slice_size, now)

    def steps(self) -> Iterator[int]:
        """Release all waiting items of the queue. There is no pass before the end."""
        partition, queue = self._partition, self._queue
        partition.wakeups.waiting.runnable = True
        for leaf in list(partition.tree.walk(queue)):
            yield 1
            for app in list(leaf.applications.values()):
                yield from self._let_go(app)
        queue.state = QueueState.STOPPED
        partition.tree.stopped[queue.path] = self._mark
        text = f"stopped{told(self._mark)}"
        partition.journal.note(operator_acted(self.now, EventType.QUEUE, queue.path, text))
        partition.dirty.mark_queue(queue)
        state = queue.state.value
        self.effects.append(QueueStoppedSet(rm_id=self._rm_id, changed=True, state=state))

    def _let_go(self, app: Application) -> Iterator[int]:
        """Remove all waits of the application: for answers, nodes, and blockers."""
        partition = self._partition
        if app.leaf is None:
            return
        yield from roll_back_all(self, partition, app, PairEvent.TOLD)
        yield from give_up_waits(partition, app, self.now)


def give_up_waits(partition: Partition, app: Application, now: float) -> Iterator[int]:
    """Let the application wait for no node and no blocker, in steps of a job.

    It is not searched for a while, and blockers may change meanwhile.
    """
    for request in list(app.reserved.values()):
        if request.reservation is not None:
            partition.reservations.end(request.reservation, now)
            yield 1
    for claim in [claim for claim in partition.claims.held if claim.app is app]:
        claim.give_up(now)
    yield from partition.wakeups.waiting.unpark_all(app)


def not_there(partition: Partition, app_id: str) -> Refused:
    """Reason that there is no such application: it is over, or was never there."""
    app = latest_end(partition, app_id)
    if app is not None:
        what = f"application {shown(app_id)} is over: it is {app.state.value}"
        return Refused(OperatorRefusal.APPLICATION_OVER, what)
    what = f"application {shown(app_id)} not found in partition {partition.name}"
    return Refused(OperatorRefusal.NOT_FOUND, what)


COMMANDS: Final[Commands] = {
    SetNodeSchedulable: _set_node_schedulable,
    DrainNode: _drain_node,
    SetQueueStopped: _set_queue_stopped,
}
