"""Options of `licorne serve`, and their conversion to settings.

The default of an option is that of its setting, unless the help states another.
"""

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from licorne_core.config.schema import Configuration
from licorne_core.messages.commands import AskBackoff
from licorne_core.values.rm_caps import RmCaps
from licorne_server.commands.forms import Options
from licorne_server.commands.member_options import add_members, coordination_of
from licorne_server.process.bounds import EventBounds, PeerBounds, RmBounds
from licorne_server.process.cores import worker_count
from licorne_server.process.memory import USUAL_PERCENT, System
from licorne_server.process.settings import USUAL_SAMPLE, Address, Settings, SettingsError, Tls, TraceSettings
from licorne_server.process.transports import TRANSPORTS
from licorne_server.telemetry.logs import FORMATS
from licorne_server.telemetry.logs.levels import LEVELS

USUAL = Settings()
USUAL_HTTP = 9080

ALL, METRICS = "all", "metrics"
"""Values of ``--http-insecure``: the addresses served without TLS."""

ENDPOINT = "--otlp-endpoint"
OWN_VARIABLE = "LICORNE_OTLP_ENDPOINT"
STANDARD_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""OpenTelemetry's standard variables for the collector; the first that is set counts."""
PROTOCOL_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
PROTOCOL = "http/protobuf"
"""Protocol of the export of spans."""
OFF_VARIABLE = "OTEL_SDK_DISABLED"
"""Standard variable that turns the standard variables off with `true`."""

CAPS = {
    "partitions": "partitions of one RM",
    "queues": "queues of one RM, in all its partitions",
    "nodes": "nodes of one RM",
    "applications": "applications of one RM",
    "asks": "asks and allocations of one RM together, foreign ones too",
    "ended": "applications of one RM that are over and can still be seen; the oldest is dropped",
}
"""Counts of each RM, by the name of the cap."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add all options, in order of the help."""
    of = Options(parser)
    of.add("--listen", default=str(USUAL.listen), metavar="HOST:PORT", help="gRPC (%(default)s)")
    _add_http(of)
    of.add(
        "--workers",
        type=worker_count,
        default=1,
        metavar="N",
        help="processes that share the addresses and the RMs, or auto for as many as there are cores "
        "(%(default)s)",
    )
    of.add(
        "--transport",
        default=USUAL.transport,
        choices=TRANSPORTS,
        help="what serves gRPC: its own library, or the event loop by the wheel licorne-transport, "
        "as auto does where that is installed (%(default)s)",
    )
    of.file("--config", "for RMs that register without a configuration")
    of.file("--budgets", "budgets over RMs, in YAML")
    of.switch("--watch-config", True, "read these files again when their content changes (on)")
    text = (
        "where configurations, budgets, operators' changes and accounting outlive a restart "
        "(default: they do not)"
    )
    of.add("--state-dir", type=Path, metavar="DIR", help=text)
    text = "where all commands are noted, so that they can be replayed (default: nowhere)"
    of.add("--journal", type=Path, metavar="DIR", help=text)
    of.size("--journal-size", USUAL.journal_size, "size of that, at most; the oldest run goes first (1Gi)")
    of.file("--tls-cert", "certificate chain, PEM")
    of.file("--tls-key", "its key, PEM")
    of.file("--tls-client-ca", "CA of the clients: turns on mutual TLS")
    _add_peers(of)
    add_members(of)
    _add_rms(of)
    of.switch("--reflection", None, "(on without TLS)")
    _add_scheduling(of)
    of.seconds("--drain", USUAL.drain, "at the end")
    of.seconds(
        "--stall",
        USUAL.stall,
        "probes fail when nothing goes on for so long, and after as long again the process ends; 0 for never",
    )
    of.switch(
        "--metrics-queue-names",
        USUAL.queue_names,
        "metrics of queues also under names with the queue in them, as older dashboards want (on)",
    )
    _add_traces(of)
    of.add("--log-level", default="info", choices=LEVELS)
    text = "auto is console on a terminal, and json elsewhere (%(default)s)"
    of.add("--log-format", default=FORMATS[0], choices=FORMATS, help=text)


def _add_http(of: Options) -> None:
    """Add options of addresses, plain HTTP, origins and hosts."""
    of.add("--http", default=str(USUAL.http), metavar="HOST:PORT", help="HTTP, or off (%(default)s)")
    of.add("--metrics", metavar="HOST:PORT", help="metrics and probes on an address of their own too")
    of.add(
        "--http-insecure",
        nargs="?",
        const=ALL,
        default="",
        choices=(ALL, METRICS),
        metavar="WHICH",
        help="plain HTTP beside gRPC with TLS, and where others can reach it: on both addresses, "
        f"or with {METRICS!r} on that of --metrics alone",
    )
    of.several(
        "--cors-origin",
        "ORIGIN",
        "an origin, such as https://ui.example, whose pages may read over HTTP, or * for any",
    )
    of.several(
        "--http-host",
        "NAME",
        "a name, such as licorne.example or https://licorne.example:8443, by which a proxy asks for HTTP "
        "on loopback, beside addresses and localhost, or * for any",
    )


