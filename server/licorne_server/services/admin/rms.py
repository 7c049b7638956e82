"""RMs that are to be forgotten."""

from typing import Any

import grpc
import structlog
from google.protobuf.message import Message

from licorne.v1 import admin_pb2 as pb
from licorne_server.configurations import Configurations
from licorne_server.departures import Departures
from licorne_server.errors_to_status import unary_handler
from licorne_server.rms import Rms
from licorne_server.services.admin.names import Names

log = structlog.get_logger(__name__)


class RmMethods:
    """`ForgetRm`."""

    def __init__(
        self, rms: Rms, names: Names, departures: Departures, configurations: Configurations
    ) -> None:
        """Over the RMs as the server knows them; `departures` forgets one.

        Its `configurations` are forgotten with it.
        """
        self._rms = rms
        self._names = names
        self._departures = departures
        self._configurations = configurations

    def methods(self) -> dict[str, "grpc.RpcMethodHandler[Any, Any]"]:
        """The methods by name."""
        return {"ForgetRm": unary_handler(pb.ForgetRmRequest, self._forget)}

    async def _forget(self, request: pb.ForgetRmRequest, context: Any) -> Message:
        self._names.rm(request.rm_id, context)
        rm = self._rms.get(request.rm_id, "ForgetRm")
        log.info("forgetting asked for", rm_id=rm.rm_id, force=request.force, peer=context.peer())
        await self._departures.forget(rm, force=request.force)
        if self._rms.find(rm.rm_id) is None:
            self._configurations.forget(rm.rm_id)
        return pb.ForgetRmResponse()
