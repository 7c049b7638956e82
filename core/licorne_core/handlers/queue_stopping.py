"""An operator stops a queue, or starts it again (spec § 4.2).

In a stopped queue and below it no application is accepted and no ask is tried; what runs goes on,
and a placeholder that was told to make way makes way. So nothing there may keep anything from
others: what is being asked about it is asked no more, and its reservations end.
"""

from collections.abc import Iterator

from licorne_core.acts import Act
from licorne_core.apps.application import Application
from licorne_core.apps.gang_rules import PairEvent
from licorne_core.commands import SetQueueStopped
from licorne_core.effects import Effect, OperatorRefusal, QueueStoppedSet
from licorne_core.errors import shown
from licorne_core.handlers.predicates import roll_back_all
from licorne_core.handlers.refusals import Refused, partition_meant
from licorne_core.partition import Partition
from licorne_core.queues.queue import Queue
from licorne_core.queues.states import QueueState
from licorne_core.registry import Registry, Rm


def set_queue_stopped(
    registry: Registry, rm: Rm, command: SetQueueStopped, now: float
) -> list[Effect]:
    """Stop or start the queue, unless it is so already."""
    act = registry.acts.find(command)
    if act is None:
        partition = partition_meant(rm, command.partition)
        queue = partition.tree.get(command.queue)
        if queue is None:
            what = f"queue {shown(command.queue)} not found in partition {partition.name}"
            raise Refused(OperatorRefusal.NOT_FOUND, what)
        if queue.state is QueueState.DRAINING:
            what = f"queue {queue.path} is draining, as the configuration has it no more"
            raise Refused(OperatorRefusal.QUEUE_DRAINING, what)
        if command.stopped == (queue.state is QueueState.STOPPED):
            return [QueueStoppedSet(rm_id=rm.rm_id, changed=False, state=queue.state.value)]
        if not command.stopped:
            return [_start(rm, partition, queue)]
        act = _Stopping(command, rm, partition, queue, now)
    return registry.acts.carry_on(act, now)


def _start(rm: Rm, partition: Partition, queue: Queue) -> QueueStoppedSet:
    """Everything in it is tried again: nothing was parked there meanwhile."""
    queue.state = QueueState.ACTIVE
    partition.changes.queue_changed(queue)
    partition.wakeups.queue_started(queue)
    return QueueStoppedSet(rm_id=rm.rm_id, changed=True, state=queue.state.value)


class _Stopping(Act):
    """The stop of one queue."""

    def __init__(
        self, command: SetQueueStopped, rm: Rm, partition: Partition, queue: Queue, now: float
    ) -> None:
        """The queue may be stopped."""
        self._rm_id = rm.rm_id
        self._partition = partition
        self._queue = queue
        super().__init__(command, rm.slice_size, now)

    def steps(self) -> Iterator[int]:
        """Let go of all that waits there, and look no more. There is no pass before the end."""
        partition, queue = self._partition, self._queue
        partition.wakeups.waiting.runnable = True
        for leaf in list(partition.tree.walk(queue)):
            yield 1
            for app in list(leaf.applications.values()):
                yield from self._let_go(app)
        queue.state = QueueState.STOPPED
        partition.changes.queue_changed(queue)
        state = queue.state.value
        self.effects.append(QueueStoppedSet(rm_id=self._rm_id, changed=True, state=state))

    def _let_go(self, app: Application) -> Iterator[int]:
        """Nothing of the application waits for an answer, a node, or anything that may change."""
        partition = self._partition
        if app.leaf is None:
            return
        roll_back_all(partition, app, PairEvent.TOLD, self.now)
        for request in list(app.reserved.values()):
            if request.reservation is not None:
                partition.reservations.end(request.reservation, self.now)
                yield 1
        # Nobody looks inside until it is started, and blockers may change meanwhile.
        for _ in partition.wakeups.waiting.unpark_all(app):
            yield 1
