"""The gRPC channel, the client's errors for its status codes, and the back-off between attempts."""

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import TypeVar

import grpc
from google.protobuf.message import DecodeError, Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from grpc import aio

from licorne.addresses import Addresses, Target, addresses_of
from licorne.errors import (
    ConfigInvalid,
    LicorneError,
    ProtocolError,
    RegistrationInvalid,
    SessionFenced,
    Unauthorized,
)
from licorne.options import RetryConfig, TlsConfig, Token, authorization, check_token

M = TypeVar("M", bound=Message)

REGISTRATION_FAILED = "registration of RM failed"
STATUS_DETAILS = "grpc-status-details-bin"

OPTIONS = [
    # A server that disappears without closing the connection is detected within 45 seconds.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 15_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # The client itself waits between attempts, and each attempt has a new channel. So the back-off of the
    # channel exceeds its lifetime. `min` is also the time limit for connecting.
    ("grpc.initial_reconnect_backoff_ms", 5_000),
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    # A stream cannot be repeated, and gRPC leaks the broken streams that it retries.
    ("grpc.enable_retries", 0),
    # Clients in one process do not share a connection, so that one cannot slow another.
    ("grpc.use_local_subchannel_pool", 1),
    # Little is buffered on the way, so that a client that stops reading soon blocks the server.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 1024 * 1024),
    # Answers about asks with many tags are large: see the caps in the page for authors of shims.
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
]


def open_channel(target: str, tls: TlsConfig | None) -> aio.Channel:
    """A channel that connects with its first call. Raises OSError for unreadable certificates."""
    if tls is None:
        return aio.insecure_channel(target, options=OPTIONS)
    options = list[tuple[str, int | str]](OPTIONS)
    if tls.server_name:
        options.append(("grpc.ssl_target_name_override", tls.server_name))
    return aio.secure_channel(target, tls.credentials(), options=options)


class Dialer:
    """Opens channels to the addresses of a server, with the credentials of the caller."""

    def __init__(self, target: Target, tls: TlsConfig | None, token: Token | None) -> None:
        """Raises as `addresses_of` does, and ValueError for a token that would be sent without TLS."""
        given = addresses_of(target)
        self._tls = tls
        self._token = token
        for address in given:
            check_token(token, tls, address)
        self.addresses = Addresses(given, self._may_dial)

    def _may_dial(self, address: str) -> bool:
        """False if a token would be sent to the address without TLS."""
        try:
            check_token(self._token, self._tls, address)
        except ValueError:
            return False
        return True

    def channel(self, address: str) -> aio.Channel:
        """A new channel to an address. Raises OSError for unreadable certificates."""
        return open_channel(address, self._tls)

    def metadata(self, address: str) -> tuple[tuple[str, str], ...]:
        """The credentials for every call to an address. Raises as `authorization` does."""
        try:
            check_token(self._token, self._tls, address)
        except ValueError as error:
            raise Unauthorized(str(error)) from None
        return authorization(self._token)


async def connects(channel: aio.Channel, patience: float) -> bool:
    """True if a channel connects within `patience` seconds."""
    state = channel.get_state(try_to_connect=True)
    try:
        async with asyncio.timeout(patience):
            while state in (grpc.ChannelConnectivity.IDLE, grpc.ChannelConnectivity.CONNECTING):
                await channel.wait_for_state_change(state)
                state = channel.get_state()
    except TimeoutError:
        return False
    return state is grpc.ChannelConnectivity.READY


def refusal(error: aio.AioRpcError) -> LicorneError | None:
    """The server's refusal as an error, or None if the same request may be accepted later."""
    text = text_of(error)
    match error.code():
        case grpc.StatusCode.UNAUTHENTICATED | grpc.StatusCode.PERMISSION_DENIED:
            return Unauthorized(text)
        case grpc.StatusCode.ABORTED:
            return SessionFenced(text)
        case grpc.StatusCode.FAILED_PRECONDITION:
            if _has_reason(error, "INSTANCE_FENCED"):
                return SessionFenced(text)
            # The client registers again if the server does not know it.
            return None if _has_reason(error, "RM_NOT_REGISTERED") else ProtocolError(text)
        case grpc.StatusCode.INVALID_ARGUMENT if text.startswith(REGISTRATION_FAILED):
            return registration_error(error)
        case grpc.StatusCode.INVALID_ARGUMENT | grpc.StatusCode.UNIMPLEMENTED:
            return ProtocolError(text)
        case _:
            return None


