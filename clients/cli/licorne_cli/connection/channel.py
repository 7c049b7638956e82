"""Channels to a server: their options, lists in pages, and the message and exit code for each failure."""

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

import grpc

from licorne.v1.state_pb2 import (
    ListPartitionsRequest,
    ListQueuesRequest,
    ListRmsRequest,
    Partition,
    ResourceManager,
)
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.connection.contexts import ContextError
from licorne_cli.connection.errors import reason_of
from licorne_cli.connection.opening import open_channel
from licorne_cli.connection.target import CONTEXT_VARIABLE, DEFAULT_PORT, DEFAULT_TARGET, settle, targets
from licorne_cli.connection.tls import TlsFilesError, tls_advice, tls_of
from licorne_cli.failures import (
    NOT_FOUND,
    OK,
    REFUSED,
    UNREACHABLE,
    USAGE,
    NotFoundError,
    RefusedError,
    UsageError,
)
from licorne_cli.output.text import printable, say, while_read
from licorne_cli.parsing.parser import did_you_mean, seconds


class PageRequest(Protocol):
    """A request for a page of a list; an empty token means the first page."""

    page_token: str


class PageAnswer(Protocol):
    """An answer with a page of a list."""

    next_page_token: str


P = TypeVar("P", bound=PageAnswer)


def pages(call: Callable[..., P], request: PageRequest, timeout: float) -> Iterator[P]:
    """All pages of a list; `request` is the request for the first page."""
    while True:
        page = call(request, timeout=timeout)
        yield page
        request.page_token = page.next_page_token
        if not request.page_token:
            return


def rows(call: Callable[..., PageAnswer], request: PageRequest, name: str, timeout: float) -> Iterator[Any]:
    """All rows of a list, page by page; `name` is the field of a page with the rows."""
    for page in pages(call, request, timeout):
        yield from getattr(page, name)


NO_RM = "no RM has registered with this server"
NO_VISIBLE_RM = "no RM that you may see has registered with this server"
MAY_BE_UNKNOWN = frozenset({grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION})
"""Status codes that may mean an unknown RM or partition."""


def no_rm(args: argparse.Namespace, so: str = "") -> str:
    """The message that there is no RM, with the consequence `so`; or that silent members may have RMs.

    A caller with a certificate or a token may have no right to see some RMs.
    """
    if getattr(args, "silent", None):
        return "the members that answered have no RM"
    return (NO_VISIBLE_RM if args.token or args.tls_cert else NO_RM) + so


def not_there(kind: str, name: str, known: Iterable[str], none: str) -> str:
    """``no RM "nope"; there are: batch, services``; `none` if there are no names."""
    others = ", ".join(map(printable, known))
    return f'no {kind} "{printable(name)}"; there are: {others}' if others else none


def what_is_missing(channel: grpc.Channel, args: argparse.Namespace, error: grpc.RpcError) -> str:
    """The message that the RM or partition in the arguments is unknown, if that may have caused an error.

    Empty if both exist, or if the server does not list them.
    """
    if error.code() not in MAY_BE_UNKNOWN:
        return ""
    stub = StateStub(channel)
    try:
        return missing_rm(stub, args) or missing_partition(stub, args)
    except grpc.RpcError:
        return ""


def missing_rm(stub: StateStub, args: argparse.Namespace) -> str:
    """The message for a named RM that does not exist; empty if it exists, or none was named."""
    wanted = getattr(args, "rm", "") or getattr(args, "rm_id", "")
    if not wanted:
        return ""
    known = [rm.rm_id for rm in all_rms(stub, args.timeout)]
    return "" if wanted in known else not_there("RM", wanted, known, no_rm(args))


def missing_partition(stub: StateStub, args: argparse.Namespace) -> str:
    """The message for a named partition that does not exist; empty if it exists, or none was named."""
    if getattr(args, "partition", ""):
        try:
            partitions_meant(stub, args)
        except NotFoundError as error:
            return str(error)
    return ""


def all_rms(stub: StateStub, timeout: float) -> Iterator[ResourceManager]:
    """All RMs that the caller may see, in order of their ids."""
    return rows(stub.ListRms, ListRmsRequest(), "rms", timeout)


class _Completeness(grpc.UnaryUnaryClientInterceptor):
    """Collects the members whose parts are missing in an answer."""

    def __init__(self) -> None:
        self.missing: dict[str, None] = {}

    def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        call = continuation(client_call_details, request)
        if call.exception() is None:
            self.missing.update(dict.fromkeys(getattr(call.result(), "missing_members", ())))
        return call

    def tell(self) -> None:
        """Print a line on stderr if any members are missing."""
        if self.missing:
            names = ", ".join(map(printable, self.missing))
            say(f"licorne: members {names} did not answer: what is theirs is not in the answer")


RM_NOT_REGISTERED = "RM_NOT_REGISTERED"
"""The server's code for an RM that is not registered."""

