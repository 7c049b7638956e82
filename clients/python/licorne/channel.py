"""The gRPC channel, and what its status codes mean to us."""

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
    # A peer that vanished without a word is found out within 45 seconds.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 15_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # The waiting between tries is ours; the channel's own must not add to it.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # A stream is not repeatable, and broken ones that gRPC retries leak.
    ("grpc.enable_retries", 0),
    # Two clients in one process share neither connection nor trouble.
    ("grpc.use_local_subchannel_pool", 1),
    # What is not read must not pile up unseen in the transport.
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
    """What an ended stream means where trying again cannot cure it, or None."""
    text = text_of(error)
    match error.code():
        case grpc.StatusCode.UNAUTHENTICATED | grpc.StatusCode.PERMISSION_DENIED:
            return Unauthorized(text)
        case grpc.StatusCode.ABORTED:
            return SessionFenced(text)
        case grpc.StatusCode.FAILED_PRECONDITION:
            if _has_reason(error, "INSTANCE_FENCED"):
                return SessionFenced(text)
            # Whoever was forgotten by the server registers again.
            return None if _has_reason(error, "RM_NOT_REGISTERED") else ProtocolError(text)
        case grpc.StatusCode.INVALID_ARGUMENT if text.startswith(REGISTRATION_FAILED):
            return registration_error(error)
        case grpc.StatusCode.INVALID_ARGUMENT | grpc.StatusCode.UNIMPLEMENTED:
            return ProtocolError(text)
        case _:
            return None


def text_of(error: aio.AioRpcError) -> str:
    """The server's words, or at least the name of the status."""
    return error.details() or error.code().name


def registration_error(error: aio.AioRpcError) -> LicorneError:
    """The error for a refused registration or a change of it: the configuration's, or another."""
    text = text_of(error)
    if not (_has_reason(error, "CONFIG_INVALID") or _has_reason(error, "config")):
        return RegistrationInvalid(text)
    # A prefix and one problem a line, or what is wrong with all of it.
    _, _, problems = text.partition(": ")
    return ConfigInvalid(text, (problems or text).splitlines())


def _has_reason(error: aio.AioRpcError, reason: str) -> bool:
    """Whether the status details carry that reason code, or are about the field of that name.

    A search, as the types are not ours: both texts are the first field of their messages.
    """
    first_field = b"\n" + bytes([len(reason)]) + reason.encode()
    return any(
        name == STATUS_DETAILS and isinstance(value, bytes) and first_field in value
        for name, value in error.trailing_metadata()
    )
