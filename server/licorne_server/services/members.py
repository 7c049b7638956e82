"""`licorne.members.Members`: calls that other members pass on to this one.

A passed call enters the same handlers, behind the same guard, as one of a caller here. Its context has
the identity that the other member has authenticated. It is never passed on again.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any

import grpc
import structlog

from licorne_core.views import Views
from licorne_server.process.loop import stop_task
from licorne_server.process.settings import Settings, SettingsError
from licorne_server.reads.members import TELL_SECONDS, Members
from licorne_server.rms.passing import Passing
from licorne_server.rms.registry import Rms
from licorne_server.security.access import Access, Caller, PassedOn
from licorne_server.security.tls import member_credentials
from licorne_server.services.calls import CallGuard, stream_handler
from licorne_server.services.forwarding import Forwarding, Names
from licorne_server.store.coordination.ownership import Ownership
from licorne_server.store.coordination.packing import ACCEPTED, SERVICE, PackedCall, PackedStream
from licorne_server.store.coordination.pb import members_pb2 as pb
from licorne_server.store.coordination.reach import Reach
from licorne_server.store.coordination.secret import deployment_secret, is_given
from licorne_server.store.coordination.store import Store, StoreError
from licorne_server.transport.aio import Transport
from licorne_server.transport.call import Context, Details
from licorne_server.wire.errors import CallError, Malformed, packed_details, permission_denied

log = structlog.get_logger("core.coordination.members")

LOOK_SECONDS = 1.0
"""Seconds between two looks for a lost lease, and for other members."""

AT_ONCE = 100
"""RMs that are told of other members without a pause."""

STOPPING = "this member is about to stop"


class PassedContext(Context, PassedOn):
    """The context of a passed call, as far as the services use that of grpc.aio."""

    def __init__(self, call: PackedCall, opening: pb.Open) -> None:
        """The call that another member has opened so."""
        caller = opening.caller
        self.caller = Caller(frozenset(caller.names), caller.operator, caller.peer, caller.viewer)
        self._address = caller.address
        self._metadata = tuple(opening.metadata.items())
        self._call = call

    def when_leaving(self, leave: Callable[[str, float], object]) -> None:
        """See `PassedOn`; at once if the other member has said so already."""

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
        """There are none: the other member has sent them."""

    async def read(self) -> Any:
        """The caller's next message, or gRPC's EOF."""
        message = await self._call.receive()
        return grpc.aio.EOF if message is None else message

    async def write(self, message: bytes) -> None:
        """Send a message to the caller."""
        await self._call.send(message)


class MemberCalls:
    """All calls between this member and others."""

    passing: Passing
    forwarding: Forwarding
    elsewhere: Passing | Reach
    """The way of a session to its RM's owner: passed on between workers, which share their address,
    or else redirected if the owner is within reach."""
    http: Members | None
    """The other members over HTTP; None for a server that is alone. They are not asked before `start`."""

    def __init__(
        self, settings: Settings, ownership: Ownership, access: Access, rms: Rms, views: Views
    ) -> None:
        """Pass calls on for callers that `access` knows, to the owners that `ownership` knows."""
        self._ownership = ownership
        self._rms = rms
        self.http = Members.beside(ownership, settings.tls, settings.member_ca)
        credentials = partial(member_credentials, settings.tls, settings.member_ca)
        self.passing = Passing(ownership, access, credentials)
        self.forwarding = Forwarding(ownership, self.passing, Names(access, rms, views))
        options = settings.coordination
        if settings.shares_ports:
            self.elsewhere = self.passing
        else:
            self.elsewhere = Reach(0.0 if options is None else options.lease, time.monotonic)
        self._service: MembersService | None = None
        self._following: list[asyncio.Task[None]] = []

    async def start(
        self, guard: CallGuard, handlers: Sequence[grpc.GenericRpcHandler], server: Transport
    ) -> None:
        """Be ready to pass calls on, and to take those of others for these handlers.

        Raises:
            SettingsError: the store does not answer.
        """
        store = self._ownership.store
        if store is None:
            return
        try:
            secret = await deployment_secret(store)
        except StoreError as error:
            raise SettingsError(f"the secret of the deployment cannot be read: {error}") from None
        self._service = MembersService(secret, guard, [*handlers, self.forwarding.names.handler()])
        server.add_generic_rpc_handlers([self._service.handler()])
        self.passing.start()
        self._use(secret)
        self._following = [
            asyncio.create_task(self._follow(store), name="secret of the deployment"),
            asyncio.create_task(self._tell(), name="other members"),
        ]

    def _use(self, secret: str) -> None:
        self.passing.secret = secret
        if self._service is not None:
            self._service.secret = secret
        if self.http is not None:
            self.http.secret = secret

    async def _follow(self, store: Store) -> None:
        """Look at the secret after each loss of the lease: the store may have lost both. Never returns."""
        known = self._ownership.me()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            me = self._ownership.me()
            if me == known:
                continue
            try:
                secret = await deployment_secret(store, self.passing.secret)
            except StoreError as error:
                log.warning("the secret of the deployment was not read", reason=str(error))
                continue
            known = me
            if secret != self.passing.secret:
                log.warning("the deployment has another secret now")
                self._use(secret)

    async def _tell(self) -> None:
        """Tell RMs of other members as they come and go. Never returns."""
        told: set[str] = set()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            addresses = {member.address for member in self._ownership.others()}
            if addresses == told:
                continue
            told = addresses
            for number, rm in enumerate(self._rms.all()):
                rm.tell_others(self._ownership.told(rm.rm_id))
                if number % AT_ONCE == AT_ONCE - 1:
                    await asyncio.sleep(0)

    async def stop(self, grace: float | None) -> None:
        """End all calls, those of other members too; at once with None, see `MembersService.stop`."""
        for task in self._following:
            await stop_task(task)
        await self.passing.stop()
        if self._service is not None:
            await self._service.stop(grace)


class MembersService:
    """Carries out the calls that other members pass on."""

    name = SERVICE

    def __init__(self, secret: str, guard: CallGuard, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """Serve members that know the `secret`; calls reach the `handlers` behind the `guard`."""
        self.secret = secret
        self._guard = guard
        self._handlers = handlers
        # Each with the event of its end.
        self._streams: dict[PackedStream, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        # Calls of streams of RMs.
        self._of_rms: set[PackedCall] = set()
        # Calls without the secret since the log was last told, and when that was.
        self._wrong, self._told = 0, -TELL_SECONDS

    def handler(self) -> grpc.GenericRpcHandler:
        """The method by name, bytes in and bytes out."""
        return grpc.method_handlers_generic_handler(self.name, {"Pass": stream_handler(self._pass)})

    async def stop(self, grace: float | None) -> None:
        """End the streams of all members.

        Within `grace` seconds the streams of RMs, which are about to end, come to their statuses, and
        what waits is sent. With None all break off.
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
        if not is_given(self.secret, context.invocation_metadata() or ()):
            self._tell_of_wrong_secret(context.peer())
            raise permission_denied("the secret of the deployment is needed")
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

    def _tell_of_wrong_secret(self, peer: str) -> None:
        """Tell the log now and then, as anybody may call without it."""
        self._wrong += 1
        if time.monotonic() - self._told >= TELL_SECONDS:
            log.warning("member refused: it does not know the secret", peer=peer, times=self._wrong)
            self._told, self._wrong = time.monotonic(), 0

    def _begin(self, call: PackedCall, opening: pb.Open) -> None:
        task = asyncio.create_task(self._serve(call, opening), name=f"passed {opening.method}")
        call.on_end = task.cancel
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, call: PackedCall, opening: pb.Open) -> None:
        """Carry a call out, and end it with its status."""
        context = PassedContext(call, opening)
        try:
            await self._carry_out(call, opening, context)
        except grpc.aio.AbortError:
            # The handlers have made every error into a status.
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
