"""`licorne.members.Members`: calls that other members pass on to this one.

A passed call is carried out by the same handlers, behind the same guard, as a client's call. Its context has
the identity that the other member has authenticated. The call is never passed on again.

Calls from the web page are carried out in the same way: same handlers, guard, rights and audit. If several
members share the RMs, such a call is passed on to the owner of its RM.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import grpc
import structlog

from licorne_server.security.access import Authenticated, Caller, PassedOn
from licorne_server.services.calls import CallGuard, stream_handler
from licorne_server.services.members.forwarding import Forwarding
from licorne_server.services.members.packing import ACCEPTED, SERVICE, PackedCall, PackedStream
from licorne_server.store.coordination.pb import members_pb2 as pb
from licorne_server.store.coordination.secret import Secret
from licorne_server.transport.interface import Context, Details, Prompt
from licorne_server.wire.errors import (
    CallError,
    Malformed,
    call_error,
    packed_details,
    permission_denied,
    unavailable,
)

log = structlog.get_logger("core.coordination.members")

STOPPING = "this member is about to stop"


class PassedContext(Context, PassedOn):
    """The context of a passed call: the part of grpc.aio's context that the services use."""

    def __init__(self, call: PackedCall, opening: pb.Open) -> None:
        """Context of the call that another member has opened with this frame."""
        caller = opening.caller
        self.caller = Caller(frozenset(caller.names), caller.operator, caller.peer, caller.viewer)
        self._address = caller.address
        self._metadata = tuple(opening.metadata.items())
        self._call = call

    def when_leaving(self, leave: Callable[[str, float], object]) -> None:
        """See `PassedOn`; the callback is called at once if the other member has already asked to leave."""

        def asked(leaving: asyncio.Future[pb.Leave]) -> None:
            wish = leaving.result()
            leave(wish.reason, wish.retry_after_milliseconds / 1000)

        self._call.leaving.add_done_callback(asked)

    def peer(self) -> str:
        """The caller's address, as gRPC writes it."""
        return self._address

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        """The caller's trace context."""
        return self._metadata

    async def send_initial_metadata(self, _: object) -> None:
        """Do nothing: the other member has sent the initial metadata."""

    async def read(self) -> Any:
        """The caller's next message, or gRPC's EOF."""
        message = await self._call.receive()
        return grpc.aio.EOF if message is None else message

    async def write(self, message: bytes) -> None:
        """Send a message to the caller."""
        await self._call.send(message)


