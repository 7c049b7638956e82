"""`State.GetServer`: facts about the server, for any caller."""

from typing import Any

import grpc
from google.protobuf.message import Message

from licorne.v1 import state_pb2 as pb
from licorne_server.process.build_info import BuildInfo
from licorne_server.security.access import Access
from licorne_server.services.session import PROTOCOL
from licorne_server.services.statuses import unary_handler
from licorne_server.wire.responses import nanoseconds


class AboutService:
    """The call that describes the server itself, not its workload."""

    name = "licorne.v1.State"

    def __init__(self, info: BuildInfo, started_time: float, access: Access) -> None:
        """`started_time` is in unix seconds."""
        self._answer = pb.GetServerResponse(
            version=info.version,
            form=info.form,
            python=info.python,
            started_time=nanoseconds(started_time),
            protocols=[PROTOCOL],
        )
        self._access = access

    def handler(self) -> grpc.GenericRpcHandler:
        """The method by name, bytes in and bytes out."""
        return grpc.method_handlers_generic_handler(
            self.name, {"GetServer": unary_handler(pb.GetServerRequest, self._get)}
        )

    async def _get(self, request: pb.GetServerRequest, context: Any) -> Message:
        del request  # it asks for nothing in particular
        self._access.caller(context)
        return self._answer
