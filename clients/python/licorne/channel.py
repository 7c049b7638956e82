"""The gRPC channel, and what the status codes of its calls mean for the client."""

import grpc
from grpc import aio

from licorne.errors import (
    ConfigInvalid,
    LicorneError,
    ProtocolError,
    RegistrationInvalid,
    SessionFenced,
    Unauthorized,
)
from licorne.options import TlsConfig

REGISTRATION_FAILED = "registration of RM failed"
STATUS_DETAILS = "grpc-status-details-bin"

OPTIONS = [
    # A server that vanishes without closing the connection is noticed within 45 seconds.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 15_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # The client waits between tries by itself; the channel must not add waits of its own.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # A stream cannot be repeated, and gRPC leaks the broken streams that it retries.
    ("grpc.enable_retries", 0),
    # Two clients in one process share no connection, so that one cannot slow the other.
    ("grpc.use_local_subchannel_pool", 1),
    # The transport buffers little, so that a client that stops reading stops the server.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 1024 * 1024),
]


def open_channel(target: str, tls: TlsConfig | None) -> aio.Channel:
    """A channel that connects when it is used. Raises OSError for unreadable certificates."""
    if tls is None:
        return aio.insecure_channel(target, options=OPTIONS)
    options = list[tuple[str, int | str]](OPTIONS)
    if tls.server_name:
        options.append(("grpc.ssl_target_name_override", tls.server_name))
    return aio.secure_channel(target, tls.credentials(), options=options)


def fatal_error(error: aio.AioRpcError) -> LicorneError | None:
    """The error that ends the client, or None if another try may help."""
    text = text_of(error)
    match error.code():
        case grpc.StatusCode.UNAUTHENTICATED | grpc.StatusCode.PERMISSION_DENIED:
            return Unauthorized(text)
        case grpc.StatusCode.ABORTED:
            return SessionFenced(text)
        case grpc.StatusCode.FAILED_PRECONDITION:
            if _has_reason(error, "INSTANCE_FENCED"):
                return SessionFenced(text)
            # A client that the server has forgotten registers again.
            return None if _has_reason(error, "RM_NOT_REGISTERED") else ProtocolError(text)
        case grpc.StatusCode.INVALID_ARGUMENT if text.startswith(REGISTRATION_FAILED):
            return registration_error(error)
        case grpc.StatusCode.INVALID_ARGUMENT | grpc.StatusCode.UNIMPLEMENTED:
            return ProtocolError(text)
        case _:
            return None


def text_of(error: aio.AioRpcError) -> str:
    """The server's text, or the name of the status if there is none."""
    return error.details() or error.code().name


def registration_error(error: aio.AioRpcError) -> LicorneError:
    """The error for a refused registration or change of it: of the configuration or of the rest."""
    text = text_of(error)
    if not (_has_reason(error, "CONFIG_INVALID") or _has_reason(error, "config")):
        return RegistrationInvalid(text)
    # The text has a prefix and then one problem a line; without a prefix it is one problem.
    _, _, problems = text.partition(": ")
    return ConfigInvalid(text, (problems or text).splitlines())


def _has_reason(error: aio.AioRpcError, reason: str) -> bool:
    """Whether the status details have that reason code, or are about the field of that name.

    Both texts are the first field of their messages. They are searched for in the bytes, because
    the message types belong to a package that the client does not depend on.
    """
    first_field = b"\n" + bytes([len(reason)]) + reason.encode()
    return any(
        name == STATUS_DETAILS and isinstance(value, bytes) and first_field in value
        for name, value in error.trailing_metadata()
    )
