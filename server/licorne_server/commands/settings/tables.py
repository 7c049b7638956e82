"""The settings of a server as its file has them: tables of keys, each with its kind, default and meaning.

A value is checked by its kind, and a combination of values by its table. A default is that of `Settings`, or
`auto`. The text below a key is its meaning for operators, which help, file and reference show.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from licorne_server.commands.settings import kinds
from licorne_server.commands.settings.kinds import (
    FILE,
    NAME,
    SWITCH,
    ValueKind,
    auto_or,
    off_or,
    seconds,
    size,
    whole,
)
from licorne_server.process.bounds import LEAST_CONNECTIONS
from licorne_server.process.coordination import (
    BACKENDS,
    LEAST_LEASE,
    LEAST_RENEWALS,
    MOST_LEASE,
    RENEW_SECONDS,
    Coordination,
    is_reachable,
)
from licorne_server.process.settings import Address, Settings, SettingsError, TraceSettings
from licorne_server.telemetry.logs import FORMATS
from licorne_server.telemetry.logs.levels import LEVELS

T = TypeVar("T")
USUAL = Settings()
RMS, CAPS, PEERS = USUAL.rms, USUAL.rms.each, USUAL.peers
LEAST_JOURNAL = 1024**2
"""Minimum number of bytes of a process's journal."""
COUNT, SOME_SECONDS = whole(1), seconds(0)


def setting(kind: ValueKind[T], usual: T) -> T:
    """A key of a table: its kind and default."""
    return field(default_factory=lambda: usual, metadata={"kind": kind})


