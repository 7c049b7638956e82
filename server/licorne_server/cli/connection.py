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
from licorne_server.cli.contexts import ContextError
from licorne_server.cli.output import printable, say, while_read
from licorne_server.cli.target import CONTEXT_VARIABLE, DEFAULT_TARGET, settle, target
from licorne_server.cli.tls_probe import tls_advice

OK = 0
USAGE = 1
UNREACHABLE = 2
NOT_FOUND = 3
REFUSED = 4

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
    rm: bool | None = None,
    forms: Sequence[str] = ("table", "json"),
) -> None:
    """Add what says which server is meant, `--timeout`, and `-o`.

    Of the `forms` of what is printed the first is the usual one; with only one there is no `-o`.
    `partition` adds `--partition`, for what belongs to one, and `rm`, which follows it, `--rm`.
    What is left out gets its value as `settle` says.
    """
    if len(forms) > 1:
        add = parser.add_argument
        add("-o", "--output", choices=forms, default=forms[0], help="form (%(default)s)")
    if partition:
        parser.add_argument(
            "--partition",
            metavar="PARTITION",
            help="NAME or [rmID]NAME (default: the one called default of the RM that came first)",
        )
    if partition if rm is None else rm:
        parser.add_argument(
            "--rm", dest="rm_id", metavar="RM", help="of this RM (default: the one that came first)"
        )
    server = parser.add_argument_group(
        "server", "Each may come from the environment or a context too; see licorne context --help."
    )
    add = server.add_argument
    add("--target", type=target, metavar="HOST[:PORT]", help=f"({DEFAULT_TARGET})")
    add(
        "--context", metavar="CONTEXT", help=f"go by this one (${CONTEXT_VARIABLE}, or that in use)"
    )
    add("--token", type=Path, metavar="FILE", help="a file with the bearer token to call with")
    add("--tls", action="store_true", default=None, help="TLS with the system's authorities")
    add("--tls-ca", type=Path, metavar="FILE", help="trust this authority (PEM)")
    add("--tls-cert", type=Path, metavar="FILE", help="client certificate (PEM)")
    add("--tls-key", type=Path, metavar="FILE", help="its key (PEM)")
    add("--tls-server-name", metavar="NAME", help="expect this name of the server")
    add(
        "--timeout",
        type=seconds(SHORTEST_TIMEOUT),
        default=DEFAULT_TIMEOUT,
        metavar="SECONDS",
        help="for each answer (%(default)s)",
    )


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
    if args.partition and (args.partition.startswith("[") or not args.rm_id):
        return str(args.partition)
    if args.partition:
        return f"[{args.rm_id}]{args.partition}"
    names = partitions_of(stub, args)
    wanted = f"]{DEFAULT_PARTITION}"
    chosen = next((name for name in names if name.endswith(wanted)), names[0])
    others = [name for name in names if name != chosen]
    if others:
        say(f"partition {printable(chosen)} (others: {printable(', '.join(others))})")
    return chosen


def partitions_of(stub: StateStub, args: argparse.Namespace) -> list[str]:
    """All partitions of the RM that was named, or of all RMs.

    Raises:
        NotFoundError: there is none.
    """
    request = ListPartitionsRequest(rm_id=args.rm_id)
    partitions = stub.ListPartitions(request, timeout=args.timeout).partitions
    if not partitions:
        raise NotFoundError("no RM has registered with this server, so there is no partition")
    return [partition.name for partition in partitions]


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
        settle(args)
        with while_read(), open_channel(args) as channel:
            act(channel)
    except (UsageError, ContextError) as error:
        say(f"licorne: {error}")
        return USAGE
    except RefusedError as error:
        say(str(error))
        return REFUSED
    except NotFoundError as error:
        say(f"licorne: {error}")
        return NOT_FOUND
    except grpc.RpcError as error:
        return explain_failure(args, error)
    return OK


def explain_failure(args: argparse.Namespace, error: grpc.RpcError) -> int:
    """Print why an RPC failed; returns the exit code for it."""
    where = args.target
    code, details = error.code(), printable(error.details() or "")
    if code in UNREACHABLE_CODES:
        advice = tls_advice(where, tls=_uses_tls(args))
        say(f"licorne: cannot reach {where}: {advice or details or code.name}")
        return UNREACHABLE
    if code is grpc.StatusCode.NOT_FOUND:
        say(f"licorne: {details}")
        return NOT_FOUND
    say(f"licorne: {where} refused: {code.name}: {details}")
    return REFUSED
