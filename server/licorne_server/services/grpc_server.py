"""The gRPC server of all services: its options and its addresses."""

from collections.abc import Sequence

import grpc

from licorne_server.process.settings import Address, SettingsError, Tls
from licorne_server.security.tls import GrpcCertificates
from licorne_server.wire.caps import MAX_MESSAGE_BYTES

CHANNEL_OPTIONS = [
    # A second server on the same port must fail, not share it.
    ("grpc.so_reuseport", 0),
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
    call_guard: grpc.aio.ServerInterceptor, options: Sequence[tuple[str, int]]
) -> grpc.aio.Server:
    """A server without services, whose calls pass the `call_guard`; with `options` of gRPC."""
    return grpc.aio.server(interceptors=[call_guard], options=[*CHANNEL_OPTIONS, *options])


def bind(server: grpc.aio.Server, address: Address, tls: Tls | None) -> str:
    """Listen, with these certificates if there are any; returns the bound ``HOST:PORT``.

    Raises:
        SettingsError: it cannot.
    """
    # Tried beforehand: grpc would log its refusal in its own words.
    refusal = address.refusal()
    if refusal:
        raise SettingsError(f"cannot listen on {address}: {refusal}")
    try:
        if tls is None:
            port = server.add_insecure_port(str(address))
        else:
            port = server.add_secure_port(str(address), GrpcCertificates(tls).credentials())
    except RuntimeError as error:
        raise SettingsError(f"cannot listen on {address}: {error}") from None
    if not port:
        raise SettingsError(f"cannot listen on {address}")
    return str(address.with_port(port))
