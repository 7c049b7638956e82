"""The gRPC server of all services: its options and its addresses.

Also here:

* The standard services of gRPC: health and reflection.
* `State.GetServer`: facts about the server, for any caller.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import grpc
from google.protobuf.message import Message
from grpc_health.v1 import health, health_pb2, health_pb2_grpc  # type: ignore[import-untyped]
from grpc_reflection.v1alpha import reflection  # type: ignore[import-untyped]

from licorne.v1 import state_pb2 as pb
from licorne_server.process.build_info import BuildInfo
from licorne_server.process.settings import Address, SettingsError, Tls
from licorne_server.security.access import Access
from licorne_server.security.tls import grpc_credentials
from licorne_server.services.calls import unary_handler
from licorne_server.services.session import PROTOCOL
from licorne_server.wire.caps import MAX_MESSAGE_BYTES
from licorne_server.wire.responses import nanoseconds

CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", -1),
    # Per connection: enough for four streams and some calls, too few for a reset flood.
    ("grpc.max_concurrent_streams", 16),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 15_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 2),
]


def grpc_server(
    interceptors: Sequence[grpc.aio.ServerInterceptor],
    options: Sequence[tuple[str, int]],
    *,
    shares: bool = False,
) -> grpc.aio.Server:
    """A server without services, whose calls pass the interceptors in order; with `options` of gRPC.

    One that `shares` its port does so with the other workers of its supervisor. Otherwise a second
    server on the same port fails.
    """
    sharing = ("grpc.so_reuseport", int(shares))
    return grpc.aio.server(interceptors=interceptors, options=[sharing, *CHANNEL_OPTIONS, *options])


def bind(server: grpc.aio.Server, address: Address, tls: Tls | None, *, shares: bool = False) -> str:
    """Listen, with these certificates if there are any; returns the bound ``HOST:PORT``.

    Raises:
        SettingsError: it cannot.
    """
    # Tried beforehand: grpc would log its refusal in its own words. A supervisor has tried its port.
    refusal = "" if shares else address.refusal()
    if refusal:
        raise SettingsError(f"cannot listen on {address}: {refusal}")
    try:
        if tls is None:
            port = server.add_insecure_port(str(address))
        else:
            port = server.add_secure_port(str(address), grpc_credentials(tls))
    except RuntimeError as error:
        raise SettingsError(f"cannot listen on {address}: {error}") from None
    if not port:
        raise SettingsError(f"cannot listen on {address}")
    return str(address.with_port(port))


def bind_socket(server: grpc.aio.Server, address: str) -> None:
    """Listen at ``unix:PATH`` too, where only this user comes in.

    Raises:
        SettingsError: it cannot.
    """
    try:
        server.add_insecure_port(address)
    except RuntimeError as error:
        raise SettingsError(f"cannot listen on {address}: {error}") from None


_SERVING = health_pb2.HealthCheckResponse.SERVING


class StandardHealth:
    """`grpc.health.v1.Health`: one entry for the server, one for each service."""

    def __init__(self, services: Sequence[str]) -> None:
        """Report NOT_SERVING until `serving`."""
        self._servicer = health.aio.HealthServicer()
        self._services = ("", *services)
        self._tasks: set[asyncio.Task[None]] = set()

    def add_to(self, server: grpc.aio.Server) -> None:
        """Add the service to a server."""
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    async def serving(self) -> None:
        """Report SERVING for every service."""
        await self._set_all(_SERVING)

    def stalled(self) -> None:
        """Report NOT_SERVING until `well`. This returns before watchers know."""
        self._report(health_pb2.HealthCheckResponse.NOT_SERVING)

    def well(self) -> None:
        """Report SERVING for every service again, unless it failed or drains."""
        self._report(_SERVING)

    def failed(self) -> None:
        """Report NOT_SERVING for ever."""
        self._spawn(self.draining())

    def _report(self, status: int) -> None:
        self._spawn(self._set_all(status))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _set_all(self, status: int) -> None:
        for service in self._services:
            await self._servicer.set(service, status)

    async def draining(self) -> None:
        """Report NOT_SERVING for ever."""
        await self._servicer.enter_graceful_shutdown()


def add_reflection(services: Sequence[str], server: grpc.aio.Server) -> None:
    """Publish the list of services to clients."""
    names = (*services, health.SERVICE_NAME, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server)


class AboutService:
    """The call that describes the server itself, not its workload."""

    name = "licorne.v1.State"

    def __init__(self, info: BuildInfo, started_time: float, access: Access) -> None:
        """`started_time` is in unix seconds."""
        self._answer = pb.GetServerResponse(
            version=info.version,
            form=info.form,
            python=info.python,
            started_time=nanoseconds(started_time),
            protocols=[PROTOCOL],
        )
        self._access = access

    def handler(self) -> grpc.GenericRpcHandler:
        """The method by name, bytes in and bytes out."""
        return grpc.method_handlers_generic_handler(
            self.name, {"GetServer": unary_handler(pb.GetServerRequest, self._get)}
        )

    async def _get(self, request: pb.GetServerRequest, context: Any) -> Message:
        del request  # it asks for nothing in particular
        self._access.caller(context)
        return self._answer
