"""`si.v1.Scheduler`: registration, and the three streams (spec § 1).

The three streams belong to one session of the RM, which has no numbers, callbacks or replay. Each stream
carries the bare requests and responses of one kind. There is no order between kinds, no acknowledgement and
no farewell. So a written message counts as received, and after a broken stream the RM opens a new one.
"""

from functools import partial
from typing import Any

import grpc

from licorne.si.v1 import si_pb2 as si
from licorne_core.values.ids import RmId
from licorne_server.engine.engine import Engine
from licorne_server.rms.admission import Admission
from licorne_server.rms.registry import Rms, check_owned, owned
from licorne_server.rms.rm import Rm
from licorne_server.rms.rm_log import logging_refusal
from licorne_server.rms.streams import Entry, Stream
from licorne_server.security.access import Access
from licorne_server.services.calls import CallGuard, stream_handler, unary_handler
from licorne_server.services.exchange import UPDATES, Exchange
from licorne_server.services.members.passing import Passing
from licorne_server.wire.errors import aborted, failed_precondition
from licorne_server.wire.framing import split
from licorne_server.wire.requests import REQUESTS, registration
from licorne_server.wire.responses import Framing, Kind

REGISTER = "/si.v1.Scheduler/RegisterResourceManager"

FRAMINGS = {kind: Framing((kind,), field) for field, kind in UPDATES.items()}
"""The framings of the three streams."""


class SchedulerService:
    """The RPCs of the published scheduler interface."""

    name = "si.v1.Scheduler"

    def __init__(
        self,
        engine: Engine,
        rms: Rms,
        access: Access,
        call_guard: CallGuard,
        admission: Admission,
        passing: Passing,
    ) -> None:
        """Serve the RMs of the engine.

        `call_guard` admits streams, and `admission` new RMs. `passing` passes on calls of RMs that another
        member serves, because `si.v1` has no redirect.
        """
        self._passing = passing
        self._engine = engine
        self._rms = rms
        self._access = access
        self._call_guard = call_guard
        self._admission = admission

    def handler(self) -> grpc.GenericRpcHandler:
        """The methods by name, bytes in and bytes out."""
        methods = {
            "RegisterResourceManager": unary_handler(si.RegisterResourceManagerRequest, self._register)
        }
        for kind in FRAMINGS:
            methods[kind.value] = stream_handler(partial(self._serve, kind))
        return grpc.method_handlers_generic_handler(self.name, methods)

    async def _register(
        self, request: si.RegisterResourceManagerRequest, context: Any
    ) -> si.RegisterResourceManagerResponse | bytes:
        with logging_refusal("registration", request.rmID, self._access, context):
            command = registration(request)
            self._access.check_rm(context, command.rm_id)
            async with owned(self._rms, command.rm_id) as owner:
                if owner is not None:
                    raw = request.SerializeToString()
                    return await self._passing.call(owner, REGISTER, raw, context, command.rm_id)
                async with self._rms.lock(command.rm_id):
                    self._rms.check_open()
                    anew = aborted("registered anew over si.v1", "SESSION_REPLACED")
                    with self._rms.unsettled(command.rm_id, anew):
                        caller = self._access.caller(context)
                        await self._admission.register(command, request.config, caller)
        return si.RegisterResourceManagerResponse()

    async def _serve(self, kind: Kind, context: Any) -> None:
        stream = self._call_guard.stream(context)
        first = await self._call_guard.first(stream, context)
        now = self._engine.now()
        if first is None:
            return
        request = await split(first, REQUESTS[kind].layout, self._rms.pace())
        check_rm = partial(self._access.check_rm, context)
        check_rm(request.rm_id)
        owner = self._rms.ownership.owner_of(RmId(request.rm_id))
        if owner is not None:
            method = f"/{self.name}/{kind.value}"
            await self._passing.pass_stream(owner, method, context, stream, first, request.rm_id)
            return
        with logging_refusal("stream", request.rm_id, self._access, context):
            rm = await self._take_over(kind, request.rm_id, stream)
        try:
            exchange = Exchange(self._engine, self._rms, rm, stream, FRAMINGS[kind], check_rm=check_rm)
            exchange.put(Entry(kind, 0, request, size=len(first), time=now))
            # These objects are no longer needed, and the stream may be open for a long time.
            del first, request
            await exchange.run()
        finally:
            rm.detach(kind, stream)

    async def _take_over(self, kind: Kind, rm_id: str, stream: Stream) -> Rm:
        """Make the stream the only one of its kind; returns its RM.

        Raises:
            CallError: the RM cannot have such a stream now.
        """
        async with self._rms.lock(rm_id):
            rm = self._admitting(kind, rm_id)
            text = f"taken over by a newer {kind.value} stream of RM {rm_id}"
            await rm.displace(kind, aborted(text, "STREAM_REPLACED"))
            # The end of the older stream may have taken long: check again.
            rm = self._admitting(kind, rm_id)
            rm.attach(kind, stream)
        return rm

    def _admitting(self, kind: Kind, rm_id: str) -> Rm:
        self._rms.check_open()
        rm = self._rms.get(rm_id, REQUESTS[kind].layout.message)
        check_owned(self._rms, rm.rm_id)
        if not rm.session.over_si:
            raise failed_precondition(f"RM {rm_id} is served over licorne.v1.Session", "SERVED_BY_SESSION")
        return rm
