"""Checks whether the addresses of a server still accept connections and answer.

A fault of a library may close an address while open connections continue, so that only new clients are
affected. The watchdog connects to each address as any client would, from its own thread.

An address counts as shut if it refuses connections, or accepts them and sends nothing. Events that may have
another cause are no evidence: a full backlog, no descriptor left, no answer while the loop is stalled
(`watchdog.py` has a limit for that). The silence of an address that has never answered is no evidence either,
as a firewall may be in between. Refused connections count even if the address has never answered, because an
attacker may shut every new server immediately. Connections that another machine refuses do not count.
"""

import errno
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from licorne_server.process.settings import Address, Settings, Tls

REST_SECONDS = 5.0
"""Seconds between an answer and the next probe."""

REFUSED_SECONDS = 10.0
"""Seconds of refused connections after which an address counts as shut. Load alone causes no refusals."""

SILENT_SECONDS = 60.0
"""Seconds without an answer after which an address counts as shut."""

TRY_SECONDS = 20.0
"""Seconds without an answer after which another connection is made."""

READ_BYTES = 64 * 1024

Answered = Callable[[bytes], bool]


class Door:
    """Probe of one address. Used by one thread."""

    name: str
    """Name of the service at the address: ``grpc``, ``http`` or ``metrics``."""
    has_answered: bool
    """True once the address has answered."""

    def __init__(
        self, name: str, place: tuple[int, Any], words: Callable[[], bytes], answered: Answered = bool
    ) -> None:
        """`place` is the family and the address of a socket.

        The result of `words` is sent on each connection; `answered` returns True if the received bytes are an
        answer.
        """
        self.name = name
        self._family, self._address = place
        self._words = words
        self._answered = answered
        self._socket: socket.socket | None = None
        self._has_asked = False
        self._heard = b""
        # Seconds until the next probe, and seconds since the current one began.
        self._rest = 0.0
        self._asking = 0.0
        self.has_answered = False
        # Seconds of refusals, and seconds of silence, since the last answer.
        self._refused = 0.0
        self._silent = 0.0

    def look(self, elapsed: float) -> str:
        """Probe once, `elapsed` seconds after the last call; returns why the address is shut, if it is."""
        self._rest -= elapsed
        if self._socket is None and self._rest > 0:
            return ""
        try:
            if self._step():
                self.has_answered = self.has_answered or bool(self._heard)
                self._refused = self._silent = 0.0
                self._leave(REST_SECONDS)
        except BlockingIOError:
            self._wait(elapsed)
        except (ConnectionRefusedError, FileNotFoundError):  # gRPC removes a Unix socket on closing it
            if self._is_here():
                self._refused += self._asking + elapsed
            self._leave(0.0)
        except OSError:  # without a descriptor or a route nothing is known about the address
            self._leave(REST_SECONDS)
        return self._reason()

    def close(self) -> None:
        """Stop probing, and close the connection."""
        self._leave(0.0)

    def _step(self) -> bool:
        """Connect, send, or read; returns True for an answer.

        Raises:
            BlockingIOError: the step has to wait for the network. OSError: there is no connection.
        """
        if self._socket is None:
            self._socket = socket.socket(self._family, socket.SOCK_STREAM)
            self._socket.setblocking(False)
            self._socket.connect(self._address)
        if not self._has_asked:
            self._socket.send(self._words())
            self._has_asked = True
        try:
            came = self._socket.recv(READ_BYTES)
        except (BrokenPipeError, ConnectionResetError):
            came = b""
        self._heard += came
        # A closed connection counts as an answer: a server with too many connections closes new ones.
        return not came or self._answered(self._heard)

    def _wait(self, elapsed: float) -> None:
        """Count the silence of the address, unless the server may lack a descriptor for the connection."""
        self._asking += elapsed
        if self._has_asked and _has_descriptor():
            self._silent += elapsed
        if self._asking >= TRY_SECONDS:
            self._leave(0.0)

    def _is_here(self) -> bool:
        """True if the address belongs to this machine; otherwise another machine has refused."""
        if self._family == socket.AF_UNIX:
            return True
        host, _, *more = self._address
        try:
            with socket.socket(self._family, socket.SOCK_STREAM) as probe:
                probe.bind((host, 0, *more))
        except OSError as error:
            return error.errno != errno.EADDRNOTAVAIL
        return True

    def _leave(self, rest: float) -> None:
        """Close the connection; the next probe is after `rest` seconds."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self._has_asked, self._heard = None, False, b""
        self._rest, self._asking = rest, 0.0

    def _reason(self) -> str:
        if self._refused >= REFUSED_SECONDS:
            return f"the {self.name} address has refused connections for {REFUSED_SECONDS:g} s"
        if self.has_answered and self._silent >= SILENT_SECONDS:
            return f"the {self.name} address has not answered for {SILENT_SECONDS:g} s"
        return ""


def _has_descriptor() -> bool:
    """True if the process could open another socket: a server that accepts connections needs one for each."""
    try:
        socket.socket(socket.AF_UNIX).close()
    except OSError:
        return False
    return True


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


_HEADERS, _RESET, _SETTINGS, _GOAWAY = 1, 3, 4, 7
_HEAD, _WHOLE = 9, 5
"""Number of bytes before the payload of a frame; flags of headers that are a complete request."""

_CALL = {
    b":method": b"POST",
    b":scheme": b"http",
    b":path": b"/licorne.Door/Ask",
    b":authority": b"localhost",
    b"te": b"trailers",
    b"content-type": b"application/grpc",
}
_BLOCK = b"".join(b"\0%c%b%c%b" % (len(name), name, len(value), value) for name, value in _CALL.items())
# A call of an unknown method, which is the cheapest. gRPC's threads send their settings even while the loop
# is stalled, so only the answer to a call shows that the loop is working.
_GRPC_WORDS = b"".join(
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", _frame(_SETTINGS, 0, 0), _frame(_HEADERS, _WHOLE, 1, _BLOCK)]
)
_HTTP_WORDS = b"HEAD /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def _is_called_back(heard: bytes) -> bool:
    """True if the HTTP/2 frames contain the answer to a call, or the end of the call or the connection."""
    at = 0
    while at + _HEAD <= len(heard):
        if heard[at + 3] in (_HEADERS, _RESET, _GOAWAY):
            return True
        at += _HEAD + int.from_bytes(heard[at : at + 3])
    return False


def _tls_words() -> bytes:
    """The beginning of a TLS handshake, which is not completed because that may need a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2", "http/1.1"])
    sent = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), sent).do_handshake()
    return sent.read()