def text_of(error: aio.AioRpcError) -> str:
    """The server's text, or the name of the status code if there is no text."""
    return error.details() or error.code().name


def registration_error(error: aio.AioRpcError) -> LicorneError:
    """The error for a refused registration or update: `ConfigInvalid` or `RegistrationInvalid`."""
    return config_error(error) or RegistrationInvalid(text_of(error))


def config_error(error: aio.AioRpcError) -> ConfigInvalid | None:
    """The error for a refused configuration; None for any other refusal."""
    of_config = any(
        violation.field == "config"
        for request in _details(error, BadRequest)
        for violation in request.field_violations
    )
    if not (of_config or _has_reason(error, "CONFIG_INVALID")):
        return None
    text = text_of(error)
    # The text is a prefix with a colon, then one problem per line. Without a prefix it is a single problem.
    _, _, problems = text.partition(": ")
    return ConfigInvalid(text, (problems or text).splitlines())


def wanted_wait(error: aio.AioRpcError) -> float | None:
    """Seconds to wait before the next attempt, as the server requests; None without a request."""
    for info in _details(error, RetryInfo):
        seconds = info.retry_delay.seconds + info.retry_delay.nanos / 1e9
        if seconds > 0:
            return float(seconds)
    return None


def reason_of(error: aio.AioRpcError) -> tuple[str, dict[str, str]]:
    """The server's reason and its metadata; without a reason, the name of the status code and nothing."""
    for info in _details(error, ErrorInfo):
        return info.reason, dict(info.metadata)
    return error.code().name, {}


def _has_reason(error: aio.AioRpcError, reason: str) -> bool:
    return any(info.reason == reason for info in _details(error, ErrorInfo))


def _details(error: aio.AioRpcError, kind: type[M]) -> Iterator[M]:
    """The details of this type in the server's status."""
    for name, value in error.trailing_metadata():
        if name != STATUS_DETAILS or not isinstance(value, bytes):
            continue
        try:
            for packed in Status.FromString(value).details:
                detail = kind()
                if packed.Unpack(detail):
                    yield detail
        except DecodeError:
            # No Licorne server sends such details. Code and text of the status are still valid.
            return


SHARE = 0.75
"""Longest wait as a fraction of the ceiling. With the default ceilings it is 1.5 s, which leaves half a
second to connect: clients return within 2 s after the server does.
"""
LONGEST = 300.0
"""Maximum seconds that a server can request; longer requests are cut."""


class Backoff:
    """Exponential back-off with jitter: a random wait below a ceiling that doubles with each failure.

    The jitter spreads the connections of many clients to a restarted server. The highest ceiling is low, so
    that clients return soon after the server does. It is higher while the server reports a lack of capacity,
    because then the server is running.
    """

    def __init__(self, retry: RetryConfig, uniform: Callable[[float, float], float] = random.uniform) -> None:
        """`retry` has the ceilings. `uniform` draws a number between its two arguments."""
        self._retry = retry
        self._uniform = uniform
        self._ceiling = retry.initial

    def lasted(self, seconds: float) -> None:
        """Record the end of a stream that lasted for `seconds` after its welcome.

        The ceiling is reset unless the stream was too short: otherwise clients would overrun a server that
        welcomes and then drops them.
        """
        if seconds >= self._retry.stable:
            self.reset()

    def reset(self) -> None:
        """Reset the ceiling to the first one."""
        self._ceiling = self._retry.initial

    def next(self, *, exhausted: bool = False) -> float:
        """Seconds to wait before the next attempt; `exhausted` if the server reported a lack of capacity."""
        maximum = self._retry.maximum
        if exhausted:
            maximum = max(maximum, self._retry.exhausted)
        ceiling = min(maximum, self._ceiling)
        self._ceiling = min(maximum, ceiling * 2)
        return self._uniform(0.0, SHARE * ceiling)

    def told(self, seconds: float) -> float:
        """Seconds to wait if the server requests `seconds`: between 1 and 1.5 times as long, at random.

        More than `LONGEST` counts as `LONGEST`, because one corrupted byte could request weeks.
        """
        seconds = min(LONGEST, seconds)
        return self._uniform(seconds, 1.5 * seconds)
