"""The call that ends an application."""

from typing import Any

from google.protobuf.message import Message

from licorne.v1 import admin_pb2 as pb
from licorne_core.extensions.stops.messages import ApplicationStopped, StopApplication
from licorne_core.values.ids import AppId, RmId
from licorne_server.services.admin.acts import MAX_REASON_BYTES, Acts
from licorne_server.services.calls import Handler, unary_handler
from licorne_server.wire.caps import bytes_of, id_problem, size_problem, text_problem


class Stops:
    """The calls, by `acts`."""

    def __init__(self, acts: Acts) -> None:
        """Have the core do it by `acts`."""
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
            ("reason", size_problem("reason", bytes_of((request.reason,)), MAX_REASON_BYTES)),
            ("reason", text_problem("reason", request.reason, MAX_REASON_BYTES)),
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
