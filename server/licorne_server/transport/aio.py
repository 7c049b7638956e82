"""A gRPC server as this server needs one, and that of grpc.aio."""

from collections.abc import Sequence
from typing import Protocol

import grpc

from licorne_server.process.settings import Address, Tls
from licorne_server.security.tls import grpc_credentials


class Transport(Protocol):
    """A gRPC server: that of grpc.aio, or `server.LoopTransport`."""

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler], /) -> None:
        """Serve these handlers too."""
        ...

    def listen(self, address: Address, tls: Tls | None) -> int:
        """Listen at an address, with these certificates if there are any; returns the port.

        Raises:
            OSError: it cannot.
        """
        ...

    def listen_at(self, path: str) -> None:
        """Listen at a path of the file system.

        Raises:
            OSError: it cannot.
        """
        ...

    async def start(self) -> None:
        """Accept connections from now on."""
        ...

    async def stop(self, grace: float | None) -> None:
        """End all calls, those under way after `grace` seconds; at once with None."""
        ...


class AioTransport:
    """The server of grpc.aio."""

    def __init__(
        self, interceptors: Sequence[grpc.aio.ServerInterceptor], options: Sequence[tuple[str, int]]
    ) -> None:
        """Calls pass the interceptors in order; `options` are gRPC's."""
        server = self._server = grpc.aio.server(interceptors=interceptors, options=options)
        self.add_generic_rpc_handlers = server.add_generic_rpc_handlers
        self.add_registered_method_handlers = server.add_registered_method_handlers
        self.start = server.start
        self.stop = server.stop

    def listen(self, address: Address, tls: Tls | None) -> int:
        """See `Transport`."""
        return self._bound(str(address), None if tls is None else grpc_credentials(tls))

    def listen_at(self, path: str) -> None:
        """See `Transport`."""
        self._bound(f"unix:{path}", None)

    def _bound(self, address: str, credentials: grpc.ServerCredentials | None) -> int:
        try:
            if credentials is None:
                port = self._server.add_insecure_port(address)
            else:
                port = self._server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise OSError(str(error)) from None
        if not port:
            raise OSError("gRPC gives no reason")
        return port
