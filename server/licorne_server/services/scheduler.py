"""`si.v1.Scheduler`: registration, and the three streams (spec § 1).

The streams carry no order between kinds, no acknowledgements and no farewell. So a message written
to a stream is taken as received, and a broken stream is simply opened again.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from licorne.si.v1 import si_pb2 as si
from licorne_core.values.errors import shown
from licorne_server.engine.engine import Engine
from licorne_server.rms.admission import Admission
from licorne_server.rms.intake import LAYOUTS, Entry, Intake, handle_request
from licorne_server.rms.registry import Rms
from licorne_server.rms.rejections import telling_refusal
from licorne_server.rms.rm import Rm
from licorne_server.rms.streams import Stream
from licorne_server.security.access import Access
from licorne_server.services.calls import CallGuard, stream_handler, unary_handler
from licorne_server.wire.errors import CallError, Malformed, aborted, failed_precondition, invalid_argument
from licorne_server.wire.framing import split
from licorne_server.wire.requests import registration
from licorne_server.wire.responses import Kind

STREAMS = {
    "UpdateNode": Kind.NODES,
    "UpdateApplication": Kind.APPLICATIONS,
    "UpdateAllocation": Kind.ALLOCATIONS,
}


class SchedulerService:
    """The RPCs of the published scheduler interface."""

    name = "si.v1.Scheduler"

    def __init__(
        self, engine: Engine, rms: Rms, access: Access, call_guard: CallGuard, admission: Admission
    ) -> None:
        """Over the engine and the RMs that it serves.

        Streams come through the `call_guard`, and new RMs through the `admission`.
        """
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
        for rpc, kind in STREAMS.items():
            methods[rpc] = stream_handler(self._stream_of(kind))
        return grpc.method_handlers_generic_handler(self.name, methods)

    async def _register(
        self, request: si.RegisterResourceManagerRequest, context: Any
    ) -> si.RegisterResourceManagerResponse:
        with telling_refusal("registration", request.rmID, self._access, context):
            command = registration(request)
            self._access.check_rm(context, command.rm_id)
            async with self._rms.lock(command.rm_id):
                self._rms.check_open()
                anew = aborted("registered anew over si.v1", "SESSION_REPLACED")
                with self._rms.unsettled(command.rm_id, anew):
                    caller = self._access.caller(context)
                    await self._admission.register(command, request.config, caller)
        return si.RegisterResourceManagerResponse()

    def _stream_of(self, kind: Kind) -> Callable[[Any], Awaitable[None]]:
        async def serve(context: Any) -> None:
            await self._serve(kind, context)

        return serve

    async def _serve(self, kind: Kind, context: Any) -> None:
        stream = self._call_guard.stream(context)
        first = await self._call_guard.first(stream, context)
        now = self._engine.now()
        if first is None:
            return
        request = await split(first, LAYOUTS[kind], self._rms.pace())
        self._access.check_rm(context, request.rm_id)
        with telling_refusal("stream", request.rm_id, self._access, context):
            rm = await self._take_over(kind, request.rm_id, stream)
        try:
            intake = Intake()
            intake.put(Entry(kind, 0, request, size=len(first), time=now))
            await stream.run(
                self._read(rm, kind, stream, intake, context),
                self._carry_out(rm, kind, stream, intake),
                self._write(rm, kind, stream),
                rm.outbox.wake,
            )
        finally:
            rm.detach(kind, stream)

    async def _take_over(self, kind: Kind, rm_id: str, stream: Stream) -> Rm:
        """Make the stream the only one of its kind; returns the RM that it belongs to.

        Raises:
            CallError: the RM takes no such stream.
        """
        async with self._rms.lock(rm_id):
            rm = self._admitting(kind, rm_id)
            text = f"taken over by a newer {kind.value} stream of RM {rm_id}"
            await rm.displace(kind, aborted(text, "STREAM_REPLACED"))
            # The older stream may have taken long to end: check again.
            rm = self._admitting(kind, rm_id)
            rm.attach(kind, stream)
        return rm

    def _admitting(self, kind: Kind, rm_id: str) -> Rm:
        self._rms.check_open()
        rm = self._rms.get(rm_id, LAYOUTS[kind].message)
        if rm.session is not None:
            raise failed_precondition(f"RM {rm_id} is served over licorne.v1.Session", "SERVED_BY_SESSION")
        return rm

    async def _read(
        self,
        rm: Rm,
        kind: Kind,
        stream: Stream,
        intake: Intake,
        context: Any,
    ) -> None:
        """Read requests behind the first until the RM's side ends or one makes no sense."""
        layout, pace = LAYOUTS[kind], self._rms.pace()
        try:
            while (raw := await stream.read()) is not None:
                now = self._engine.now()
                request = await split(raw, layout, pace)
                if request.rm_id and request.rm_id != rm.rm_id:
                    self._access.check_rm(context, request.rm_id)
                    self._rms.get(request.rm_id, layout.message)
                    raise invalid_argument(
                        f"rmID is {shown(request.rm_id)} on a stream of RM {rm.rm_id}", "rmID"
                    )
                intake.put(Entry(kind, 0, request, size=len(raw), time=now))
                if intake.is_full:
                    await intake.room()
        except (CallError, Malformed) as error:
            # What came before it is carried out.
            intake.end(error)
        finally:
            intake.end()

    async def _carry_out(self, rm: Rm, kind: Kind, stream: Stream, intake: Intake) -> None:
        """Carry out the read requests, until there is nothing more or the stream has ended."""
        pace = self._rms.pace()
        while not stream.over and (entry := await intake.take()) is not None:
            await rm.outbox.room.wait()
            await rm.settled.wait()
            rm.check()
            assert entry.request is not None, "these streams carry requests with items only"
            with stream.to_completion():
                await handle_request(
                    self._engine,
                    self._rms,
                    rm,
                    kind,
                    entry.request,
                    rm.registration_guard(),
                    entry.time,
                    pace,
                )

    async def _write(self, rm: Rm, kind: Kind, stream: Stream) -> None:
        kinds = (kind,)
        while not stream.over:
            rm.check()
            batch = rm.outbox.peek(kinds)
            if batch is not None:
                if await stream.more_may_come(batch.items, busy=self._engine.busy):
                    continue
                await stream.write(batch.data)
                stream.wrote_items = batch.items
                rm.outbox.sent(batch)
            elif stream.finishing.is_set():
                return
            else:
                await rm.outbox.wait(kinds)