DEFAULT_PARTITION = "default"
DEFAULT_TIMEOUT = 10.0
SHORTEST_TIMEOUT = 0.01
UNREACHABLE_CODES = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}
DATA_TABLE = ("table", "json", "yaml")
"""Output formats of tables without `-o name`: their rows have no names that other commands accept."""
REMOTE = "Failed to connect to remote host: "
NO_HTTP2 = "Expected SETTINGS frame"
"""Text of gRPC for an answer in another protocol, such as HTTP/1.1."""
UNRESOLVED = "errors resolving "
"""Text of gRPC before the reason of a failed resolution."""


def add_connection_arguments(
    parser: argparse.ArgumentParser,
    *,
    partition: bool = True,
    rm: bool | None = None,
    everywhere: bool = False,
    forms: Sequence[str] = DATA_TABLE,
    named: str = "",
) -> None:
    """Add the options that choose the server, `--timeout`, and `-o`.

    The first of the output `forms` is the default; with a single form there is no `-o`. `partition` adds
    `--partition`, and `rm` adds `--rm`, by default if `partition` does. With `everywhere` the default is all
    partitions. `named` describes the value that replaces a default. `settle` sets omitted options.
    """
    if len(forms) > 1:
        add = parser.add_argument
        add("-o", "--output", choices=forms, default=forms[0], help="form (%(default)s)")
    if partition:
        usual = "all" if everywhere else "the one called default of the RM that registered first"
        parser.add_argument(
            "--partition", metavar="PARTITION", help=f"NAME or [rmID]NAME ({named or f'default: {usual}'})"
        )
    if partition if rm is None else rm:
        usual = "all" if everywhere else "the one that registered first"
        parser.add_argument(
            "--rm", dest="rm_id", metavar="RM", help=f"of this RM ({named or f'default: {usual}'})"
        )
    server = parser.add_argument_group(
        "server", "Each may come from the environment or a context too; see licorne context --help."
    )
    add = server.add_argument
    add(
        "--target",
        type=targets,
        metavar="HOST[:PORT],...",
        help=f"the first of these that answers ({DEFAULT_TARGET})",
    )
    add("--context", metavar="CONTEXT", help=f"go by this one (${CONTEXT_VARIABLE}, or that in use)")
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


def chosen_partition(stub: StateStub, args: argparse.Namespace) -> str:
    """The partition of the request. Of several, if none was named, a note names the one that is used."""
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


def chosen_rm(stub: StateStub, args: argparse.Namespace) -> str:
    """The RM of the request, empty for the only one. A note names the RM if none of several was named."""
    if args.rm_id:
        return str(args.rm_id)
    partitions = stub.ListPartitions(ListPartitionsRequest(), timeout=args.timeout).partitions
    chosen, *others = dict.fromkeys(one.rm_id for one in partitions) or ("",)
    if not others:
        return ""
    say(f"RM {printable(chosen)} (others: {printable(', '.join(others))})")
    return chosen


def partitions_of(stub: StateStub, args: argparse.Namespace) -> list[str]:
    """The names of all partitions of the named RM, or of all RMs.

    Raises:
        NotFoundError: there is no partition.
    """
    request = ListPartitionsRequest(rm_id=args.rm_id)
    partitions = stub.ListPartitions(request, timeout=args.timeout).partitions
    if not partitions:
        raise NotFoundError(missing_rm(stub, args) or no_rm(args, ", so there is no partition"))
    return [partition.name for partition in partitions]


def partitions_named(stub: StateStub, args: argparse.Namespace) -> list[str]:
    """The name of the partition in the arguments; without it, all names, see `partitions_of`."""
    return [chosen_partition(stub, args)] if args.partition else partitions_of(stub, args)


def partitions_meant(stub: StateStub, args: argparse.Namespace) -> list[Partition]:
    """The partitions to which the RM and the name in the arguments refer: ``[rm1]default`` or ``default``.

    Raises:
        NotFoundError: the named RM or partition does not exist.
    """
    partitions = stub.ListPartitions(ListPartitionsRequest(), timeout=args.timeout).partitions
    found = [one for one in partitions if args.rm_id in ("", one.rm_id)]
    if args.rm_id and not found:
        known = sorted({one.rm_id for one in partitions})
        raise NotFoundError(not_there("RM", args.rm_id, known, no_rm(args)))
    if not args.partition:
        return found
    wanted = (args.partition, f"]{args.partition}")
    named = [one for one in found if one.name == wanted[0] or one.name.endswith(wanted[1])]
    if not named:
        known = [one.name for one in found]
        raise NotFoundError(not_there("partition", args.partition, known, no_rm(args)))
    return named


Act = Callable[[grpc.Channel, argparse.Namespace], int | None]
"""The body of a command that uses a channel; returns the exit code, where None means 0."""


