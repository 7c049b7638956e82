"""The call that ends an application."""

from typing import Any

from google.protobuf.message import Message

from licorne.v1 import admin_pb2 as pb
from licorne_core.extensions.stops.messages import ApplicationStopped, StopApplication
from licorne_core.values.ids import AppId, RmId
from licorne_server.services.admin.acts import Acts
from licorne_server.services.calls import Handler, unary_handler
from licorne_server.wire.caps import comment_problem, id_problem


class Stops:
    """The call that ends applications."""

    def __init__(self, acts: Acts) -> None:
        """Carry out the call by `acts`."""
        self._acts = acts

    def methods(self) -> dict[str, Handler]:
        """The methods by name."""
        of = self._acts.rights.audited
        stop = of("stop application", self._application, "partition", "application_id", "reason")
        return {"StopApplication": unary_handler(pb.StopApplicationRequest, stop)}

    async def _application(self, request: pb.StopApplicationRequest, context: Any) -> Message:
        self._acts.check(
            request,
            context,
            ("application_id", id_problem("application_id", request.application_id)),
            ("reason", comment_problem("reason", request.reason)),
        )
        command = StopApplication(
            rm_id=RmId(request.rm_id),
            partition=request.partition,
            app_id=AppId(request.application_id),
            reason=request.reason,
        )
        done = await self._acts.carry_out(command, ApplicationStopped)
        return pb.StopApplicationResponse(allocations=done.allocations, asks=done.asks)


METHODS = Stops
