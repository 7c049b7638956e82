"""The settings of a server: frozen, checked, and independent of their source."""

import ipaddress
import math
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from licorne_core.config.schema import Configuration
from licorne_core.messages.commands import AskBackoff
from licorne_server.process.bounds import LEAST_CONNECTIONS, OutboxBounds, PeerBounds, RmBounds, no_seconds
from licorne_server.process.transports import AUTO, served_by

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

    from licorne_server.process.coordination import Coordination

USUAL_SAMPLE = 0.01
"""Default share of traced work without a sampling decision of a caller."""

LEAST_JOURNAL = 1024**2
"""Bytes of a journal, at the least."""

PATH = "/v1/traces"
"""Path of a collector for spans, below its own address."""

_NEEDED = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSettings:
    """Settings of traces; a server without them makes no traces."""

    endpoint: str = ""
    """The address of a collector that takes OTLP over HTTP, such as ``http://collector:4318``."""
    sample: float = USUAL_SAMPLE
    """Share of asks and turns that are traced, from 0 to 1, without a decision of the caller."""
    named_by: str = "--otlp-endpoint"
    """The option or variable that names the endpoint."""
    exporter: "SpanExporter | None" = None
    """Receives each span at its end, in place of a collector; for tests."""

    @property
    def url(self) -> str:
        """Full URL of the collector."""
        base = self.endpoint.rstrip("/")
        return base if base.endswith(PATH) else base + PATH

    def problem(self) -> str:
        """The problem with the settings, and its remedy; empty for none."""
        if not 0 <= self.sample <= 1:
            return f"--trace-sample must be a number from 0 to 1: {self.sample}"
        if not _installed():
            return (
                f"{self.named_by} needs OpenTelemetry, which is not installed: "
                "pip install 'licorne-server[otel]'"
            )
        if self.exporter is None and not _is_address(self.endpoint):
            return (
                f"{self.named_by}: the http or https address of a collector was expected, such as "
                f"http://127.0.0.1:4318: {self.endpoint!r}"
            )
        return ""


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port
        return False
    return usable and text.isprintable() and not parts.query and not parts.fragment


def _installed() -> bool:
    """True if the extra is installed; the SDK is not imported."""
    try:
        return all(find_spec(name) is not None for name in _NEEDED)
    except ModuleNotFoundError:
        return False


