"""Operations on nodes, applications and queues."""

from collections.abc import Sequence
from typing import Any, TypeVar

from google.protobuf.message import Message

from licorne.v1 import admin_pb2 as pb
from licorne_core.messages.commands import Command, SetNodeSchedulable, SetQueueStopped, StopApplication
from licorne_core.messages.effects import (
    ApplicationStopped,
    Effect,
    NodeSchedulableSet,
    NotRegistered,
    OperatorRefusal,
    OperatorRefused,
    QueueStoppedSet,
)
from licorne_core.values.ids import AppId, NodeId, RmId
from licorne_server.engine.engine import Engine
from licorne_server.services.admin.audit import Audit
from licorne_server.services.admin.names import Names
from licorne_server.services.statuses import Method, unary_handler
from licorne_server.wire.caps import MAX_QUEUE_PATH, bytes_of, id_problem, size_problem, text_problem
from licorne_server.wire.errors import CallError, failed_precondition, invalid_argument, not_found

T = TypeVar("T", bound=Effect)

MAX_REASON_BYTES = 1024
"""Bytes of the reason for ending an application; it is stored with the application."""


class VerbMethods:
    """`SetNodeSchedulable`, `StopApplication` and `SetQueueStopped`."""

    def __init__(self, engine: Engine, names: Names, audit: Audit) -> None:
        """Send commands to the engine."""
        self._engine = engine
        self._names = names
        self._audit = audit

    def methods(self) -> dict[str, Method]:
        """The methods by name."""
        of = self._audit.of
        node = of("set node schedulable", self._node, "partition", "node_id", "schedulable")
        stop = of("stop application", self._application, "partition", "application_id", "reason")
        queue = of("set queue stopped", self._queue, "partition", "queue", "stopped")
        return {
            "SetNodeSchedulable": unary_handler(pb.SetNodeSchedulableRequest, node),
            "StopApplication": unary_handler(pb.StopApplicationRequest, stop),
            "SetQueueStopped": unary_handler(pb.SetQueueStoppedRequest, queue),
        }

    async def _node(self, request: pb.SetNodeSchedulableRequest, context: Any) -> Message:
        self._check(request, context, ("node_id", id_problem("node_id", request.node_id)))
        command = SetNodeSchedulable(
            rm_id=RmId(request.rm_id),
            partition=request.partition,
            node_id=NodeId(request.node_id),
            schedulable=request.schedulable,
        )
        done = await self._carry_out(command, NodeSchedulableSet)
        return pb.SetNodeSchedulableResponse(changed=done.changed, allocations=done.allocations)

    async def _application(self, request: pb.StopApplicationRequest, context: Any) -> Message:
        self._check(
            request,
            context,
            ("application_id", id_problem("application_id", request.application_id)),
            ("reason", size_problem("reason", bytes_of((request.reason,)), MAX_REASON_BYTES)),
            ("reason", text_problem("reason", request.reason, MAX_REASON_BYTES)),
        )
        command = StopApplication(
            rm_id=RmId(request.rm_id),
            partition=request.partition,
            app_id=AppId(request.application_id),
            reason=request.reason,
        )
        done = await self._carry_out(command, ApplicationStopped)
        return pb.StopApplicationResponse(allocations=done.allocations, asks=done.asks)

    async def _queue(self, request: pb.SetQueueStoppedRequest, context: Any) -> Message:
        problem = id_problem("queue", request.queue, MAX_QUEUE_PATH)
        self._check(request, context, ("queue", problem))
        command = SetQueueStopped(
            rm_id=RmId(request.rm_id),
            partition=request.partition,
            queue=request.queue,
            stopped=request.stopped,
        )
        done = await self._carry_out(command, QueueStoppedSet)
        return pb.SetQueueStoppedResponse(changed=done.changed, state=done.state)

    def _check(self, request: Any, context: Any, *problems: tuple[str, str]) -> None:
        """Refuse invalid requests.

        Raises:
            CallError: INVALID_ARGUMENT with the field, or the RM is not registered.
        """
        partition = ("partition", text_problem("partition", request.partition, MAX_QUEUE_PATH))
        for field, problem in (partition, *problems):
            if problem:
                raise invalid_argument(problem, field)
        self._names.rm(request.rm_id, context)

    async def _carry_out(self, command: Command, wanted: type[T]) -> T:
        """Have the core do it; what came of it.

        Raises:
            CallError: the core has refused it.
        """
        return _outcome(await self._engine.submit(command), wanted)


def _outcome(effects: Sequence[Effect], wanted: type[T]) -> T:
    for effect in effects:
        if isinstance(effect, wanted):
            return effect
        if isinstance(effect, OperatorRefused):
            raise _refused(effect)
        if isinstance(effect, NotRegistered):
            raise failed_precondition(effect.reason, "RM_NOT_REGISTERED")
    raise AssertionError(f"there is no {wanted.__name__} among {effects}")


def _refused(effect: OperatorRefused) -> CallError:
    """The status for a refusal of the core."""
    match effect.refusal:
        case OperatorRefusal.NOT_FOUND:
            return not_found(effect.reason)
        case OperatorRefusal.APPLICATION_OVER:
            return failed_precondition(effect.reason, "APPLICATION_OVER")
        case OperatorRefusal.QUEUE_DRAINING:
            return failed_precondition(effect.reason, "QUEUE_DRAINING")
