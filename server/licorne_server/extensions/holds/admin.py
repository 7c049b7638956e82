"""The calls of operators about one application: hold, priority, queue. They are stored as marks of the RM."""

from collections.abc import Awaitable, Callable
from typing import Any

from google.protobuf.message import Message

from licorne.v1 import admin_pb2 as pb
from licorne_core.extensions.holds.messages import (
    ApplicationChanged,
    ApplicationHeld,
    ChangeApplication,
    HoldApplication,
)
from licorne_core.messages.operators import OperatorMark
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import AppId, PartitionName, RmId, normalize_partition
from licorne_server.services.admin.acts import Acts
from licorne_server.services.calls import Handler, unary_handler
from licorne_server.store.configurations.applying import unmark
from licorne_server.store.configurations.revisions import MAX_MARKS, Mark, MarkKind
from licorne_server.wire.caps import MAX_QUEUE_PATH, id_problem, text_problem
from licorne_server.wire.errors import exhausted, invalid_argument
from licorne_server.wire.responses import nanoseconds

Request = pb.HoldApplicationRequest | pb.ChangeApplicationRequest


class Holds:
    """The calls that hold and change applications."""

    def __init__(self, acts: Acts) -> None:
        """Carry out the calls by `acts`."""
        self._acts = acts
        self._rights = acts.rights
        self._rms = acts.rms
        self._views = acts.views
        self._configurations = acts.configurations

    def methods(self) -> dict[str, Handler]:
        """The methods by name."""
        of, about = self._rights.audited, ("partition", "application_id", "message")
        hold = of("hold application", self._hold, *about, "held")
        change = of("change application", self._change, *about, "priority", "reset_priority", "queue")
        return {
            "HoldApplication": unary_handler(pb.HoldApplicationRequest, hold),
            "ChangeApplication": unary_handler(pb.ChangeApplicationRequest, change),
        }

    async def _hold(self, request: pb.HoldApplicationRequest, context: Any) -> Message:
        async def act(mark: OperatorMark) -> Message:
            command = HoldApplication(
                rm_id=RmId(request.rm_id),
                partition=request.partition,
                app_id=AppId(request.application_id),
                held=request.held,
                mark=mark,
            )
            done = await self._acts.carry_out(command, ApplicationHeld)
            self._note(request, _mark(MarkKind.HOLD, request, mark), on=request.held)
            return pb.HoldApplicationResponse(
                changed=done.changed, asks=done.asks, allocations=done.allocations
            )

        return await self._marked(request, context, act, adds=request.held)

    async def _change(self, request: pb.ChangeApplicationRequest, context: Any) -> Message:
        given = request.HasField("priority")
        problem = id_problem("queue", request.queue, MAX_QUEUE_PATH) if request.queue else ""
        if problem:
            raise invalid_argument(problem, "queue")
        if given and request.reset_priority:
            raise invalid_argument("priority and reset_priority exclude each other", "reset_priority")
        if not (given or request.reset_priority or request.queue):
            raise invalid_argument("one of priority, reset_priority and queue is needed", "priority")

        async def act(mark: OperatorMark) -> Message:
            command = ChangeApplication(
                rm_id=RmId(request.rm_id),
                partition=request.partition,
                app_id=AppId(request.application_id),
                priority=request.priority if given else None,
                reset_priority=request.reset_priority,
                queue=request.queue,
                mark=mark,
            )
            done = await self._acts.carry_out(command, ApplicationChanged)
            marks = done.marks
            stands = _mark(
                MarkKind.CHANGE, request, marks.change or mark, priority=marks.priority, queue=marks.queue
            )
            self._note(request, stands, on=marks.change is not None)
            return pb.ChangeApplicationResponse(
                changed=done.changed, queue=done.queue, operator_priority=marks.priority
            )

        return await self._marked(request, context, act, adds=not request.reset_priority)

    async def _marked(
        self,
        request: Request,
        context: Any,
        act: Callable[[OperatorMark], Awaitable[Message]],
        *,
        adds: bool,
    ) -> Message:
        """Check the request, and have the core handle the command under the RM's lock.

        Raises:
            CallError: the request is invalid, the core refused it, or the RM has too many marks.
        """
        for field, problem in (
            ("partition", text_problem("partition", request.partition, MAX_QUEUE_PATH)),
            ("application_id", id_problem("application_id", request.application_id)),
        ):
            if problem:
                raise invalid_argument(problem, field)
        rm_id = RmId(request.rm_id)
        self._rights.rm(rm_id, context)
        async with self._rms.lock(rm_id):
            self._rights.rm(rm_id, context)
            if adds and not self._has_room(rm_id):
                raise exhausted(f"RM {rm_id} has {MAX_MARKS} marks of operators already", "TOO_MANY_MARKS")
            answer = await act(self._acts.mark(request, context))
        await self._configurations.stored.written(rm_id)
        return answer

    def _has_room(self, rm_id: RmId) -> bool:
        """True if one more mark may be stored. Marks of removed applications are dropped to make room."""
        if not self._configurations.has_room_for_mark(rm_id):
            marks = self._configurations.get(rm_id).marks
            of_apps = (mark for mark in marks if mark.kind.is_of_application)
            gone = [(mark.partition, mark.name) for mark in of_apps if not self._is_there(mark)]
            unmark(self._configurations, rm_id, gone)
        return self._configurations.has_room_for_mark(rm_id)

    def _note(self, request: Request, mark: Mark, *, on: bool) -> None:
        """Store the mark, or remove it; an application that has ended meanwhile needs none."""
        self._configurations.mark(RmId(request.rm_id), mark, on=on and self._is_there(mark))

    def _is_there(self, mark: Mark) -> bool:
        try:
            report = self._views.application(mark.partition, mark.name)
        except NotFound:
            return False
        return not report.finished_time


def _mark(
    kind: MarkKind, request: Request, mark: OperatorMark, *, priority: int | None = None, queue: str = ""
) -> Mark:
    name = normalize_partition(RmId(request.rm_id), request.partition) or request.partition
    return Mark(
        kind=kind,
        partition=PartitionName(name),
        name=request.application_id,
        by=mark.by,
        time=nanoseconds(mark.time),
        why=mark.message,
        priority=priority,
        queue=queue,
    )


METHODS = Holds