class MembersService:
    """Carries out the calls that other members pass on."""

    name = SERVICE

    def __init__(self, secret: Secret, guard: CallGuard, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """Serve members that have the `secret`; `guard` admits their calls to the `handlers`."""
        self._secret = secret
        self._guard = guard
        self._handlers = handlers
        # Open streams, each with an event that is set at the stream's end.
        self._streams: dict[PackedStream, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        # Calls that are streams of an RM.
        self._of_rms: set[PackedCall] = set()

    def handler(self) -> grpc.GenericRpcHandler:
        """The handler of the method `Pass`, which receives and sends undecoded bytes."""
        return grpc.method_handlers_generic_handler(self.name, {"Pass": stream_handler(self._pass)})

    async def stop(self, grace: float | None) -> None:
        """End the streams of all members.

        For at most `grace` seconds the streams of RMs, which are about to end, may send their statuses and
        queued messages. With None all streams end immediately.
        """
        if grace is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    for call in tuple(self._of_rms):
                        await call.ended.wait()
            for packed in tuple(self._streams):
                packed.finish(STOPPING)
            with suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    for closed in tuple(self._streams.values()):
                        await closed.wait()
        for packed in tuple(self._streams):
            packed.close(STOPPING)

    async def _pass(self, context: Any) -> None:
        if not self._secret.is_in(context.invocation_metadata() or ()):
            self._secret.refused(context.peer())
            raise permission_denied("the secret of the deployment is needed")
        if isinstance(context, Prompt):
            context.authenticated()
        stream = self._guard.stream(context)
        await stream.write(ACCEPTED)
        log.info("member connected", peer=stream.peer)
        packed = PackedStream(stream.read, stream.write, self._begin)
        closed = self._streams[packed] = asyncio.Event()
        try:
            await packed.run()
        except Malformed as error:
            log.warning("member cut off: it keeps to no protocol", peer=stream.peer, reason=str(error))
            raise
        finally:
            del self._streams[packed]
            closed.set()
            log.info("member disconnected", peer=stream.peer, **asdict(stream.traffic))

    def _begin(self, call: PackedCall, opening: pb.Open) -> None:
        task = asyncio.create_task(self._serve(call, opening), name=f"passed {opening.method}")
        call.on_end = task.cancel
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, call: PackedCall, opening: pb.Open) -> None:
        """Carry out a call, and end it with its status."""
        context = PassedContext(call, opening)
        try:
            await self._carry_out(call, opening, context)
        except grpc.aio.AbortError:
            # The handlers have turned every error into a status.
            assert context.status is not None, "a call is aborted with a status"
            call.on_end = None
            status = context.status
            call.finish(status.code.value[0], status.details or "", packed_details(status))
        else:
            call.on_end = None
            call.finish()
        finally:
            self._of_rms.discard(call)

    async def _carry_out(self, call: PackedCall, opening: pb.Open, context: PassedContext) -> None:
        details = Details(opening.method)
        found = [handler for each in self._handlers if (handler := each.service(details)) is not None]
        if not found:
            text = f"{opening.method} is not served"
            await context.abort_with_status(CallError(grpc.StatusCode.UNIMPLEMENTED, text).status())
        handler = self._guard.guarded(found[0], opening.method)
        if handler.stream_stream is not None:
            self._of_rms.add(call)
            await handler.stream_stream(None, context)
            return
        request = await call.receive()
        if request is None:
            text = "the call has no request"
            await context.abort_with_status(CallError(grpc.StatusCode.INTERNAL, text).status())
        if handler.unary_stream is not None:
            await handler.unary_stream(request, context)
        else:
            await call.send(await handler.unary_unary(request, context))


class InnerContext(Context, Authenticated):
    """The context of a call from the web page, with the methods of grpc.aio that unary handlers use."""

    def __init__(self, caller: Caller, address: str) -> None:
        """`address` is the address of the caller, as gRPC writes it."""
        self.caller = caller
        self._address = address

    def peer(self) -> str:
        """The caller's address."""
        return self._address

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        """The metadata: always empty."""
        return ()


class InnerCalls:
    """Carries out unary calls of the services of this server."""

    def __init__(self) -> None:
        """Start without handlers: no call is carried out before `open`."""
        self._find: Callable[[Details], Awaitable[Any]] | None = None

    def open(
        self, handlers: Sequence[grpc.GenericRpcHandler], guard: CallGuard, forwarding: Forwarding
    ) -> None:
        """Carry out calls of these services from now on, as gRPC does: behind `guard` and `forwarding`."""

        async def handler(details: Details) -> Any:
            return next(found for each in handlers if (found := each.service(details)) is not None)

        async def guarded(details: Details) -> Any:
            return guard.guarded(await forwarding.intercept_service(handler, details), details.method)

        self._find = guarded

    async def call(self, method: str, request: bytes, caller: Caller, address: str) -> bytes:
        """The response to a caller's request; `address` is that of the caller, as gRPC writes it.

        Raises:
            CallError: the call has failed, or the server has not started yet.
        """
        if self._find is None:
            raise unavailable("the server has not started yet")
        handler = await self._find(Details(method))
        context = InnerContext(caller, address)
        try:
            answer: bytes = await handler.unary_unary(request, context)
        except grpc.aio.AbortError:
            status = context.status
            assert status is not None, "a call is aborted with a status"
            raise call_error(status.code, status.details or "", packed_details(status)) from None
        return answer