def _together(one: object, other: object, text: str) -> None:
    if (one is None) != (other is None):
        raise SettingsError(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Addresses, files, and the life of the process."""

    listen: Address = setting(kinds.address(USUAL.listen.port), USUAL.listen)
    """gRPC; port 0 takes a free one"""
    http: Address | None = setting(off_or(kinds.address(9080)), USUAL.http)
    """REST, the page, metrics and probes"""
    metrics: Address | None = setting(off_or(kinds.address()), None)
    """additional address for metrics and probes only"""
    tls_cert: Path | None = setting(off_or(FILE), None)
    """certificate chain of gRPC and HTTP, PEM"""
    tls_key: Path | None = setting(off_or(FILE), None)
    """private key of `server.tls_cert`, PEM"""
    tls_client_ca: Path | None = setting(off_or(FILE), None)
    """CA of the clients: turns on mutual TLS"""
    insecure: bool = setting(SWITCH, USUAL.insecure)
    """gRPC and HTTP without TLS on addresses that others can reach"""
    http_insecure: bool = setting(SWITCH, USUAL.http_insecure)
    """HTTP without TLS on addresses that others can reach, even if gRPC has TLS"""
    metrics_insecure: bool = setting(SWITCH, USUAL.metrics_insecure)
    """metrics without TLS on an address that others can reach; on loopback they never have it"""
    transport: str = setting(kinds.TRANSPORT, USUAL.transport)
    """server of gRPC: the library's own (grpc) or that of the wheel licorne-transport (loop)"""
    reflection: bool | None = setting(auto_or(SWITCH), None)
    """gRPC reflection; auto is true without TLS or on loopback"""
    workers: int = setting(kinds.WORKERS, 1)
    """processes that share the addresses and the RMs; auto is one for each core"""
    config: Path | None = setting(off_or(FILE), None)
    """queue configuration of RMs that register without one"""
    budgets: Path | None = setting(off_or(FILE), None)
    """budgets over RMs, in YAML"""
    watch_config: bool = setting(SWITCH, True)
    """reload of the files of `server.config` and `server.budgets` when their content changes"""
    state_dir: Path | None = setting(off_or(kinds.FOLDER), None)
    """directory in which configurations, budgets, operators' changes and accounting outlive a restart"""
    journal: Path | None = setting(off_or(kinds.FOLDER), None)
    """directory of the journal of all commands, for `licorne replay`"""
    journal_size: int = setting(size(LEAST_JOURNAL), USUAL.journal_size)
    """size of the journal at most; the oldest runs are deleted first"""
    drain: float = setting(SOME_SECONDS, USUAL.drain)
    """time for pending decisions to be sent when the server stops"""
    stall: float = setting(SOME_SECONDS, USUAL.stall)
    """time without progress after which probes fail; after twice that time the process ends; 0 is never"""

    def __post_init__(self) -> None:
        """Refuse combinations of keys that exclude each other."""
        _together(self.tls_cert, self.tls_key, "server.tls_cert and server.tls_key are needed together")
        if self.tls_client_ca is not None and self.tls_cert is None:
            raise SettingsError("server.tls_client_ca needs server.tls_cert and server.tls_key")
        share = self.journal_size // self.workers
        if self.journal is not None and share < LEAST_JOURNAL:
            raise SettingsError(
                f"server.journal_size must be {LEAST_JOURNAL} bytes or more for each process: {share}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Rights of callers. Names are those in certificates, tokens are bearer tokens."""

    operators: tuple[str, ...] = setting(kinds.each(NAME), ())
    """certificate names of operators, who may see and configure every RM"""
    viewers: tuple[str, ...] = setting(kinds.each(NAME), ())
    """certificate names of viewers, who may see every RM and change nothing"""
    rm_identities: Mapping[str, tuple[str, ...]] = setting(kinds.by_rm(NAME), {})
    """certificate names that may act for an RM; by default the rmID itself"""
    operator_token_files: tuple[Path, ...] = setting(kinds.each(FILE), ())
    """files with a bearer token that may see and configure every RM"""
    viewer_token_files: tuple[Path, ...] = setting(kinds.each(FILE), ())
    """files with a bearer token that may see every RM and change nothing"""
    rm_token_files: Mapping[str, tuple[Path, ...]] = setting(kinds.by_rm(FILE), {})
    """files with a bearer token that may act for an RM"""
    cors_origins: tuple[str, ...] = setting(kinds.each(kinds.ORIGIN), ())
    """origins whose pages may read over HTTP, or * for any"""
    http_hosts: tuple[str, ...] = setting(kinds.each(kinds.HOST), ())
    """host names accepted in requests for HTTP on loopback, beside addresses and localhost, or * for any"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """Servers that share the RMs through a store."""

    store: Coordination | None = setting(off_or(kinds.STORE), None)
    """address of the store through which members share the RMs; off for a server that is alone"""
    advertise: str | None = setting(auto_or(kinds.TARGET), None)
    """address at which RMs and other members reach this one; auto is that of `server.listen`"""
    advertise_http: str | None = setting(auto_or(kinds.URL), None)
    """address of its HTTP, as `licorne members` shows it; auto is that of `server.http`"""
    name: str | None = setting(auto_or(NAME), None)
    """name of this member in lists, logs and metrics; auto is the advertised address"""
    lease: float | None = setting(auto_or(seconds(LEAST_LEASE, MOST_LEASE)), None)
    """time without a renewal after which a member counts as gone; auto is 6 with etcd, 15 with Kubernetes"""
    renew: float = setting(kinds.MORE_SECONDS, RENEW_SECONDS)
    """time between two renewals of the lease; a third of `coordination.lease` at most"""
    member_ca: Path | None = setting(auto_or(FILE), None)
    """CA of the other members' certificates; auto is `server.tls_client_ca`"""
    ca: Path | None = setting(off_or(FILE), None)
    """CA of the store: turns on TLS to it"""
    cert: Path | None = setting(off_or(FILE), None)
    """certificate chain for the store, PEM"""
    key: Path | None = setting(off_or(FILE), None)
    """private key of `coordination.cert`, PEM"""
    user: str | None = setting(off_or(NAME), None)
    """user of the store"""
    password_file: Path | None = setting(off_or(FILE), None)
    """file with the password of `coordination.user`"""

    @property
    def lease_seconds(self) -> float:
        """The time of a lease."""
        return self.lease or BACKENDS[self.store.backend if self.store else "etcd"].lease

    def __post_init__(self) -> None:
        """Refuse keys that do not go together."""
        _together(self.cert, self.key, "coordination.cert and coordination.key are needed together")
        text = "coordination.user and coordination.password_file are needed together"
        _together(self.user, self.password_file, text)
        most = self.lease_seconds / LEAST_RENEWALS
        if self.renew > most:
            raise SettingsError(
                f"coordination.renew must be at most {most:g}, a third of the lease: {self.renew:g}"
            )
        is_worker = self.store is not None and self.store.on_one_host
        if self.advertise is not None and not (is_worker or is_reachable(self.advertise)):
            text = "HOST:PORT was expected, of a host that others reach"
            raise SettingsError(f"coordination.advertise: {text}: {self.advertise!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Bounds on peers, RMs and the process."""

    max_connections: int = setting(whole(LEAST_CONNECTIONS), PEERS.connections)
    """gRPC connections at a time; fewer if the limit of open files is low"""
    first_message: float = setting(kinds.MORE_SECONDS, PEERS.first_message)
    """time that a call may stay open without a complete message"""
    idle: float = setting(kinds.MORE_SECONDS, PEERS.idle)
    """time that a gRPC connection may stay open without a call"""
    max_memory: int | None = setting(auto_or(size(0)), None)
    """resident memory above which new work is refused; 0: no limit, auto: 80 % of the machine or cgroup"""
    max_plan_pause: float = setting(SOME_SECONDS, RMS.plan_pause)
    """longest pause of the process for a plan; longer plans are refused, shorter are charged; 0: no limit"""
    max_rms: int = setting(COUNT, RMS.number)
    """registered RMs; at this number a disconnected one makes room for another"""
    forget_after: float = setting(SOME_SECONDS, RMS.forget_after)
    """time after which an RM without a stream and without running allocations is forgotten; 0 is never"""
    max_partitions: int = setting(COUNT, CAPS.partitions)
    """partitions of one RM"""
    max_queues: int = setting(COUNT, CAPS.queues)
    """queues of one RM, dynamic ones too"""
    max_nodes: int = setting(COUNT, CAPS.nodes)
    """nodes of one RM"""
    max_applications: int = setting(COUNT, CAPS.applications)
    """active applications of one RM"""
    max_asks: int = setting(COUNT, CAPS.asks)
    """asks and allocations of one RM together, foreign ones too"""
    max_ended: int = setting(COUNT, CAPS.ended)
    """ended applications of one RM that are still listed; beyond this number the oldest is dropped"""
    max_rm_memory: int | None = setting(auto_or(size(1)), None)
    """memory of one RM, as estimated by the core; auto is half of `bounds.max_memory`, 4Gi at most"""
    max_ended_memory: int = setting(size(1), CAPS.ended_memory)
    """memory of the ended applications of one RM; beyond it the oldest is dropped"""
    event_seconds: float = setting(SOME_SECONDS, RMS.events.seconds)
    """time for which all events of an RM are kept while it has a subscriber; 0 is no time"""
    event_memory: int = setting(size(1), RMS.events.memory)
    """estimated memory of the events of one RM; beyond it the oldest are dropped"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling:
    """Settings for all RMs."""

    reservations: bool = setting(SWITCH, USUAL.reservations)
    """reservations of nodes for asks that wait long"""
    ask_backoff: float = setting(SOME_SECONDS, USUAL.ask_backoff.first)
    """wait of an ask after its RM failed to run its allocation; doubled after each further failure"""
    ask_backoff_max: float = setting(SOME_SECONDS, USUAL.ask_backoff.most)
    """longest wait after such failures"""

    def __post_init__(self) -> None:
        """Refuse a longest wait below the first one."""
        first, most = self.ask_backoff, self.ask_backoff_max
        if most < first:
            text = f"must not be below scheduling.ask_backoff, {first:g}"
            raise SettingsError(f"scheduling.ask_backoff_max {text}: {most:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """Logs, traces, names of metrics."""

    log_level: str = setting(kinds.word(*LEVELS), "info")
    """level of the least important lines in the log"""
    log_format: str = setting(kinds.word(*FORMATS), FORMATS[0])
    """format of lines in the log; auto is console on a terminal, and json elsewhere"""
    otlp_endpoint: str | None = setting(off_or(kinds.COLLECTOR), None)
    """collector that receives traces, by OTLP over HTTP"""
    trace_sample: float = setting(kinds.SHARE, TraceSettings().sample)
    """sampling rate of turns, and of asks whose caller has made no sampling decision"""
    metrics_queue_names: bool = setting(SWITCH, USUAL.queue_names)
    """metrics of queues also under names that contain the queue, for older dashboards"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """All tables."""

    server: Server = Server()
    access: Access = Access()
    coordination: Members = Members()
    bounds: Bounds = Bounds()
    scheduling: Scheduling = Scheduling()
    telemetry: Telemetry = Telemetry()


TABLES: Mapping[str, Any] = {table.name: type(getattr(Tables(), table.name)) for table in fields(Tables)}
"""The tables by name, in the order of the file."""


@dataclass(frozen=True, slots=True)
class SettingKey:
    """A key and its properties."""

    table: str
    name: str
    kind: ValueKind[Any]
    usual: Any

    @property
    def path(self) -> str:
        """``table.key``, as messages name it."""
        return f"{self.table}.{self.name}"

    @property
    def variable(self) -> str:
        """The variable of the environment."""
        return f"{PREFIX}{self.table}_{self.name}".upper()

    @property
    def what(self) -> str:
        """The meaning of the key, for operators."""
        return _meanings()[TABLES[self.table].__name__, self.name]


@cache
def _meanings() -> Mapping[tuple[str, str], str]:
    """The texts below the keys, by class and key, read from the source on demand."""
    found = {}
    for each in ast.parse(Path(__file__).read_bytes()).body:
        if isinstance(each, ast.ClassDef):
            for pair in pairwise(each.body):
                match pair:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                        value=ast.Constant(value=str(text))
                    ):
                        found[each.name, name] = text
    return found


PREFIX = "LICORNE_"
"""Prefix of all variables."""
KEYS = {
    key.path: key
    for table, kind in TABLES.items()
    for one in fields(kind)
    for key in [SettingKey(table, one.name, one.metadata["kind"], getattr(kind(), one.name))]
}
"""All keys by their paths, in the order of the file."""
