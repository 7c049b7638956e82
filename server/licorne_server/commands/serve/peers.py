"""The arguments of `serve` about peers: who they are, and what one of them may have."""

import argparse
from pathlib import Path

from licorne_server.process.peer_bounds import PeerBounds

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
