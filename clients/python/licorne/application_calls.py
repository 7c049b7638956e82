"""Operators' calls about one application of an RM."""

from typing import TYPE_CHECKING

from grpc import aio

from licorne.calls import OfOneRm, check_arguments
from licorne.model import DEFAULT_PARTITION
from licorne.v1 import admin_pb2 as pb
from licorne.v1.admin_pb2_grpc import AdminStub

if TYPE_CHECKING:
    from licorne.v1.admin_pb2_grpc import AdminAsyncStub

LONG = 90.0
"""Timeout in seconds of a plan or configuration call, for which the server may take 60 s."""


def _stub(channel: aio.Channel) -> "AdminAsyncStub":
    return AdminStub(channel)


class ApplicationCalls(OfOneRm):
    """The part of `AdminCalls` for applications."""

    async def stop_application(
        self, application_id: str, reason: str = "", *, partition: str = DEFAULT_PARTITION
    ) -> pb.StopApplicationResponse:
        """Fail an application: the RM is notified, and asked to stop all its allocations."""
        check_arguments(application_id=application_id, reason=reason)
        request = pb.StopApplicationRequest(
            rm_id=self._rm("stop_application"),
            partition=self._partition(partition),
            application_id=application_id,
            reason=reason,
        )
        return await self._calls.call(lambda channel: _stub(channel).StopApplication, request)

    async def hold_application(
        self, application_id: str, held: bool, *, message: str = "", partition: str = DEFAULT_PARTITION
    ) -> pb.HoldApplicationResponse:
        """Hold an application, so that none of its asks is placed, or resume it; its allocations run on."""
        check_arguments(application_id=application_id, held=held, message=message)
        request = pb.HoldApplicationRequest(
            rm_id=self._rm("hold_application"),
            partition=self._partition(partition),
            application_id=application_id,
            held=held,
            message=message,
        )
        return await self._calls.call(lambda channel: _stub(channel).HoldApplication, request)

    async def change_application(
        self,
        application_id: str,
        *,
        priority: int | None = None,
        reset_priority: bool = False,
        queue: str = "",
        message: str = "",
        partition: str = DEFAULT_PARTITION,
    ) -> pb.ChangeApplicationResponse:
        """Change the priority of an application, or move one without allocations to another leaf.

        `priority` applies to all its asks, until `reset_priority` restores the priority of each ask. With
        an empty `queue` the application is not moved.
        """
        given = {} if priority is None else {"priority": priority}
        check_arguments(application_id=application_id, reset_priority=reset_priority, **given)
        check_arguments(queue=queue, message=message)
        request = pb.ChangeApplicationRequest(
            rm_id=self._rm("change_application"),
            partition=self._partition(partition),
            application_id=application_id,
            priority=priority,
            reset_priority=reset_priority,
            queue=queue,
            message=message,
        )
        return await self._calls.call(lambda channel: _stub(channel).ChangeApplication, request)

    async def plan_start(
        self, application_id: str, key: str, *, partition: str = DEFAULT_PARTITION
    ) -> pb.PlanStartResponse:
        """The changes that would let a waiting ask start immediately, tried on a copy; nothing is changed.

        Raises NotFound if the ask is unknown or does not wait.
        """
        check_arguments(application_id=application_id, key=key)
        request = pb.PlanStartRequest(
            rm_id=self._rm("plan_start"),
            partition=self._partition(partition),
            application_id=application_id,
            allocation_key=key,
        )
        return await self._calls.call(lambda channel: _stub(channel).PlanStart, request, at_least=LONG)
