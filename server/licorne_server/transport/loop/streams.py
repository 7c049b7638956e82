"""The calls of one connection."""

import ssl
from collections.abc import Callable
from time import monotonic
from typing import Any, Protocol

import grpc
import licorne_transport as http2
import structlog

from licorne_server.process.bounds import host_of, peer_of
from licorne_server.transport.interface import Status
from licorne_server.transport.loop.call import Call, too_large
from licorne_server.transport.loop.metadata import MetadataError, Packed, Pairs, Unpacking, header, timeout
from licorne_server.transport.loop.rounds import Line
from licorne_server.transport.loop.unfinished import Unfinished

log = structlog.get_logger("core.transport")

PROTOCOL_ERROR = 0x1  # of HTTP/2
_METHOD = "POST"
_CONTENT_TYPE = "application/grpc"

_CERTIFICATE_KINDS = frozenset({"DNS", "URI", "email", "IP Address"})


class CallRunner(Protocol):
    """The server that runs calls."""

    max_message: int
    """Maximum number of bytes of a message."""
    unfinished: Unfinished
    """Incomplete messages of all connections."""

    def begin(self, call: Call, seconds: float | None) -> None:
        """Run a call, which may take `seconds`, or any time if that is None."""
        ...


class Streams:
    """The calls of one connection, by their streams of HTTP/2."""

    peer: str
    """The peer's address, as gRPC writes it."""
    host: str
    """The peer's host, for bounds by host."""
    line: Line
    """Key of connections that share a turn: the connections of a host. Authenticated peers, by their
    certificate or by a caller, take turns separately.
    """
    begun: int
    """Number of calls that have begun."""
    idle_since: float
    """Time at which the last call ended, in seconds of the process's clock."""

    secure: ssl.SSLObject | None
    """The TLS state with the peer's certificate; None without TLS."""

    def __init__(self, calls: CallRunner, wire: http2.Connection, soon: Callable[[], None]) -> None:
        """Start on `wire`, before the peer is known; `soon` schedules a write."""
        self.peer = self.host = ""
        self.line = (False, "")
        self.secure = None
        self._is_certified = False
        self.begun = self._unfinished = 0
        self.idle_since = monotonic()
        self._calls = calls
        self._wire = wire
        self._soon = soon
        self._open: dict[int, Call] = {}

    def meet(self, peer: str, secure: ssl.SSLObject | None) -> None:
        """Set the peer: its address as gRPC writes it, and the TLS state with its certificate."""
        self.peer, self.secure = peer, secure
        self.host = peer_of(host_of(peer))
        self._is_certified = any(self.auth_context().values())
        self.line = (self._is_certified, self.host)

    @property
    def is_greeted(self) -> bool:
        """True once the peer has sent the preface of HTTP/2."""
        return self._wire.greeted

    @property
    def is_idle(self) -> bool:
        """True while no call is open, and no response is being sent."""
        return not (self._open or self._wire.busy)

    def auth_context(self) -> dict[str, list[bytes]]:
        """Names in the peer's certificate, by gRPC's names for their kinds."""
        return _names(self.secure) if self.secure is not None else {}

    def end_all(self, status: grpc.Status) -> None:
        """End all calls with a status."""
        for call in list(self._open.values()):
            call.end(status)

    def close(self) -> None:
        """End all calls without a status, because the peer has disconnected."""
        # References between calls, this object and the connection must not form a cycle.
        calls, self._open, self._soon = self._open, {}, _nothing
        for call in calls.values():
            call.end(None)
        self._count(0)

    def count_unfinished(self) -> None:
        """Count the received bytes of incomplete messages, unless the peer has a certificate."""
        if not self._is_certified:
            found = self._unfinished_messages()
            self._count(sum(size for _, size in found) if found else 0)

    def drop_unfinished(self, reason: str) -> None:
        """End the calls with an incomplete message."""
        for stream, _ in self._unfinished_messages():
            if (call := self._open.get(stream)) is not None:
                call.end(Status(grpc.StatusCode.RESOURCE_EXHAUSTED, reason))
        log.warning("unfinished messages dropped", peer=self.peer, reason=reason)

    def authenticated(self) -> None:
        """Record that a caller was authenticated: the connection counts as that of an authenticated peer."""
        self.line = (True, self.host)

    def _unfinished_messages(self) -> list[tuple[int, int]]:
        """Incomplete first messages of calls, or for unauthenticated peers all incomplete messages."""
        is_known, _ = self.line
        return self._wire.unfinished(not is_known)

    def _count(self, size: int) -> None:
        if size != self._unfinished:
            self._unfinished = size
            self._calls.unfinished.count(self.host, self, size)

    def carry_out(self, events: list[tuple[int, int, Any]]) -> None:
        """Process the events on the wire."""
        for stream, kind, payload in events:
            if kind == http2.OPENED:
                self._begin(stream, *payload)
                continue
            call = self._open.get(stream)
            if call is None:
                continue
            if kind == http2.MESSAGES:
                call.heard(payload)
            elif kind == http2.ENDED:
                if payload:
                    call.end(Status(grpc.StatusCode.INTERNAL, "the call has ended within a message"))
                call.has_ended()
            elif kind == http2.WRITABLE:
                call.may_write()
            elif kind == http2.RESET:
                self._forget(stream)
                call.end(None)
            elif kind == http2.REFUSED:
                call.end(_refusal(self._calls.max_message, *payload))
            elif kind == http2.COMPRESSED:
                call.heard([Packed(payload)])

    # Methods for calls.

    def respond(self, stream: int, metadata: Pairs) -> None:
        """Send the head of a response."""
        self._wire.respond(stream, metadata)
        self._soon()

    def send(self, stream: int, message: bytes) -> bool:
        """Send a message; returns True if the peer has to read before the next one is sent."""
        self._soon()
        return self._wire.send(stream, message)

    def consumed(self, stream: int, messages: int, size: int) -> None:
        """Record that messages were read, so that the peer may send more."""
        if self._wire.consumed(stream, messages, size):
            self._soon()

    def stop_reading(self, stream: int) -> None:
        """Drop further messages of a call."""
        self._wire.stop_reading(stream)
        if self._unfinished:
            self.count_unfinished()

    def finish(self, stream: int, head: Pairs, metadata: Pairs) -> None:
        """End a response, and its call."""
        self._wire.finish(stream, head, metadata)
        self._forget(stream)
        self._soon()

    def _begin(self, stream: int, method: str, path: str, headers: Pairs, values: int) -> None:
        """Begin a call, or refuse it. Its metadata is not decoded until the caller is authenticated."""
        self.begun += 1
        unpacking = Unpacking(header(headers, "grpc-encoding"), self._calls.max_message)
        call = self._open[stream] = Call(self, stream, path, headers, unpacking)
        if values > http2.MOST_VALUES:
            text = f"the headers have {values} values, and at most {http2.MOST_VALUES} are taken"
            call.end(Status(grpc.StatusCode.RESOURCE_EXHAUSTED, text))
            return
        if method != _METHOD or not header(headers, "content-type").startswith(_CONTENT_TYPE):
            self._forget(stream)
            self._wire.reset(stream, PROTOCOL_ERROR)
            self._soon()
            return
        try:
            given = header(headers, "grpc-timeout")
            seconds = timeout(given) if given else None
        except MetadataError as error:
            call.end(Status(grpc.StatusCode.INTERNAL, str(error)))
            return
        self._calls.begin(call, seconds)

    def _forget(self, stream: int) -> None:
        self._open.pop(stream, None)
        self.idle_since = monotonic()
        self.count_unfinished()


def _refusal(most: int, size: int, flag: int) -> grpc.Status:
    if flag > 1:
        return Status(grpc.StatusCode.INTERNAL, f"a message has an unknown flag: {flag}")
    return too_large(size, most)


def _nothing() -> None:
    """Do nothing, in place of scheduling a write."""


def _names(secure: ssl.SSLObject) -> dict[str, list[bytes]]:
    """Names in a certificate, as gRPC calls their kinds."""
    certificate: Any = secure.getpeercert() or {}
    alternative = [
        value if kind in _CERTIFICATE_KINDS else "other types of SAN"
        for kind, value in certificate.get("subjectAltName", ())
    ]
    common = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    return {
        "x509_subject_alternative_name": [name.encode() for name in alternative],
        "x509_common_name": [name.encode() for name in common],
    }
