"""The gRPC interface of services: contexts of calls, and the server."""

from collections.abc import Sequence
from typing import NoReturn, Protocol

import grpc

from licorne_server.process.settings import Address, Tls

Metadata = tuple[tuple[str, str | bytes], ...]


class Status(grpc.Status):
    """The status with which a call ends."""

    def __init__(self, code: grpc.StatusCode, details: str = "", metadata: Metadata = ()) -> None:
        """`metadata` is the trailing metadata."""
        self.code = code
        self.details = details
        self.trailing_metadata = metadata


class Details(grpc.HandlerCallDetails):
    """The description of a call for interceptors. It has no metadata, which the context decodes."""

    invocation_metadata = ()

    def __init__(self, method: str) -> None:
        """`method` is the path, such as ``/licorne.v1.Admin/DumpState``."""
        self.method = method


class Context:
    """The part of a call's context that is the same for calls of all origins."""

    status: grpc.Status | None = None
    """Status with which a handler has aborted the call; None before."""

    def code(self) -> grpc.StatusCode | None:
        """Code of the status."""
        return None if self.status is None else self.status.code

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: Metadata = ()
    ) -> NoReturn:
        """End the call with a status.

        Raises:
            grpc.aio.AbortError: always.
        """
        await self.abort_with_status(Status(code, details, trailing_metadata))

    async def abort_with_status(self, status: grpc.Status) -> NoReturn:
        """End the call with a status.

        Raises:
            grpc.aio.AbortError: always.
        """
        self.status = status
        raise grpc.aio.AbortError


class Prompt(Context):
    """The context of a call that reports received messages, and ends unauthenticated calls early."""

    def authenticated(self) -> None:
        """Record that a service which requires authentication has authenticated the caller."""
        raise NotImplementedError

    def waiting(self) -> list[bytes]:
        """Read further messages that have already arrived, but only a few."""
        raise NotImplementedError


class Transport(Protocol):
    """A gRPC server: that of grpc.aio, or one on connections of the event loop."""

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler], /) -> None:
        """Serve these handlers too."""
        ...

    def listen(self, address: Address, tls: Tls | None) -> int:
        """Listen at an address, with TLS if `tls` is not None; returns the port.

        Raises:
            OSError: the address cannot be used.
        """
        ...

    def listen_at(self, path: str) -> None:
        """Listen on a Unix socket.

        Raises:
            OSError: the path cannot be used.
        """
        ...

    async def start(self) -> None:
        """Accept connections from now on."""
        ...

    async def stop(self, grace: float | None) -> None:
        """End all calls; running calls may take `grace` seconds, and end immediately if it is None."""
        ...
