"""How the commands reach a running server, and what they exit with when they cannot."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import grpc

from licorne.errors import Unauthorized
from licorne.options import TlsConfig, authorization, check_token
from licorne.v1.state_pb2 import ListPartitionsRequest
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.cli.arguments import seconds
from licorne_server.cli.bearer import bearing
from licorne_server.cli.output import printable, say, while_read

OK = 0
USAGE = 1
UNREACHABLE = 2
NOT_FOUND = 3
REFUSED = 4

DEFAULT_TARGET = "127.0.0.1:7070"
DEFAULT_PARTITION = "default"
DEFAULT_TIMEOUT = 10.0
SHORTEST_TIMEOUT = 0.01
UNREACHABLE_CODES = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}
OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    # Whoever waits for events must notice that the server is gone without a word.
    ("grpc.keepalive_time_ms", 30_000),
)


class PageRequest(Protocol):
    """A request for a part of a list; the first part for an empty token."""

    page_token: str


class Page(Protocol):
    """An answer with a part of a list."""

    next_page_token: str


P = TypeVar("P", bound=Page)


class UsageError(Exception):
    """The arguments make no sense together; the text says why."""


class NotFoundError(Exception):
    """What was asked for is not there; the text names it."""


class RefusedError(Exception):
    """The server refused what was wanted, or the user did."""

    def __init__(self, lines: Sequence[str]) -> None:
        """What to tell, line by line."""
        super().__init__("\n".join(lines))
        self.lines = lines


def add_connection_arguments(
    parser: argparse.ArgumentParser,
    *,
    partition: bool = True,
    forms: Sequence[str] = ("table", "json"),
) -> None:
    """Add `--target`, `-o` and the options for TLS; `--partition` for what belongs to one.

    Of the `forms` of what is printed the first is the usual one. With only one there is no `-o`.
    """
    parser.add_argument(
        "--target", default=DEFAULT_TARGET, metavar="HOST:PORT", help="server (%(default)s)"
    )
    if partition:
        parser.add_argument(
            "--partition",
            default="",
            metavar="NAME",
            help="NAME or [rmID]NAME (default: the one called default of the RM that came first)",
        )
    if len(forms) > 1:
        parser.add_argument(
            "-o", "--output", choices=forms, default=forms[0], help="form (%(default)s)"
        )
    parser.add_argument(
        "--timeout",
        type=seconds(SHORTEST_TIMEOUT),
        default=DEFAULT_TIMEOUT,
        metavar="SECONDS",
        help="for each answer (%(default)s)",
    )
    parser.add_argument(
        "--token", type=Path, metavar="FILE", help="a file with the bearer token to call with"
    )
    tls = parser.add_argument_group("TLS")
    tls.add_argument("--tls", action="store_true", help="use TLS with the system's authorities")
    tls.add_argument("--tls-ca", type=Path, metavar="FILE", help="trust this authority (PEM)")
    tls.add_argument("--tls-cert", type=Path, metavar="FILE", help="client certificate (PEM)")
    tls.add_argument("--tls-key", type=Path, metavar="FILE", help="its key (PEM)")
    tls.add_argument("--tls-server-name", metavar="NAME", help="expect this name of the server")


def read_pem(path: Path | None) -> bytes | None:
    """The content of a file, or None where none was named; UsageError if it cannot be read."""
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None


def open_channel(args: argparse.Namespace) -> grpc.Channel:
    """A channel to the target, with the token if there is one."""
    channel = _plain_or_tls_channel(args)
    if args.token is None:
        return channel
    try:
        check_token(args.token, TlsConfig() if _uses_tls(args) else None, args.target)
        [(_, value)] = authorization(args.token)
    except OSError as error:
        raise UsageError(f"cannot read {args.token}: {error.strerror}") from None
    except (ValueError, Unauthorized) as error:
        raise UsageError(f"--token {args.token}: {error}") from None
    return bearing(channel, value)


def _uses_tls(args: argparse.Namespace) -> bool:
    return bool(args.tls or args.tls_ca or args.tls_cert or args.tls_key or args.tls_server_name)


def _plain_or_tls_channel(args: argparse.Namespace) -> grpc.Channel:
    """Any TLS option turns TLS on."""
    if not _uses_tls(args):
        return grpc.insecure_channel(args.target, options=OPTIONS)
    if (args.tls_cert is None) != (args.tls_key is None):
        raise UsageError("--tls-cert and --tls-key go together")
    credentials = grpc.ssl_channel_credentials(
        root_certificates=read_pem(args.tls_ca),
        private_key=read_pem(args.tls_key),
        certificate_chain=read_pem(args.tls_cert),
    )
    options: tuple[tuple[str, int | str], ...] = OPTIONS
    if args.tls_server_name:
        options = (*OPTIONS, ("grpc.ssl_target_name_override", args.tls_server_name))
    return grpc.secure_channel(args.target, credentials, options=options)


def chosen_partition(stub: StateStub, args: argparse.Namespace) -> str:
    """The partition to ask about; says which it is where none was named and there are several."""
    if args.partition:
        return str(args.partition)
    partitions = stub.ListPartitions(ListPartitionsRequest(), timeout=args.timeout).partitions
    if not partitions:
        raise NotFoundError("no RM has registered with this server, so there is no partition")
    names = [partition.name for partition in partitions]
    wanted = f"]{DEFAULT_PARTITION}"
    chosen = next((name for name in names if name.endswith(wanted)), names[0])
    others = [name for name in names if name != chosen]
    if others:
        say(f"partition {printable(chosen)} (others: {printable(', '.join(others))})")
    return chosen


def pages(call: Callable[..., P], request: PageRequest, timeout: float) -> Iterator[P]:
    """All the answers that make up a list; `request` asks for its first page."""
    while True:
        page = call(request, timeout=timeout)
        yield page
        request.page_token = page.next_page_token
        if not request.page_token:
            return


def with_state(
    args: argparse.Namespace, show: Callable[[StateStub, argparse.Namespace], None]
) -> int:
    """Run `show` against what the server tells of its state; the exit code."""
    return with_channel(args, lambda channel: show(StateStub(channel), args))


def with_channel(args: argparse.Namespace, act: Callable[[grpc.Channel], None]) -> int:
    """Run `act` against the server; every failure becomes one line on stderr and an exit code."""
    try:
        with while_read(), open_channel(args) as channel:
            act(channel)
    except UsageError as error:
        say(f"licorne: {error}")
        return USAGE
    except RefusedError as error:
        say(str(error))
        return REFUSED
    except NotFoundError as error:
        say(f"licorne: {error}")
        return NOT_FOUND
    except grpc.RpcError as error:
        return explain_failure(args.target, error)
    return OK


def explain_failure(target: str, error: grpc.RpcError) -> int:
    """Print why an RPC failed; returns the exit code for it."""
    code, details = error.code(), printable(error.details() or "")
    if code in UNREACHABLE_CODES:
        say(f"licorne: cannot reach {target}: {details or code.name}")
        return UNREACHABLE
    if code is grpc.StatusCode.NOT_FOUND:
        say(f"licorne: {details}")
        return NOT_FOUND
    say(f"licorne: {target} refused: {code.name}: {details}")
    return REFUSED
