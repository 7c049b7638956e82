"""Calls of etcd: several servers with fail-over, a time-out for each attempt, TLS, and tokens of a user."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import grpc
from google.protobuf.message import Message
from grpc import StatusCode, aio

from licorne_server.process.coordination import Coordination
from licorne_server.process.settings import SettingsError
from licorne_server.store.coordination.pb import etcd_pb2 as pb
from licorne_server.store.documents.documents import StoreError

M = TypeVar("M", bound=Message)
Metadata = tuple[tuple[str, str], ...]
Connect = Callable[[str], aio.Channel]
"""Makes the channel to the server at a ``HOST:PORT``."""

MAX_MESSAGE = 16 * 1024 * 1024
"""Maximum number of bytes of an answer."""

OPTIONS = [
    # This detects a lost server on an idle watch; etcd accepts a ping every 5 s.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    # gRPC's default back-off is longer than a lease.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # This module retries calls, with a time-out for each attempt.
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", MAX_MESSAGE),
]

NEEDS_LEADER = ("hasleader", "true")
"""Metadata that makes a server without a leader refuse a call immediately."""

REFUSALS = frozenset(
    {
        StatusCode.INVALID_ARGUMENT,
        StatusCode.NOT_FOUND,
        StatusCode.OUT_OF_RANGE,
        StatusCode.PERMISSION_DENIED,
        StatusCode.RESOURCE_EXHAUSTED,
        StatusCode.UNAUTHENTICATED,
    }
)
"""Status codes that every other server would return as well."""

OLD_TOKEN = "revision of auth store is old"
"""Part of etcd's error text for a token that is older than the last change of users and roles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method(Generic[M]):
    """A call of etcd."""

    path: str
    answer: type[M]
    stream: bool = False
    """True for a bidirectional stream, of which one request and one answer are used."""
    repeatable: bool = True
    """False if a repeated call may get a different answer."""


RANGE = Method(path="/etcdserverpb.KV/Range", answer=pb.RangeResponse)
PUT = Method(path="/etcdserverpb.KV/Put", answer=pb.PutResponse)
TXN = Method(path="/etcdserverpb.KV/Txn", answer=pb.TxnResponse, repeatable=False)
TXN_AGAIN = Method(path="/etcdserverpb.KV/Txn", answer=pb.TxnResponse)
"""A transaction that, if it is repeated, changes nothing and gets the same answer."""
GRANT = Method(path="/etcdserverpb.Lease/LeaseGrant", answer=pb.LeaseGrantResponse)
REVOKE = Method(path="/etcdserverpb.Lease/LeaseRevoke", answer=pb.LeaseRevokeResponse)
KEEP_ALIVE = Method(path="/etcdserverpb.Lease/LeaseKeepAlive", answer=pb.LeaseKeepAliveResponse, stream=True)
AUTHENTICATE = Method(path="/etcdserverpb.Auth/Authenticate", answer=pb.AuthenticateResponse)
WATCH = "/etcdserverpb.Watch/Watch"


class Refused(StoreError):
    """An error with which etcd has answered; nothing was changed."""

    def __init__(self, text: str, code: StatusCode) -> None:
        """`code` is the status of the answer."""
        super().__init__(text)
        self.code = code

    @property
    def stale_token(self) -> bool:
        """True if the call may succeed with a new token."""
        return self.code is StatusCode.UNAUTHENTICATED or OLD_TOKEN in str(self)


def connector(options: Coordination) -> Connect:
    """Make the function that connects to servers as the options say.

    Raises:
        SettingsError: one of the files for TLS cannot be read.
    """
    if not options.tls:
        return lambda host: aio.insecure_channel(host, options=OPTIONS)
    credentials = grpc.ssl_channel_credentials(
        root_certificates=_contents(options.ca, "CA"),
        private_key=_contents(options.key, "key"),
        certificate_chain=_contents(options.cert, "certificate"),
    )
    return lambda host: aio.secure_channel(host, credentials, options=OPTIONS)


def _contents(path: Path | None, subject: str) -> bytes | None:
    try:
        return None if path is None else path.read_bytes()
    except OSError as error:
        raise SettingsError(f"the {subject} for the store cannot be read: {error}") from None


def _password(path: Path | None) -> str:
    """The password in a file, without the line end; empty if there is no file."""
    contents = _contents(path, "password") or b""
    try:
        return contents.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise SettingsError(f"the password for the store is no text, {path}: {error}") from None


