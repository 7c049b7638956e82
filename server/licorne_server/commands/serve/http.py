"""The arguments of `serve` about HTTP: where it listens, without TLS or with it, and for whom."""

import argparse
from typing import TypedDict

from licorne_server.process.settings import Address

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
