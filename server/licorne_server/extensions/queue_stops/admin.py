"""The call that stops a queue, or starts it."""

from typing import Any

from google.protobuf.message import Message

from licorne.v1 import admin_pb2 as pb
from licorne_core.extensions.queue_stops.messages import QueueStoppedSet, SetQueueStopped
from licorne_core.values.ids import RmId
from licorne_server.services.admin.acts import Acts, if_changed
from licorne_server.services.calls import Handler, unary_handler
from licorne_server.store.configurations.revisions import MarkKind
from licorne_server.wire.caps import MAX_QUEUE_PATH, id_problem


class QueueStops:
    """The call that stops and starts queues."""

    def __init__(self, acts: Acts) -> None:
        """Carry out the call by `acts`."""
        self._acts = acts

    def methods(self) -> dict[str, Handler]:
        """The methods by name."""
        of = self._acts.rights.audited
        queue = of("set queue stopped", self._queue, "partition", "queue", "stopped", "message")
        return {"SetQueueStopped": unary_handler(pb.SetQueueStoppedRequest, queue)}

    async def _queue(self, request: pb.SetQueueStoppedRequest, context: Any) -> Message:
        problem = id_problem("queue", request.queue, MAX_QUEUE_PATH)
        self._acts.check(request, context, ("queue", problem))
        command = SetQueueStopped(
            rm_id=RmId(request.rm_id),
            partition=request.partition,
            queue=request.queue,
            stopped=request.stopped,
        )
        mark = (MarkKind.QUEUE, request.queue.lower())
        done = await self._acts.marked(
            command,
            QueueStoppedSet,
            mark,
            request,
            context,
            on=request.stopped,
            stays=if_changed,
        )
        return pb.SetQueueStoppedResponse(changed=done.changed, state=done.state)


METHODS = QueueStops