def served(act: Act) -> Callable[[argparse.Namespace], int]:
    """Make the `run` function of a command from its body."""
    return lambda args: with_channel(args, lambda channel: act(channel, args))


def with_channel(args: argparse.Namespace, act: Callable[[grpc.Channel], int | None]) -> int:
    """Run `act` with a channel; every failure becomes one line on stderr and an exit code."""
    code: int | None = None
    completeness = _Completeness()
    args.silent = completeness.missing
    try:
        settle(args)
        with while_read(), open_channel(args) as opened:
            channel = grpc.intercept_channel(opened, completeness)
            try:
                with naming_what_is_missing(channel, args):
                    code = act(channel)
            finally:
                completeness.tell()
    except (UsageError, ContextError, TlsFilesError) as error:
        say(f"licorne: {error}")
        return int(getattr(args, "usage_error", USAGE))
    except RefusedError as error:
        say(str(error))
        return REFUSED
    except NotFoundError as error:
        say(f"licorne: {error}")
        return NOT_FOUND
    except grpc.RpcError as error:
        return explain_failure(args, error)
    return code or OK


@contextmanager
def naming_what_is_missing(channel: grpc.Channel, args: argparse.Namespace) -> Iterator[None]:
    """Raise NotFoundError instead of an error that an unknown RM or partition has caused.

    Raises:
        NotFoundError: the named RM or partition does not exist.
    """
    try:
        yield
    except grpc.RpcError as error:
        if missing := what_is_missing(channel, args, error):
            raise NotFoundError(missing) from None
        raise


MOST_COMPARED = 5000
"""Maximum number of names that are searched for a similar name."""


@contextmanager
def suggesting(name: str, names: Callable[[], Iterable[str]]) -> Iterator[None]:
    """Suggest the most similar of these names if the server does not know a name.

    Raises:
        NotFoundError: the server's refusal, with a similar name.
    """
    try:
        yield
    except grpc.RpcError as error:
        if error.code() is not grpc.StatusCode.NOT_FOUND:
            raise
        meant = ""
        with suppress(grpc.RpcError):
            known = list(islice(names(), MOST_COMPARED))
            # If the name exists, the error is about another name.
            meant = "" if name in known else did_you_mean(name, known)
        if not meant:
            raise
        raise NotFoundError(f"{printable(error.details() or '')}{meant}") from None


def queue_names(stub: StateStub, args: argparse.Namespace) -> Iterator[str]:
    """The queues of all partitions to which the arguments may refer."""
    for partition in partitions_named(stub, args):
        request = ListQueuesRequest(partition=partition)
        yield from (queue.path for queue in rows(stub.ListQueues, request, "queues", args.timeout))


def check_queue(stub: StateStub, args: argparse.Namespace) -> None:
    """Check the queue by which an empty list was filtered.

    Raises:
        NotFoundError: there is no such queue.
    """
    known = list(islice(queue_names(stub, args), MOST_COMPARED)) if args.queue else [""]
    if args.queue not in known and len(known) < MOST_COMPARED:
        meant = did_you_mean(args.queue, known)
        raise NotFoundError(f"queue {printable(args.queue)} not found{meant}")


def explain_failure(args: argparse.Namespace, error: grpc.RpcError) -> int:
    """Print why an RPC failed, and which credentials were not sent; returns the exit code."""
    code = explain_status(args, error)
    if code != NOT_FOUND and args.left_out:
        say("\n".join(f"licorne: {withheld}; what options name is sent" for withheld in args.left_out))
    return code


def in_short(details: str) -> str:
    """The system's reason in the details of a failed connection; other details are unchanged."""
    if NO_HTTP2 in details:
        return f"this is an HTTP port; that of gRPC is usually {DEFAULT_PORT}"
    if UNRESOLVED in details:
        return "the name of the host cannot be resolved"
    return details.rpartition(REMOTE)[2]


def _advice(args: argparse.Namespace) -> str:
    """Advice about TLS; empty if TLS is not the reason of the failure."""
    try:
        asked = args.targets if args.target not in args.targets else [args.target]
        tls = tls_of(args)
        return next(filter(None, (tls_advice(target, tls, args.timeout) for target in asked)), "")
    except TlsFilesError as error:  # the file existed when the command began
        return str(error)


def explain_status(args: argparse.Namespace, error: grpc.RpcError) -> int:
    """Print why an RPC failed; returns the exit code."""
    where = args.target
    code, details = error.code(), printable(error.details() or "")
    if code in UNREACHABLE_CODES:
        reason = _advice(args) or in_short(details) or code.name
        say(f"licorne: cannot reach {where}: {reason}")
        return UNREACHABLE
    if code is grpc.StatusCode.NOT_FOUND or reason_of(error) == RM_NOT_REGISTERED:
        say(f"licorne: {details}")
        return NOT_FOUND
    say(f"licorne: {where} refused: {code.name}: {details}")
    return REFUSED
