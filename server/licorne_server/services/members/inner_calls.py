"""Calls from the web page, carried out like calls over gRPC: same handlers, guard, rights and audit.

Where members share the RMs, such a call is passed on to the owner of its RM.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc

from licorne_server.security.access import Authenticated, Caller
from licorne_server.services.calls import CallGuard
from licorne_server.services.members.forwarding import Forwarding
from licorne_server.transport.interface import Context, Details
from licorne_server.wire.errors import call_error, packed_details, unavailable


class InnerContext(Context, Authenticated):
    """The context of such a call, as far as unary handlers use that of grpc.aio."""

    def __init__(self, caller: Caller, address: str) -> None:
        """`address` is the caller's, as gRPC writes it."""
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
        """No call is carried out before `open`."""
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
        """The response to a request of a caller, whose address is written as by gRPC.

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