class SettingsError(Exception):
    """Settings that do not allow a start; the text is for the operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """An address to listen on; port 0 means any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        """``HOST:PORT``, an IPv6 host in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @staticmethod
    def parse(text: str, default_port: int | None = None) -> "Address":
        """The address in ``HOST:PORT`` or ``[HOST]:PORT``; an empty host means all interfaces.

        With a default the port may be left out.

        Raises:
            SettingsError: the text is not an address.
        """
        if default_port is not None and (text.endswith("]") or (text and ":" not in text)):
            text = f"{text}:{default_port}"
        host, colon, port = text.rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        if not colon or not port.isdecimal() or not port.isascii() or int(port) > 65535:
            raise SettingsError(f"not an address, HOST:PORT was expected: {text!r}")
        return Address(host=host or "0.0.0.0", port=int(port))

    def with_port(self, port: int) -> "Address":
        """The same host with the port that was bound."""
        return Address(host=self.host, port=port)

    def refusal(self) -> str:
        """The system's reason against listening on the address; empty for none."""
        try:
            family, kind, protocol, _, where = socket.getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(where)
        except OSError as error:
            return error.strerror or str(error)
        return ""

    @property
    def is_wildcard(self) -> bool:
        """True if it stands for all interfaces."""
        return self.host in ("0.0.0.0", "::")

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Files in PEM; `client_ca` turns on mutual TLS."""

    cert: Path
    key: Path
    client_ca: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings. Times are in seconds."""

    listen: Address = Address(host="127.0.0.1", port=7070)
    http: Address | None = Address(host="127.0.0.1", port=9080)
    metrics: Address | None = None
    """Separate address for metrics and probes; None for none."""
    default_config: Configuration | None = None
    """The queue configuration of RMs that register without one; None for the built-in one."""
    config_file: Path | None = None
    """The file of `default_config`, from which it is read again."""
    watch_config: bool = False
    """Read `config_file` and `budgets_file` again when their content changes."""
    budgets_file: Path | None = None
    """The file with the budgets over RMs."""
    state_dir: Path | None = None
    """Directory for configurations that survive the server; None for none."""
    journal: Path | None = None
    """Directory for the journal of commands; None for none."""
    journal_size: int = 1024**3
    """Bytes that the journal may take, old runs included."""
    tls: Tls | None = None
    insecure: bool = False
    """Serve without TLS where others can reach it."""
    http_insecure: bool = False
    """Serve HTTP without TLS, whatever gRPC has, even where others can reach it."""
    metrics_insecure: bool = False
    """Serve `metrics` without TLS even where others can reach it; loopback never has TLS."""
    cors_origins: frozenset[str] = frozenset()
    """Origins whose pages may read over HTTP; ``*`` for all."""
    http_hosts: frozenset[str] = frozenset()
    """Host names, or origins of pages, allowed for HTTP on loopback beside IP addresses; ``*`` for all."""
    rm_identities: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Certificate names that may act for an RM, by rmID; with mutual TLS only."""
    operators: frozenset[str] = frozenset()
    """Certificate names of operators, who see and configure all RMs."""
    viewers: frozenset[str] = frozenset()
    """Certificate names of viewers, who see all RMs and change nothing."""
    rm_tokens: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    """Files with the tokens of an RM, by rmID. With any token file every caller needs a token."""
    operator_tokens: tuple[Path, ...] = ()
    """Files with the tokens of operators, who see and configure all RMs."""
    viewer_tokens: tuple[Path, ...] = ()
    """Files with the tokens of viewers, who see all RMs; with mutual TLS over HTTPS only."""
    coordination: "Coordination | None" = None
    """Store through which members share the RMs; None for a server that is alone."""
    member_ca: Path | None = None
    """CA of the other members' certificates; None for `client_ca` of `tls`."""
    rms: RmBounds = RmBounds()
    """Bounds of RMs."""
    peers: PeerBounds = PeerBounds()
    """Quotas of one peer in shared resources."""
    reflection: bool | None = None
    """True to serve the reflection service; None: only without TLS or on loopback."""
    reservations: bool = True
    """True to reserve nodes for asks that wait long (spec § 2.8)."""
    ask_backoff: AskBackoff = AskBackoff()
    """Back-off of an ask whose allocation its RM could not run."""
    heartbeat: float = 10.0
    """Seconds without a message to the RM after which a session sends a heartbeat."""
    drain: float = 10.0
    """Seconds that streams may take to end when the server stops, before they are cut off."""
    stall: float = 30.0
    """Seconds that the event loop or the engine may stall before the probes fail. After twice the
    time `licorne serve` ends with an error; 0 for no limit. Embedded servers have no watchdog."""
    retry_after: float = 1.0
    """Seconds after which RMs should reconnect when the server stops."""
    transport: str = AUTO
    """What serves gRPC: `grpc`, the library's own server; `loop`, for which the wheel licorne-transport is
    needed; `auto`, the second where it is installed."""
    bounds: OutboxBounds = OutboxBounds()
    """Bounds of each RM's outbox."""
    queue_names: bool = True
    """True to publish metrics of queues also under names that contain the queue's name."""
    traces: TraceSettings | None = None
    """Settings of traces; None for no traces."""
    manage_gc: bool = False
    """Tune Python's garbage collector, which belongs to the whole process."""

    def check(self) -> None:
        """Refuse unsafe settings.

        Raises:
            SettingsError: settings are unsafe; the text names the remedy.
        """
        times = ("heartbeat", "drain", "stall", "retry_after")
        first, most = self.ask_backoff
        if not (math.isfinite(most) and 0 <= first <= most):
            raise SettingsError(
                f"ask_backoff must be a number of seconds from 0 up: {first}, "
                f"and ask_backoff_max one that is not smaller: {most}"
            )
        if self.transport not in (AUTO, served_by(self.transport)):
            raise SettingsError("--transport loop needs the wheel licorne-transport, which is not installed")
        self._check_peers()
        self._check_coordination()
        self._check_journal()
        for problem in (
            *(no_seconds(name, getattr(self, name)) for name in times),
            self.traces.problem() if self.traces else "",
            *(_origin_problem(origin) for origin in sorted(self.cors_origins)),
            *(_host_problem(name) for name in sorted(self.http_hosts)),
        ):
            if problem:
                raise SettingsError(problem)
        if not self.insecure:
            self._check_listeners()

    def _check_listeners(self) -> None:
        """Refuse to serve others without TLS."""
        if self.tls is None and not self.listen.is_loopback:
            raise SettingsError(
                f"refusing to serve {self.listen} without TLS: give --tls-cert and --tls-key, "
                "listen on 127.0.0.1, or say --insecure"
            )
        for what, address, tls, agreed in (
            ("HTTP", self.http, self.http_tls, self.http_insecure),
            ("metrics", self.metrics, self.metrics_tls, self.metrics_insecure),
        ):
            if address is not None and tls is None and not (agreed or address.is_loopback):
                raise SettingsError(
                    f"refusing to serve {what} without TLS on {address}: give --tls-cert and "
                    "--tls-key, listen on 127.0.0.1, or say --http-insecure"
                )

    def _check_peers(self) -> None:
        mutual = self.tls is not None and self.tls.client_ca is not None
        if not mutual and (self.rm_identities or self.operators or self.viewers):
            raise SettingsError("--rm-identity, --operator and --viewer need --tls-client-ca")
        if self.viewer_tokens and not (mutual or self.rm_tokens or self.operator_tokens):
            raise SettingsError(
                "--viewer-token needs --operator-token, --rm-token or --tls-client-ca: "
                "without them everybody may do everything"
            )
        if self.rm_tokens or self.operator_tokens:
            if mutual:
                raise SettingsError(
                    "--rm-token and --operator-token are for a server without --tls-client-ca"
                )
            for address in self.exposed.values():
                raise SettingsError(
                    f"--rm-token and --operator-token need TLS on {address}, "
                    "because anybody on the way could read the tokens"
                )
        problem = self.peers.problem() or self.rms.problem()
        if problem:
            raise SettingsError(problem)
        affordable, _ = self.peers.affordable()
        if affordable < LEAST_CONNECTIONS:
            raise SettingsError("the limit of open files is too low: 256 or more are needed")

    def _check_coordination(self) -> None:
        """Refuse a member that nobody could reach, or that keeps for itself what members share."""
        if self.coordination is None:
            return
        if self.state_dir is not None and not self.coordination.on_one_host:
            raise SettingsError(
                "--state-dir cannot be used with --coordination: the store keeps what is applied"
            )
        if not self.coordination.advertise and self.listen.is_wildcard:
            raise SettingsError(
                "--coordination needs --advertise HOST:PORT, because others cannot reach this server "
                f"at {self.listen}"
            )

    def _check_journal(self) -> None:
        """Refuse a journal that cannot be written."""
        if self.journal is None:
            return
        if self.journal_size < LEAST_JOURNAL:
            raise SettingsError(
                f"--journal-size must be {LEAST_JOURNAL} bytes or more for each process: {self.journal_size}"
            )
        if find_spec("msgspec") is None:
            raise SettingsError(
                "--journal needs msgspec, which is not installed: pip install 'licorne-server[journal]'"
            )

    @property
    def shares_ports(self) -> bool:
        """True for a worker, which listens on the ports of its supervisor together with others."""
        return self.coordination is not None and self.coordination.on_one_host

    @property
    def worker(self) -> int:
        """Number of the worker; 0 for a server that is none."""
        return 0 if self.coordination is None else self.coordination.worker

    @property
    def http_tls(self) -> Tls | None:
        """Certificate files for HTTP: those of gRPC, or None if HTTP is plain."""
        return None if self.http_insecure else self.tls

    @property
    def metrics_tls(self) -> Tls | None:
        """Certificate files for `metrics`: those of gRPC, or None if `metrics` is plain."""
        plain = self.metrics is None or self.metrics.is_loopback or self.metrics_insecure
        return None if plain else self.tls

    @property
    def exposed(self) -> dict[str, Address]:
        """The addresses without TLS that others can reach, by what is served there."""
        served = {
            "grpc": (self.listen, self.tls),
            "http": (self.http, self.http_tls),
            "metrics": (self.metrics, self.metrics_tls),
        }
        return {
            what: address
            for what, (address, tls) in served.items()
            if address and tls is None and not address.is_loopback
        }

    @property
    def reflects(self) -> bool:
        """True if the reflection service is served."""
        if self.reflection is not None:
            return self.reflection
        return self.tls is None or self.listen.is_loopback


def _origin_problem(text: str) -> str:
    """The problem of an origin, which has the form that browsers send; empty for none."""
    scheme, _, host = text.partition("://")
    known = scheme in ("http", "https") and host and host == host.lower()
    if text == "*" or (known and not set(host) & set("/?#@* ,") and text.isascii()):
        return ""
    return f"--cors-origin: an origin such as https://ui.example:8443, or *, was expected: {text!r}"


def _host_problem(text: str) -> str:
    """The problem of a host name, which may have a port and a scheme; empty for none."""
    name, colon, port = text.removeprefix("https://").removeprefix("http://").partition(":")
    has_port = not colon or (port.isascii() and port.isdecimal() and 0 < int(port[:6]) < 1 << 16)
    if text == "*" or (name and name.isascii() and not set(name) & set(" /?#@*,[]") and has_port):
        return ""
    return f"--http-host: a name such as licorne.example or https://x.y:8443, or *, was expected: {text!r}"
