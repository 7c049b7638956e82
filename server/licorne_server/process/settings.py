"""The settings of a server: frozen, and independent of their source.

Values of a file, of variables and of flags are checked one by one by `commands.settings`; settings that make
a server unsafe, or cannot work on this machine, by `Settings.check`.
"""

import ipaddress
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from licorne_core.config.schema import Configuration
from licorne_core.messages.commands import AskBackoff
from licorne_server.process.bounds import LEAST_CONNECTIONS, OutboxBounds, PeerBounds, RmBounds

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

    from licorne_server.process.coordination import Coordination

USUAL_SAMPLE = 0.01
"""Default share of work that is traced if its caller makes no sampling decision."""

PATH = "/v1/traces"
"""Path of a collector for spans, below its own address."""

_NEEDED = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")


AUTO, GRPC, LOOP = "auto", "grpc", "loop"
WHEELS = {
    LOOP: "licorne_transport",
}
"""Transports other than gRPC's own server, with their packages; the first installed one is used."""
TRANSPORTS = (AUTO, GRPC, *WHEELS)
"""Values of the setting `transport`."""


def served_by(setting: str) -> str:
    """The transport that serves gRPC: the one in the setting, or `GRPC` if that is not installed."""
    if setting == GRPC:
        return GRPC
    return next((name for name, wheel in WHEELS.items() if find_spec(wheel) is not None), GRPC)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSettings:
    """Settings of traces; a server without them makes no traces."""

    endpoint: str = ""
    """The address of a collector that takes OTLP over HTTP, such as ``http://collector:4318``."""
    sample: float = USUAL_SAMPLE
    """Share of asks and turns that are traced if their caller makes no decision, from 0 to 1."""
    exporter: "SpanExporter | None" = None
    """Receives each span when it ends, instead of a collector; for tests."""

    @property
    def url(self) -> str:
        """Full URL of the collector."""
        base = self.endpoint.rstrip("/")
        return base if base.endswith(PATH) else base + PATH


def _installed() -> bool:
    """True if the extra for traces is installed; the SDK is not imported."""
    try:
        return all(find_spec(name) is not None for name in _NEEDED)
    except ModuleNotFoundError:
        return False