def _add_peers(of: Options) -> None:
    """Add options of identities and bounds of peers."""
    usual = USUAL.peers
    text = "a certificate name that may act for an RM (default: the rmID itself)"
    of.several("--rm-identity", "RM=NAME", text)
    of.several("--operator", "NAME", "a certificate name that may see and configure every RM")
    of.several("--viewer", "NAME", "a certificate name that may see every RM and change nothing")
    of.add("--insecure", action="store_true", help="serve others without TLS")
    of.several("--rm-token", "RM=FILE", "a file with a bearer token that may act for an RM")
    text = "a file with a bearer token that may see and configure every RM"
    of.several("--operator-token", "FILE", text, Path)
    text = "a file with a bearer token that may see every RM and change nothing"
    of.several("--viewer-token", "FILE", text, Path)
    of.seconds(
        "--first-message", usual.first_message, "how long a call may stay open without a whole message"
    )
    of.seconds("--idle", usual.idle, "how long a gRPC connection may stay open without a call")
    text = "gRPC connections at a time; fewer if the limit of open files is low"
    of.count("--max-connections", usual.connections, text)


def _add_rms(of: Options) -> None:
    """Add options of bounds of RMs, and of eviction."""
    usual = USUAL.rms
    of.count("--max-rms", usual.number, "RMs at a time; one that is gone makes room for another")
    for name, text in CAPS.items():
        of.count(f"--max-{name}", getattr(usual.each, name), text)
    of.size(
        "--max-rm-memory",
        None,
        "memory of one RM, as the core reckons it: bytes, or 512Mi, 2Gi (half of --max-memory, 4Gi at most)",
    )
    text = "and memory of its applications that are over; the oldest is dropped (64Mi)"
    of.size("--max-ended-memory", usual.each.ended_memory, text)
    of.seconds(
        "--event-seconds",
        usual.events.seconds,
        "events of an RM are kept for so long while somebody reads them, however many they are; "
        "0 for not at all",
    )
    text = "memory of the events of one RM, as reckoned; the oldest go (512Mi)"
    of.size("--event-memory", usual.events.memory, text)
    of.size(
        "--max-memory",
        None,
        "resident memory of the process above which new work is refused; 0 for any "
        f"({USUAL_PERCENT} %% of what the machine or the control group has)",
    )
    of.seconds(
        "--max-plan-pause",
        usual.plan_pause,
        "plans are refused that would keep everybody waiting for longer, and charged below that; 0 for any",
    )
    of.seconds(
        "--forget-after",
        usual.forget_after,
        "an RM without a stream and without running allocations is forgotten after so long; 0 for never",
    )


def _add_scheduling(of: Options) -> None:
    """Add options of scheduling, for all RMs."""
    of.switch(
        "--reservations",
        os.environ.get("DISABLE_RESERVATION", "").lower() != "true",
        "keep nodes free for asks that wait long (on, unless DISABLE_RESERVATION is true)",
    )
    of.seconds(
        "--ask-backoff",
        USUAL.ask_backoff.first,
        "how long an ask waits that its RM could not run; twice as long after each failure more",
    )
    of.seconds("--ask-backoff-max", USUAL.ask_backoff.most, "the longest of these waits")


def _add_traces(of: Options) -> None:
    """Add options of traces."""
    of.add(
        ENDPOINT,
        metavar="URL",
        help="trace to this collector, which takes OTLP over HTTP; empty for no traces "
        f"(default: {OWN_VARIABLE} or {STANDARD_VARIABLES[1]}, or else no traces)",
    )
    of.add(
        "--trace-sample",
        type=float,
        default=USUAL_SAMPLE,
        metavar="SHARE",
        help="from 0 to 1: the share that is traced of asks whose caller does not say, and of "
        "turns (%(default)s)",
    )


