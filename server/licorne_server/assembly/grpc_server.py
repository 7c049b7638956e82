"""The gRPC server of all services: its options and its addresses.

It also contains the standard services of health (for supervisors) and of reflection, and `State.GetServer`,
which describes the server to any caller.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import grpc
import structlog
from google.protobuf.message import Message
from grpc_health.v1 import health, health_pb2, health_pb2_grpc  # type: ignore[import-untyped]
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc  # type: ignore[import-untyped]

from licorne.v1 import state_pb2 as pb
from licorne_server.process.build_info import BuildInfo
from licorne_server.process.fair import TimeSlices
from licorne_server.process.settings import GRPC, Address, Settings, SettingsError, Tls, served_by
from licorne_server.reads.findings import of_status
from licorne_server.reads.sources import Status
from licorne_server.reads.verdict import SERVER, is_ready
from licorne_server.security.access import Access
from licorne_server.security.connections import Connections
from licorne_server.security.tls import grpc_credentials
from licorne_server.services.calls import CallGuard, unary_handler
from licorne_server.services.members.member_calls import MemberCalls
from licorne_server.services.members.packing import SERVICE as MEMBERS
from licorne_server.services.members.serving import InnerCalls
from licorne_server.services.scheduler import SchedulerService
from licorne_server.services.session import PROTOCOL, SessionService
from licorne_server.telemetry.measures import Calls
from licorne_server.transport.interface import Transport
from licorne_server.wire.caps import MAX_MESSAGE_BYTES
from licorne_server.wire.responses import nanoseconds


class Probes:
    """Reports one state: over gRPC for the server and for each service, and over HTTP."""

    status: Status
    """The state from which all probes are answered."""

    def __init__(self) -> None:
        """Report that the server is starting."""
        self.status = Status()
        self._servicer = health.aio.HealthServicer()
        self._services: tuple[str, ...] = ("",)
        self._tasks: set[asyncio.Task[None]] = set()

    def add_to(self, server: Transport, services: Sequence[str]) -> None:
        """Also serve the health service on this gRPC server, for these services."""
        self._services = ("", *services)
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    async def serving(self) -> None:
        """Report that the server is ready."""
        self.status.started = True
        await self._publish()

    async def draining(self) -> None:
        """Report that the server is about to stop."""
        self.status.draining = True
        await self._publish()

    def stalled(self, reason: str) -> None:
        """Report a stall, or its end with an empty reason. Returns before watchers over gRPC are notified."""
        self.status.stall = reason
        self._publish_soon()

    def failed(self, reason: str, concern: str = SERVER) -> None:
        """Report a failure that only a restart will end; `concern` is the concern of its finding."""
        self.status.failure, self.status.failed = reason, concern
        self._publish_soon()

    def _publish_soon(self) -> None:
        task = asyncio.get_running_loop().create_task(self._publish())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _publish(self) -> None:
        """Set the status over gRPC from the findings that HTTP reports."""
        answers = health_pb2.HealthCheckResponse
        status = answers.SERVING if is_ready(of_status(self.status)) else answers.NOT_SERVING
        for service in self._services:
            await self._servicer.set(service, status)


if TYPE_CHECKING:
    from licorne_server.telemetry.tracing.tracing import Tracing

log = structlog.get_logger("core.grpc")

OF_ITS_OWN = (
    "one malformed request, of anybody who reaches the port, can shut it for all until a restart, for which "
    "the server ends itself; with the wheel licorne-transport it cannot"
)
"""Text of the warning that is logged if the wheel licorne-transport is not used."""

CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", -1),
    # Streams of one connection: enough for four streams and some calls, too few for a reset flood.
    ("grpc.max_concurrent_streams", 16),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 15_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 2),
]


class AioTransport:
    """The server of grpc.aio."""

    def __init__(
        self, interceptors: Sequence[grpc.aio.ServerInterceptor], options: Sequence[tuple[str, int]]
    ) -> None:
        """Pass calls through the interceptors in order; `options` are gRPC's, by name."""
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


def server_of(
    settings: Settings,
    interceptors: Sequence[grpc.aio.ServerInterceptor],
    options: Sequence[tuple[str, int]],
    time_slices: TimeSlices,
    is_short: Callable[[], object] = bool,
) -> Transport:
    """Make a server without services; its calls pass the interceptors in order, and `options` are gRPC's.

    A server that `shares_ports` shares them with the other workers of its supervisor. Otherwise a second
    server on the same port fails.
    """
    every = [("grpc.so_reuseport", int(settings.shares_ports)), *CHANNEL_OPTIONS, *options]
    if served_by(settings.transport) == GRPC:
        return AioTransport(interceptors, every)
    from licorne_server.transport.loop.server import LoopTransport

    return LoopTransport(interceptors, every, time_slices, is_short)