class SettingsError(Exception):
    """Settings that prevent a start; the text is for the operator.

    It names settings by their keys, such as ``server.listen``. `licorne serve` names each as the operator
    specified it: as a flag, a variable or a key.
    """


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

        With a default the port may be left out. A number alone is a port without a host, and no address.

        Raises:
            SettingsError: the text is not an address.
        """
        if default_port is not None and (
            text.endswith("]") or (text and ":" not in text and not text.isdecimal())
        ):
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
        """The system's error if it cannot listen on the address; empty if it can."""
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
        """True if the address stands for all interfaces."""
        return self.host in ("0.0.0.0", "::")

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can reach the address."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Certificate files in PEM; `client_ca` turns on mutual TLS."""

    cert: Path
    key: Path
    client_ca: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings. Times are in seconds."""

    listen: Address = Address(host="127.0.0.1", port=7070)
    http: Address | None = Address(host="127.0.0.1", port=9080)
    metrics: Address | None = None
    """Separate address for metrics and probes; None for no such address."""
    default_config: Configuration | None = None
    """The queue configuration of RMs that register without one; None for the built-in one."""
    config_file: Path | None = None
    """The file of `default_config`, for reloads."""
    watch_config: bool = False
    """Read `config_file` and `budgets_file` again when their content changes."""
    budgets_file: Path | None = None
    """The file with the budgets over RMs."""
    state_dir: Path | None = None
    """Directory for configurations that survive the server; None for none."""
    journal: Path | None = None
    """Directory for the journal of commands; None for none."""
    journal_size: int = 1024**3
    """Maximum number of bytes of the journal, old runs included."""
    tls: Tls | None = None
    insecure: bool = False
    """Serve without TLS on addresses that others can reach."""
    http_insecure: bool = False
    """Serve HTTP without TLS, even if gRPC has TLS, and even on an address that others can reach."""
    metrics_insecure: bool = False
    """Serve `metrics` without TLS even on an address that others can reach; loopback never has TLS."""
    cors_origins: frozenset[str] = frozenset()
    """Origins whose pages may read over HTTP; ``*`` for all."""
    http_hosts: frozenset[str] = frozenset()
    """Host names, or origins of pages, allowed for HTTP on loopback besides IP addresses; ``*`` for all."""
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
    """Store through which members share the RMs; None for a server without other members."""
    member_ca: Path | None = None
    """CA of the other members' certificates; None for `client_ca` of `tls`."""
    rms: RmBounds = RmBounds()
    """Bounds of RMs."""
    peers: PeerBounds = PeerBounds()
    """Quotas of each peer in shared resources."""
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
    """Seconds that the event loop or the engine may stall before the probes fail. After twice this time
    `licorne serve` ends with an error; 0 for no limit. Embedded servers have no watchdog."""
    retry_after: float = 1.0
    """Seconds after which RMs should reconnect when the server stops."""
    transport: str = AUTO
    """Transport of gRPC: `grpc` is the library's own server, `loop` needs the wheel licorne-transport, and
    `auto` is `loop` if that is installed."""
    bounds: OutboxBounds = OutboxBounds()
    """Bounds of each RM's outbox."""
    queue_names: bool = True
    """True to publish metrics of queues also under names that contain the queue's name."""
    traces: TraceSettings | None = None
    """Settings of traces; None for no traces."""
    manage_gc: bool = False
    """True to tune Python's garbage collector, which affects the whole process."""

    def check(self) -> None:
        """Refuse unsafe settings.

        Raises:
            SettingsError: settings are unsafe; the text names the remedy.
        """
        if self.transport not in (AUTO, served_by(self.transport)):
            raise SettingsError(
                "server.transport loop needs the wheel licorne-transport, which is not installed"
            )
        if self.traces is not None and not _installed():
            raise SettingsError(
                "traces need OpenTelemetry, which is not installed: "
                "pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
            )
        self._check_peers()
        self._check_coordination()
        if not self.insecure:
            self._check_listeners()

    def _check_listeners(self) -> None:
        """Refuse to serve others without TLS."""
        if self.tls is None and not self.listen.is_loopback:
            raise SettingsError(
                f"refusing to serve {self.listen} without TLS: give server.tls_cert and "
                "server.tls_key, listen on 127.0.0.1, or say server.insecure"
            )
        for what, address, tls, agreed, key in (
            ("HTTP", self.http, self.http_tls, self.http_insecure, "server.http_insecure"),
            ("metrics", self.metrics, self.metrics_tls, self.metrics_insecure, "server.metrics_insecure"),
        ):
            if address is not None and tls is None and not (agreed or address.is_loopback):
                raise SettingsError(
                    f"refusing to serve {what} without TLS on {address}: give server.tls_cert and "
                    f"server.tls_key, listen on 127.0.0.1, or say {key}"
                )

    def _check_peers(self) -> None:
        mutual = self.tls is not None and self.tls.client_ca is not None
        named = ("operators", "viewers", "rm_identities")
        for name in () if mutual else filter(partial(getattr, self), named):
            raise SettingsError(f"access.{name} needs server.tls_client_ca")
        if self.viewer_tokens and not (mutual or self.rm_tokens or self.operator_tokens):
            raise SettingsError(
                "access.viewer_token_files needs access.operator_token_files, access.rm_token_files or "
                "server.tls_client_ca: without them everybody may do everything"
            )
        if self.rm_tokens or self.operator_tokens:
            key = "access.rm_token_files" if self.rm_tokens else "access.operator_token_files"
            if mutual:
                raise SettingsError(f"{key} cannot be used with server.tls_client_ca")
            for address in self.exposed.values():
                raise SettingsError(
                    f"{key} needs TLS on {address}, because anybody on the way could read the tokens"
                )
        affordable, _ = self.peers.affordable()
        if affordable < LEAST_CONNECTIONS:
            raise SettingsError("the limit of open files is too low: 256 or more are needed")

    def _check_coordination(self) -> None:
        """Refuse a member that others cannot reach, or that stores locally what members have to share."""
        if self.coordination is None:
            return
        if self.state_dir is not None and not self.coordination.on_one_host:
            raise SettingsError(
                "server.state_dir cannot be used with coordination.store: the store keeps what is applied"
            )
        if not self.coordination.advertise and self.listen.is_wildcard:
            raise SettingsError(
                "coordination.store needs coordination.advertise, because others cannot reach this server "
                f"at {self.listen}"
            )

    @property
    def shares_ports(self) -> bool:
        """True for a worker, which listens on the ports of its supervisor together with others."""
        return self.coordination is not None and self.coordination.on_one_host

    @property
    def worker(self) -> int:
        """Number of the worker; 0 for a server that is no worker."""
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
        """The addresses without TLS that other hosts can reach, by service."""
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
