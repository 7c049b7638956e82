"""Commands that stop or start a queue."""

from collections.abc import Iterator
from typing import Final

from licorne_core.extensions.queue_stops.messages import QueueStoppedSet, SetQueueStopped
from licorne_core.handlers.assumed import roll_back_all
from licorne_core.handlers.operators import CommandRefused, give_up_waits, partition_meant
from licorne_core.handlers.outcome import Commands
from licorne_core.messages.effects import Effect, OperatorRefusal
from licorne_core.messages.events.cluster import operator_acted
from licorne_core.messages.events.records import EventType
from licorne_core.messages.operators import OperatorMark, mark_text
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import PairEvent
from licorne_core.model.queues.queue import Queue, QueueState
from licorne_core.partitions.jobs import CommandJob
from licorne_core.partitions.partition import Partition
from licorne_core.partitions.registry import Registry, Rm
from licorne_core.values.errors import shown


def _set_queue_stopped(registry: Registry, rm: Rm, command: SetQueueStopped, now: float) -> list[Effect]:
    """Stop or start the queue, unless it is already in that state; raises CommandRefused."""
    job = registry.jobs.find(command)
    if job is None:
        partition = partition_meant(rm, command.partition)
        queue, stopped = partition.tree.get(command.queue), partition.tree.stopped
        if queue is None and not command.stopped and command.queue.lower() in stopped:
            del stopped[command.queue.lower()]
            return [QueueStoppedSet(rm_id=rm.rm_id, changed=True, state=QueueState.ACTIVE.value)]
        if queue is None:
            what = f"queue {shown(command.queue)} not found in partition {partition.name}"
            raise CommandRefused(OperatorRefusal.NOT_FOUND, what)
        if queue.state is QueueState.DRAINING:
            what = f"queue {queue.path} is draining, because it is no longer configured"
            raise CommandRefused(OperatorRefusal.QUEUE_DRAINING, what)
        if command.stopped == (queue.state is QueueState.STOPPED):
            return [QueueStoppedSet(rm_id=rm.rm_id, changed=False, state=queue.state.value)]
        if not command.stopped:
            return [_start(rm, partition, queue, command.mark, now)]
        job = _QueueStop(command, rm, partition, queue, now)
    return registry.jobs.carry_on(job, now)


def _start(rm: Rm, partition: Partition, queue: Queue, mark: OperatorMark, now: float) -> QueueStoppedSet:
    """Start a queue and have all its items tried; a stopped queue has no parked items."""
    partition.tree.stopped.pop(queue.path, None)
    queue.state = QueueState.ACTIVE
    partition.journal.note(operator_acted(now, EventType.QUEUE, queue.path, f"started{mark_text(mark)}"))
    partition.dirty.mark_queue(queue)
    return QueueStoppedSet(rm_id=rm.rm_id, changed=True, state=queue.state.value)


class _QueueStop(CommandJob):
    """The job of a command that stops one queue."""

    def __init__(
        self, command: SetQueueStopped, rm: Rm, partition: Partition, queue: Queue, now: float
    ) -> None:
        """Prepare to stop a queue, which must be possible."""
        self._rm_id = rm.rm_id
        self._partition = partition
        self._queue = queue
        self._mark = command.mark
        super().__init__(command, rm.slice_size, now)

    def steps(self) -> Iterator[int]:
        """Remove all asks of the queue from the queues of waiting work. No pass runs before the end."""
        partition, queue = self._partition, self._queue
        partition.wakeups.waiting.runnable = True
        for leaf in list(partition.tree.walk(queue)):
            yield 1
            for app in list(leaf.applications.values()):
                yield from self._let_go(app)
        queue.state = QueueState.STOPPED
        partition.tree.stopped[queue.path] = self._mark
        text = f"stopped{mark_text(self._mark)}"
        partition.journal.note(operator_acted(self.now, EventType.QUEUE, queue.path, text))
        partition.dirty.mark_queue(queue)
        state = queue.state.value
        self.effects.append(QueueStoppedSet(rm_id=self._rm_id, changed=True, state=state))

    def _let_go(self, app: Application) -> Iterator[int]:
        """End all waits of the application: for answers, nodes, and blockers."""
        partition = self._partition
        if app.leaf is None:
            return
        yield from roll_back_all(self, partition, app, PairEvent.TOLD)
        yield from give_up_waits(partition, app, self.now)


COMMANDS: Final[Commands] = {SetQueueStopped: _set_queue_stopped}