def bind(server: Transport, settings: Settings) -> str:
    """Listen on the address of the settings; returns the bound ``HOST:PORT``.

    Raises:
        SettingsError: the server cannot listen on the address.
    """
    address = settings.listen
    # The port is tried beforehand, as gRPC would log a failure in its own words; for workers the supervisor
    # has tried it.
    refusal = "" if settings.shares_ports else address.refusal()
    if refusal:
        raise SettingsError(f"cannot listen on {address}: {refusal}")
    try:
        port = server.listen(address, settings.tls)
    except OSError as error:
        raise SettingsError(f"cannot listen on {address}: {error.strerror or error}") from None
    return str(address.with_port(port))


def bind_socket(server: Transport, address: str) -> None:
    """Also listen at ``unix:PATH``, to which only this user can connect.

    Raises:
        SettingsError: the server cannot listen on the socket.
    """
    try:
        server.listen_at(address.removeprefix("unix:"))
    except OSError as error:
        raise SettingsError(f"cannot listen on {address}: {error.strerror or error}") from None


class Service(Protocol):
    """A service, or some calls of a service."""

    @property
    def name(self) -> str:
        """The full name of the service."""
        ...

    def handler(self) -> grpc.GenericRpcHandler:
        """The methods of the service by name."""
        ...


class GrpcDoor:
    """The gRPC server of all services, with one `CallGuard`."""

    guard: CallGuard
    inner: InnerCalls
    """Calls from the web page to the same services."""
    transport: str
    """Name of the transport that serves gRPC."""

    def __init__(
        self,
        settings: Settings,
        access: Access,
        calls: Calls,
        tracing: "Tracing | None",
        time_slices: TimeSlices,
        is_short: Callable[[], object],
    ) -> None:
        """Admit callers that `access` authenticates; `calls` counts their calls, and `tracing` traces them.

        Handshakes take turns with reads in `time_slices`. `is_short` is true while memory is short.
        """
        self._time_slices = time_slices
        self._is_short = is_short
        self.transport = served_by(settings.transport)
        self.inner = InnerCalls()
        self._settings = settings
        self._connections = Connections(settings.peers)
        own = frozenset({SchedulerService.name, SessionService.name, MEMBERS})
        self.guard = CallGuard(access, self._connections, settings.peers, own, calls, tracing)
        self._server: Transport | None = None

    async def open(self, services: Sequence[Service], members: MemberCalls, probes: Probes) -> str:
        """Serve the services to callers and to other members; returns the bound ``HOST:PORT``.

        Raises:
            SettingsError: the server cannot listen, or the store of the deployment does not answer.
        """
        settings = self._settings
        interceptors = [self.guard, members.forwarding]
        options = self._connections.options()
        server = server_of(settings, interceptors, options, self._time_slices, self._is_short)
        handlers = [service.handler() for service in services]
        server.add_generic_rpc_handlers(handlers)
        await members.start(self.guard, handlers, server)
        self.inner.open(handlers, self.guard, members.forwarding)
        names = list(dict.fromkeys(service.name for service in services))
        probes.add_to(server, names)
        if settings.reflects:
            add_reflection(names, server)
        self._server = server
        address = bind(server, settings)
        if settings.coordination is not None and settings.shares_ports:
            bind_socket(server, settings.coordination.advertise)
        await server.start()
        self._connections.start(int(address.rpartition(":")[2]))
        return address

    def tell_of_transport(self) -> None:
        """If the wheel is not used, log a note for a loopback address, or a warning for any other address."""
        if self.transport == GRPC:
            tell = log.info if self._settings.listen.is_loopback else log.warning
            tell("gRPC is served by its own library", means=OF_ITS_OWN)

    async def stop(self, grace: float | None) -> None:
        """End all calls; running calls may take `grace` seconds, and end immediately if it is None."""
        await self._connections.stop()
        if self._server is not None:
            await self._server.stop(grace)


def add_reflection(services: Sequence[str], server: Transport) -> None:
    """Publish the list of services to clients."""
    names = (*services, health.SERVICE_NAME, reflection.SERVICE_NAME)
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(
        reflection.aio.ReflectionServicer(names), server
    )


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
        del request  # an empty request
        self._access.caller(context)
        return self._answer