class EtcdConnection:
    """Channels to the servers of one etcd. Calls use the server that answered last."""

    def __init__(self, options: Coordination, connect: Connect, patience: float) -> None:
        """Start unconnected. Each attempt of a call has `patience` seconds."""
        self._hosts = options.hosts
        self._user = options.user
        self._password = options.password
        # Checked now, so that a missing file is an error at the start; it is read again at each login.
        _password(self._password)
        self._connect = connect
        self._patience = patience
        self._channels: dict[str, aio.Channel] = {}
        self._preferred = 0
        self._token = ""
        self._authenticating = asyncio.Lock()
        self._closed = False

    async def call(self, method: Method[M], request: Message) -> M:
        """The answer to a request.

        A repeatable request is sent to each server once, until one answers.

        Raises:
            Refused: etcd has answered with an error.
            StoreError: no server has answered in time.
        """
        tries = len(self._hosts) if method.repeatable else 1
        while True:
            tries -= 1
            host = self._host
            try:
                return await self._call_one(host, method, request)
            except Refused:
                raise
            except StoreError:
                self._pass_over(host)
                if not tries:
                    raise

    async def changes(self, key: bytes, end: bytes) -> AsyncGenerator[int, None]:
        """The current revision, then the revision of each later change to a key in the range.

        Changes may share a revision, and some may be missing.

        Raises:
            StoreError: the watch has ended, or could not begin.
        """
        host = self._host
        create = pb.WatchCreateRequest(key=key, range_end=end)
        try:
            metadata = await self._metadata(host)
            open_stream = self._channel(host).stream_stream(
                WATCH, request_serializer=_to_bytes, response_deserializer=pb.WatchResponse.FromString
            )
            call = open_stream(metadata=metadata)
            try:
                async with asyncio.timeout(self._patience):
                    await call.write(pb.WatchRequest(create_request=create))
                    answer = await call.read()
                while isinstance(answer, pb.WatchResponse) and not answer.canceled:
                    yield answer.header.revision
                    answer = await call.read()
            finally:
                call.cancel()
        except aio.AioRpcError as error:
            self._pass_over(host)
            raise _failure(host, error) from error
        except (TimeoutError, asyncio.InvalidStateError) as error:
            self._pass_over(host)
            raise StoreError(f"etcd at {host} does not answer a watch") from error
        raise StoreError(f"etcd at {host} has ended the watch")

    async def close(self) -> None:
        """Close all channels. Later calls fail."""
        self._closed = True
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            await channel.close()

    @property
    def _host(self) -> str:
        return self._hosts[self._preferred % len(self._hosts)]

    def _pass_over(self, host: str) -> None:
        """Prefer the next server to this one, unless another call has already changed the preference."""
        if self._host == host:
            self._preferred += 1

    def _channel(self, host: str) -> aio.Channel:
        if self._closed:
            raise StoreError("the connection to etcd was closed")
        if host not in self._channels:
            self._channels[host] = self._connect(host)
        return self._channels[host]

    async def _call_one(self, host: str, method: Method[M], request: Message) -> M:
        """The answer of one server. A stale token is replaced, but only once."""
        metadata = await self._metadata(host)
        try:
            return await self._try(host, method, request, metadata)
        except Refused as refused:
            if not self._user or not refused.stale_token:
                raise
        return await self._try(host, method, request, await self._metadata(host, stale=metadata))

    async def _metadata(self, host: str, stale: Metadata | None = None) -> Metadata:
        """The metadata of a call, with a token that is not the `stale` one."""
        if not self._user:
            return (NEEDS_LEADER,)
        async with self._authenticating:
            if not self._token or self._with_token == stale:
                self._token = await self._log_in(host)
            return self._with_token

    async def _log_in(self, host: str) -> str:
        """Log in; returns a new token."""
        try:
            password = _password(self._password)
        except SettingsError as error:
            raise StoreError(str(error)) from None
        request = pb.AuthenticateRequest(name=self._user, password=password)
        try:
            answer = await self._try(host, AUTHENTICATE, request, (NEEDS_LEADER,))
        except Refused as refused:
            raise Refused(f"user {self._user!r}: {refused}", refused.code) from None
        return answer.token

    @property
    def _with_token(self) -> Metadata:
        return (NEEDS_LEADER, ("token", self._token))

    async def _try(self, host: str, method: Method[M], request: Message, metadata: Metadata) -> M:
        """The answer of one server to a call with that metadata."""
        channel = self._channel(host)
        codec: Any = {
            "request_serializer": _to_bytes,
            "response_deserializer": method.answer.FromString,
        }
        try:
            if not method.stream:
                unary = channel.unary_unary(method.path, **codec)
                answer = await unary(request, timeout=self._patience, metadata=metadata)
            else:
                stream = channel.stream_stream(method.path, **codec)
                call = stream(iter((request,)), timeout=self._patience, metadata=metadata)
                try:
                    answer = await call.read()
                finally:
                    call.cancel()
        except aio.AioRpcError as error:
            raise _failure(host, error) from error
        except asyncio.CancelledError:
            # A closed channel cancels its calls even if the caller was not cancelled.
            task = asyncio.current_task()
            if self._closed and task is not None and not task.cancelling():
                raise StoreError("the connection to etcd was closed") from None
            raise
        if not isinstance(answer, method.answer):
            raise StoreError(f"etcd at {host} has ended the call without an answer")
        return answer


def _to_bytes(message: Message) -> bytes:
    return message.SerializeToString()


def _failure(host: str, error: aio.AioRpcError) -> StoreError:
    code = error.code()
    text = f"etcd at {host}: {code.name}: {error.details()}"
    return Refused(text, code) if code in REFUSALS else StoreError(text)
