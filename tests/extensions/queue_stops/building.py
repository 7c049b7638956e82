"""Builders of commands of operators: stop and start of queues."""

from licorne_core.extensions.queue_stops.messages import SetQueueStopped
from licorne_core.values.ids import RmId
from support.core.builders import RM


def stop(queue: str, *, partition: str = "", rm: str = RM) -> SetQueueStopped:
    """An operator stops a queue."""
    return SetQueueStopped(rm_id=RmId(rm), partition=partition, queue=queue, stopped=True)


def start(queue: str, *, partition: str = "", rm: str = RM) -> SetQueueStopped:
    """An operator starts a queue again."""
    return SetQueueStopped(rm_id=RmId(rm), partition=partition, queue=queue, stopped=False)
