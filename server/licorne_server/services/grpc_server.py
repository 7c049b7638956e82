"""The gRPC server of all services: its options and its addresses.

Also here:

* The standard service of reflection; `probes` has that of health.
* `State.GetServer`: facts about the server, for any caller.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import grpc
from google.protobuf.message import Message
from grpc_health.v1 import health  # type: ignore[import-untyped]
from grpc_reflection.v1alpha import reflection  # type: ignore[import-untyped]

from licorne.v1 import state_pb2 as pb
from licorne_server.coordination.packing import SERVICE as MEMBERS
from licorne_server.process.build_info import BuildInfo
from licorne_server.process.settings import Address, Settings, SettingsError, Tls
from licorne_server.security.access import Access
from licorne_server.security.connections import Connections
from licorne_server.security.tls import grpc_credentials
from licorne_server.services.calls import CallGuard, unary_handler
from licorne_server.services.inner_calls import InnerCalls
from licorne_server.services.members import MemberCalls
from licorne_server.services.probes import Probes
from licorne_server.services.scheduler import SchedulerService
from licorne_server.services.session import PROTOCOL, SessionService
from licorne_server.telemetry.measures import Calls
from licorne_server.wire.caps import MAX_MESSAGE_BYTES
from licorne_server.wire.responses import nanoseconds

if TYPE_CHECKING:
    from licorne_server.telemetry.tracing.tracing import Tracing

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


class Service(Protocol):
    """A service, or some calls of one."""

    @property
    def name(self) -> str:
        """Its full name."""
        ...

    def handler(self) -> grpc.GenericRpcHandler:
        """Its methods by name."""
        ...


class GrpcDoor:
    """The gRPC server of all services, behind one guard."""

    guard: CallGuard
    inner: InnerCalls
    """Calls of the page, to the same services."""

    def __init__(self, settings: Settings, access: Access, calls: Calls, tracing: "Tracing | None") -> None:
        """Admit callers that `access` knows; `calls` counts their calls, and `tracing` traces them."""
        self.inner = InnerCalls()
        self._settings = settings
        self._connections = Connections(settings.peers)
        own = frozenset({SchedulerService.name, SessionService.name, MEMBERS})
        self.guard = CallGuard(access, self._connections, settings.peers, own, calls, tracing)
        self._server: grpc.aio.Server | None = None

    async def open(self, services: Sequence[Service], members: MemberCalls, probes: Probes) -> str:
        """Serve the services to callers and to other members; returns the bound ``HOST:PORT``.

        Raises:
            SettingsError: it cannot listen, or the store of the deployment does not answer.
        """
        settings = self._settings
        interceptors = [self.guard, members.forwarding]
        server = grpc_server(interceptors, self._connections.options(), shares=settings.shares_ports)
        handlers = [service.handler() for service in services]
        server.add_generic_rpc_handlers(handlers)
        await members.start(self.guard, handlers, server)
        self.inner.open(handlers, self.guard, members.forwarding)
        names = list(dict.fromkeys(service.name for service in services))
        probes.add_to(server, names)
        if settings.reflects:
            add_reflection(names, server)
        self._server = server
        address = bind(server, settings.listen, settings.tls, shares=settings.shares_ports)
        if settings.coordination is not None and settings.shares_ports:
            bind_socket(server, settings.coordination.advertise)
        await server.start()
        self._connections.start(int(address.rpartition(":")[2]))
        return address

    async def stop(self, grace: float | None) -> None:
        """End all calls, those under way after `grace` seconds; at once with None."""
        await self._connections.stop()
        if self._server is not None:
            await self._server.stop(grace)


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
