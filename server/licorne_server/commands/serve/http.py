"""The arguments of `serve` about HTTP, peers and traces."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

from licorne_server.process.bounds import PeerBounds
from licorne_server.process.settings import USUAL_SAMPLE, Address, SettingsError, TraceSettings

ALL, METRICS = "all", "metrics"


class HttpSettings(TypedDict):
    """The fields of `Settings` that these arguments decide."""

    http: Address | None
    metrics: Address | None
    http_insecure: bool
    metrics_insecure: bool
    cors_origins: frozenset[str]
    http_hosts: frozenset[str]


def add_http_arguments(parser: argparse.ArgumentParser) -> None:
    """Add addresses, plain HTTP and origins."""
    add = parser.add_argument
    add("--http", default="127.0.0.1:9080", metavar="HOST:PORT", help="HTTP, or off (%(default)s)")
    add("--metrics", metavar="HOST:PORT", help="metrics and probes on an address of their own too")
    add(
        "--http-insecure",
        nargs="?",
        const=ALL,
        default="",
        choices=(ALL, METRICS),
        metavar="WHICH",
        help="plain HTTP beside gRPC with TLS, and where others can reach it: on both addresses, "
        f"or with {METRICS!r} on that of --metrics alone",
    )
    add(
        "--cors-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="an origin, such as https://ui.example, whose pages may read over HTTP, or * for any; "
        "repeatable",
    )
    add(
        "--http-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name, such as licorne.example, by which a proxy asks for HTTP on loopback, beside "
        "addresses and localhost, or * for any; repeatable",
    )


def http_settings(args: argparse.Namespace) -> HttpSettings:
    """The settings in the arguments; SettingsError for what is no address."""
    return {
        "http": None if args.http == "off" else Address.parse(args.http),
        "metrics": None if args.metrics is None else Address.parse(args.metrics),
        "http_insecure": args.http_insecure == ALL,
        "metrics_insecure": args.http_insecure in (ALL, METRICS),
        "cors_origins": frozenset(args.cors_origin),
        "http_hosts": frozenset(args.http_host),
    }


_USUAL = PeerBounds()


def add_peer_arguments(parser: argparse.ArgumentParser) -> None:
    """Add tokens and bounds."""
    add = parser.add_argument
    add(
        "--rm-token",
        action="append",
        default=[],
        metavar="RM=FILE",
        help="a file with a bearer token that may act for an RM; repeatable",
    )
    add(
        "--operator-token",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="a file with a bearer token that may see and configure every RM; repeatable",
    )
    add(
        "--first-message",
        type=float,
        default=_USUAL.first_message,
        metavar="SECONDS",
        help="how long a stream may stay open without a message (%(default)s)",
    )
    add(
        "--idle",
        type=float,
        default=_USUAL.idle,
        metavar="SECONDS",
        help="how long a gRPC connection may stay open without a call (%(default)s)",
    )
    add(
        "--max-connections",
        type=int,
        default=_USUAL.connections,
        metavar="N",
        help="gRPC connections at a time; fewer if the limit of open files is low (%(default)s)",
    )


def peer_bounds(args: argparse.Namespace) -> PeerBounds:
    """The bounds in the arguments."""
    return PeerBounds(first_message=args.first_message, idle=args.idle, connections=args.max_connections)


OPTION = "--otlp-endpoint"
OWN_VARIABLE = "LICORNE_OTLP_ENDPOINT"
STANDARD_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""Variables of every program with OpenTelemetry; the first that is set counts."""
PROTOCOL_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
PROTOCOL = "http/protobuf"
"""The one protocol in which spans are sent."""
OFF_VARIABLE = "OTEL_SDK_DISABLED"
"""With `true` the standard variables are not looked at."""


def add_trace_arguments(parser: argparse.ArgumentParser) -> None:
    """Add them."""
    add = parser.add_argument
    add(
        OPTION,
        metavar="URL",
        help="trace to this collector, which takes OTLP over HTTP; empty for no traces "
        f"(default: {OWN_VARIABLE} or {STANDARD_VARIABLES[1]}, or else no traces)",
    )
    add(
        "--trace-sample",
        type=float,
        default=USUAL_SAMPLE,
        metavar="SHARE",
        help="from 0 to 1: the share that is traced of asks whose caller does not say, and of "
        "turns (%(default)s)",
    )


def trace_settings(args: argparse.Namespace, environ: Mapping[str, str]) -> TraceSettings | None:
    """The trace settings of arguments and environment; None for no traces.

    Raises:
        SettingsError: the environment wants another protocol.
    """
    named_by, endpoint = _endpoint(args, environ)
    if not endpoint:
        return None
    if named_by in STANDARD_VARIABLES:
        _check_protocol(environ)
    return TraceSettings(endpoint=endpoint, sample=args.trace_sample, named_by=named_by)


def _endpoint(args: argparse.Namespace, environ: Mapping[str, str]) -> tuple[str, str]:
    """The source of the endpoint, and the endpoint; empty for no traces."""
    if args.otlp_endpoint is not None:
        return OPTION, args.otlp_endpoint
    names = [OWN_VARIABLE]
    if environ.get(OFF_VARIABLE, "").lower() != "true":
        names += STANDARD_VARIABLES
    return next(((name, environ[name]) for name in names if environ.get(name)), (OPTION, ""))


def _check_protocol(environ: Mapping[str, str]) -> None:
    """Refuse an endpoint of the environment that takes another protocol.

    Raises:
        SettingsError: with what to do about it.
    """
    name = next((name for name in PROTOCOL_VARIABLES if environ.get(name)), "")
    if name and environ[name] != PROTOCOL:
        raise SettingsError(
            f"{name} is {environ[name]!r}, but spans are sent by {PROTOCOL} only: name a collector "
            f"that takes it by {OPTION}, or have no traces by {OPTION} ''"
        )