def settings_of(args: argparse.Namespace) -> Settings:
    """Settings from the arguments of `serve` and the environment.

    Raises:
        SettingsError: an argument is unusable.
    """
    identities = _by_rm("--rm-identity", "NAME", args.rm_identity)
    tokens = _by_rm("--rm-token", "FILE", args.rm_token)
    return Settings(
        listen=Address.parse(args.listen, USUAL.listen.port),
        http=None if args.http == "off" else Address.parse(args.http, USUAL_HTTP),
        metrics=None if args.metrics is None else Address.parse(args.metrics),
        default_config=_default_config(args.config),
        config_file=args.config,
        watch_config=args.watch_config,
        budgets_file=args.budgets,
        state_dir=args.state_dir,
        journal=args.journal,
        journal_size=args.journal_size,
        tls=_tls(args),
        insecure=args.insecure,
        http_insecure=args.http_insecure == ALL,
        metrics_insecure=args.http_insecure in (ALL, METRICS),
        cors_origins=frozenset(args.cors_origin),
        http_hosts=frozenset(args.http_host),
        rm_identities={rm_id: frozenset(names) for rm_id, names in identities.items()},
        operators=frozenset(args.operator),
        viewers=frozenset(args.viewer),
        rm_tokens={rm_id: tuple(map(Path, files)) for rm_id, files in tokens.items()},
        operator_tokens=tuple(args.operator_token),
        viewer_tokens=tuple(args.viewer_token),
        coordination=coordination_of(args),
        member_ca=args.member_ca,
        peers=PeerBounds(first_message=args.first_message, idle=args.idle, connections=args.max_connections),
        rms=_rm_bounds(args),
        reflection=args.reflection,
        reservations=args.reservations,
        ask_backoff=AskBackoff(args.ask_backoff, args.ask_backoff_max),
        transport=args.transport,
        drain=args.drain,
        stall=args.stall,
        queue_names=args.metrics_queue_names,
        traces=_traces(args, os.environ),
        manage_gc=True,
    )


def _default_config(path: Path | None) -> Configuration | None:
    """Configuration in the file of `--config`; None without a file.

    Raises:
        SettingsError: the file cannot be read, or its content is unusable.
    """
    from licorne_server.store.configurations.default_file import DefaultFileError, load_default

    if path is None:
        return None
    try:
        return load_default(path)
    except DefaultFileError as error:
        raise SettingsError(str(error)) from None


def _tls(args: argparse.Namespace) -> Tls | None:
    if args.tls_cert is None and args.tls_key is None and args.tls_client_ca is None:
        return None
    if args.tls_cert is None or args.tls_key is None:
        raise SettingsError("--tls-cert and --tls-key are needed together")
    return Tls(cert=args.tls_cert, key=args.tls_key, client_ca=args.tls_client_ca)


def _by_rm(option: str, what: str, pairs: Sequence[str]) -> dict[str, list[str]]:
    """Values of an option by RM, from pairs such as ``RM=FILE``."""
    values: dict[str, list[str]] = {}
    for pair in pairs:
        rm_id, equals, value = pair.partition("=")
        if not (rm_id and equals and value):
            raise SettingsError(f"{option}: RM={what} was expected: {pair!r}")
        values.setdefault(rm_id, []).append(value)
    return values


def _rm_bounds(args: argparse.Namespace) -> RmBounds:
    limit = System().usual_limit() if args.max_memory is None else args.max_memory
    memory = args.max_rm_memory
    if memory is None:
        # One RM must not exhaust the limit.
        usual = USUAL.rms.each.memory
        memory = min(usual, limit // 2) if limit else usual
    counted = {name: getattr(args, f"max_{name}") for name in CAPS}
    return RmBounds(
        number=args.max_rms,
        each=RmCaps(**counted, memory=memory, ended_memory=args.max_ended_memory),
        events=EventBounds(seconds=args.event_seconds, memory=args.event_memory),
        memory=limit,
        plan_pause=args.max_plan_pause,
        forget_after=args.forget_after,
    )


def _traces(args: argparse.Namespace, environ: Mapping[str, str]) -> TraceSettings | None:
    """Settings of traces, from the option or else the environment; None for no traces.

    Raises:
        SettingsError: the environment names another protocol.
    """
    named_by, endpoint = ENDPOINT, args.otlp_endpoint
    if endpoint is None:
        is_off = environ.get(OFF_VARIABLE, "").lower() == "true"
        names = (OWN_VARIABLE, *(() if is_off else STANDARD_VARIABLES))
        named_by = next((name for name in names if environ.get(name)), "")
        endpoint = environ.get(named_by, "")
    if not endpoint:
        return None
    protocol = next((name for name in PROTOCOL_VARIABLES if environ.get(name)), "")
    if named_by in STANDARD_VARIABLES and protocol and environ[protocol] != PROTOCOL:
        raise SettingsError(
            f"{protocol} is {environ[protocol]!r}, but spans are sent by {PROTOCOL} only: name a "
            f"collector that takes it by {ENDPOINT}, or have no traces by {ENDPOINT} ''"
        )
    return TraceSettings(endpoint=endpoint, sample=args.trace_sample, named_by=named_by)