def doors_of(settings: Settings, grpc: str, http: str, metrics: str) -> list[Door]:
    """The probes of a server that listens on these ``HOST:PORT``, each of which may be empty.

    A worker is probed on its Unix socket, because the shared ports may lead to another worker.
    """
    places: list[tuple[str, str, Tls | None]] = [
        ("grpc", grpc, settings.tls),
        ("http", http, settings.http_tls),
        ("metrics", metrics, settings.metrics_tls),
    ]
    if settings.shares_ports and (own := settings.coordination) is not None:
        places = [("grpc", own.advertise, None)]
    doors = []
    for name, where, tls in places:
        # An address whose host can no longer be resolved is not probed.
        with suppress(OSError):
            if where and tls is not None:
                doors.append(Door(name, _place(where), _tls_words))
            elif where and name == "grpc":
                doors.append(Door(name, _place(where), lambda: _GRPC_WORDS, _is_called_back))
            elif where:
                doors.append(Door(name, _place(where), lambda: _HTTP_WORDS))
    return doors


def _place(where: str) -> tuple[int, Any]:
    """The family and the address of ``HOST:PORT`` or ``unix:PATH``; raises OSError for an unknown host."""
    if where.startswith("unix:"):
        return socket.AF_UNIX, where.removeprefix("unix:")
    address = Address.parse(where)
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address.host, address.host)
    family, _, _, _, place = socket.getaddrinfo(host, address.port, type=socket.SOCK_STREAM)[0]
    return family, place
