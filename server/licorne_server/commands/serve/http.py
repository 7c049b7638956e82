"""The arguments of `serve` about HTTP: where it listens, without TLS or with it, and for whom.

Also here:

* The arguments of `serve` about peers: who they are, and what one of them may have.
"""

import argparse
from pathlib import Path
from typing import TypedDict

from licorne_server.process.peer_bounds import PeerBounds
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
