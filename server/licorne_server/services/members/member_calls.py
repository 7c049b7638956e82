"""All calls between this member and others: their parts, their secret, and the list of members for RMs."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from functools import partial

import grpc
import structlog

from licorne_core.views import Views
from licorne_server.process.loop import stop_task
from licorne_server.process.settings import Settings, SettingsError
from licorne_server.reads.members import Members
from licorne_server.rms.registry import Rms
from licorne_server.security.access import Access, Caller
from licorne_server.security.tls import member_credentials
from licorne_server.services.calls import CallGuard, watch_handler
from licorne_server.services.members.forwarding import Forwarding, Names
from licorne_server.services.members.packing import SERVICE, PackedCall
from licorne_server.services.members.passing import Passing
from licorne_server.services.members.serving import InnerContext, MembersService, PassedContext
from licorne_server.store.coordination.ownership import Ownership
from licorne_server.store.coordination.pb import members_pb2 as pb
from licorne_server.store.coordination.reach import Reach
from licorne_server.store.coordination.secret import Secret, deployment_secret
from licorne_server.store.coordination.store import Member, Store
from licorne_server.store.documents.documents import StoreError
from licorne_server.transport.interface import Transport

log = structlog.get_logger("core.coordination.members")

LOOK_SECONDS = 1.0
"""Seconds between two checks for a lost lease, and for changed members."""

AT_ONCE = 100
"""Number of RMs that are sent the other members without a pause."""

READ = f"/{SERVICE}/Read"

Answers = Callable[[pb.ReadRequest, Caller], AsyncGenerator[bytes, None]]
"""Gives the messages of the answer to a read of REST or of the page; raises CallError and Malformed."""


class MemberCalls:
    """All calls between this member and others."""

    passing: Passing
    forwarding: Forwarding
    elsewhere: Passing | Reach
    """Brings a session to the owner of its RM: passes it on between workers, which share their address;
    otherwise redirects it, if the client can reach the owner."""
    members: Members | None
    """Sends reads of REST and the page to other members; None without other members, and before `start`."""

    answer: Answers
    """Answers reads of other members; to be set before `start`."""

    def __init__(
        self, settings: Settings, ownership: Ownership, access: Access, rms: Rms, views: Views
    ) -> None:
        """Pass calls on: `access` authenticates their callers, and `ownership` has the owners."""
        self._ownership = ownership
        self._rms = rms
        self._secret = Secret()
        self.members = None if ownership.store is None else Members(ownership, self._reading)
        credentials = partial(member_credentials, settings.tls, settings.member_ca)
        self.passing = Passing(ownership, access, credentials, self._secret)
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
        """Begin to pass calls on, and to accept passed calls for these handlers.

        Raises:
            SettingsError: the store does not answer.
        """
        store = self._ownership.store
        if store is None:
            return
        try:
            self._secret.value = await deployment_secret(store)
        except StoreError as error:
            raise SettingsError(f"the secret of the deployment cannot be read: {error}") from None
        self._service = MembersService(self._secret, guard, [*handlers, *self._handlers()])
        server.add_generic_rpc_handlers([self._service.handler()])
        self.passing.start()
        self._following = [
            asyncio.create_task(self._follow(store), name="secret of the deployment"),
            asyncio.create_task(self._tell(), name="other members"),
        ]

    def _handlers(self) -> Iterator[grpc.GenericRpcHandler]:
        """The methods that only other members call."""
        yield self.forwarding.names.handler()
        read = {"Read": watch_handler(pb.ReadRequest, self._read)}
        yield grpc.method_handlers_generic_handler(SERVICE, read)

    async def _read(self, request: pb.ReadRequest, context: PassedContext) -> None:
        async with aclosing(self.answer(request, context.caller)) as messages:
            async for message in messages:
                await context.write(message)

    def _reading(
        self, member: Member, request: pb.ReadRequest, caller: Caller, rm_id: str
    ) -> AbstractAsyncContextManager[PackedCall]:
        context = InnerContext(caller, "")
        return self.passing.reading(member, READ, request.SerializeToString(), context, rm_id)

    async def first_rm(self, partition: str) -> str:
        """The first RM id of all members with a partition of that bare name; empty if there is none.

        An empty name stands for any partition.

        Raises:
            CallError: UNAVAILABLE, a member that may have it does not answer.
        """
        me = self._ownership.snapshot().members.get(self._ownership.me())
        caller = Caller(frozenset(), True, "this server" if me is None else f"member {me.name}")
        return await self.forwarding.first(partition, InnerContext(caller, ""))

    async def _follow(self, store: Store) -> None:
        """Check the secret after each loss of the lease, as the store may have lost both. Never returns."""
        known = self._ownership.me()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            me = self._ownership.me()
            if me == known:
                continue
            try:
                secret = await deployment_secret(store, self._secret.value)
            except StoreError as error:
                log.warning("the secret of the deployment was not read", reason=str(error))
                continue
            known = me
            if secret != self._secret.value:
                log.warning("the deployment has another secret now")
                self._secret.value = secret

    async def _tell(self) -> None:
        """Send RMs the list of other members whenever it changes. Never returns."""
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
        """End the calls that this server passes on to other members, and those that they pass on to it.

        `grace` in seconds is for the latter only; None ends them immediately: see `MembersService.stop`.
        """
        for task in self._following:
            await stop_task(task)
        await self.passing.stop()
        if self._service is not None:
            await self._service.stop(grace)
