"""Eviction of RMs on an operator's request."""

from typing import Any

from google.protobuf.message import Message

from licorne.v1 import admin_pb2 as pb
from licorne_core.values.ids import RmId
from licorne_server.configurations import Configurations
from licorne_server.rms.eviction import Eviction
from licorne_server.rms.registry import Rms
from licorne_server.services.admin.audit import Audit
from licorne_server.services.admin.names import Names
from licorne_server.services.statuses import Method, unary_handler


class RmMethods:
    """`ForgetRm`."""

    def __init__(
        self,
        rms: Rms,
        names: Names,
        audit: Audit,
        eviction: Eviction,
        configurations: Configurations,
    ) -> None:
        """Over the RMs as the server knows them; `eviction` forgets one.

        Its `configurations` are forgotten with it.
        """
        self._rms = rms
        self._names = names
        self._audit = audit
        self._eviction = eviction
        self._configurations = configurations

    def methods(self) -> dict[str, Method]:
        """The methods by name."""
        forget = self._audit.of("forget RM", self._forget, "force")
        return {"ForgetRm": unary_handler(pb.ForgetRmRequest, forget)}

    async def _forget(self, request: pb.ForgetRmRequest, context: Any) -> Message:
        report = self._names.known_rm(request.rm_id, context)
        if report is not None:
            rm = self._rms.get(request.rm_id, "ForgetRm")
            await self._eviction.forget(rm, force=request.force)
        async with self._rms.lock(request.rm_id):
            if self._rms.find(request.rm_id) is None:
                self._configurations.forget(RmId(request.rm_id))
        return pb.ForgetRmResponse()
