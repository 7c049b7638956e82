"""Commands for the process of a server: `version`, `log-level`, `reload` and `state-dump`."""

import argparse
import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from itertools import compress
from pathlib import Path
from tempfile import NamedTemporaryFile

import grpc

from licorne.v1.admin_pb2 import (
    DumpStateRequest,
    GetLogLevelsRequest,
    GetLogLevelsResponse,
    ReloadConfigurationRequest,
    ReloadedRm,
    SetLogLevelRequest,
)
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne.v1.state_pb2 import GetServerRequest, GetServerResponse
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli import DISTRIBUTION
from licorne_cli.connection.channel import add_connection_arguments, pages, served
from licorne_cli.connection.target import DEFAULT_TARGET
from licorne_cli.failures import OK, RefusedError, UsageError
from licorne_cli.output.marks import marked_with_reason
from licorne_cli.output.text import (
    DATA_FORMS,
    NOTHING,
    human_bytes,
    print_data,
    print_table,
    printable,
    say,
    to_plain,
)
from licorne_cli.parsing.parser import Command, argument
from licorne_cli.plugins import build_here


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The build of only the command line; it has the attributes of a server's build, but no form."""

    version: str
    python: str
    form: None = None
    optimized: None = None

    def __str__(self) -> str:
        """``licorne 0.1.0, CPython 3.11.7; no server package is installed here``."""
        return f"licorne {self.version}, {self.python}; no server package is installed here"


def command_line() -> CommandLine:
    """The build of this command line."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return CommandLine(version(DISTRIBUTION), python)


def run_version(args: argparse.Namespace) -> int:
    """Print the version of the installed server package, and of the running server.

    A server at the default address may be missing without an error; a named server must answer.
    """
    server: GetServerResponse | None = None
    named = args.target is not None

    def ask(channel: grpc.Channel, args: argparse.Namespace) -> None:
        nonlocal server
        server = server_version(channel, args, named=named or args.target != DEFAULT_TARGET)

    code = OK if args.client else served(ask)(args)
    show_version(args, server)
    return code


def server_version(
    channel: grpc.Channel, args: argparse.Namespace, *, named: bool
) -> GetServerResponse | None:
    """The version of the running server; None if an unnamed one does not answer.

    Raises:
        RpcError: a named server does not answer.
    """
    try:
        return StateStub(channel).GetServer(GetServerRequest(), timeout=args.timeout)
    except grpc.RpcError:
        if named:
            raise
    return None


def show_version(args: argparse.Namespace, server: GetServerResponse | None) -> None:
    """Print version, form and interpreter of the installed server package and of the running server."""
    build = build_here() or command_line()
    if args.output == "text":
        print(build)
        if server is not None:
            about = f"licorne {server.version}, {server.form}, {server.python}"
            print(f"server {args.target}: {printable(about)}")
    else:
        data = {**asdict(build), "server": to_plain(server)}
        print_data(data, args.output)


VERSION = Command(
    (
        argument("--client", action="store_true", help="do not ask the server"),
        partial(add_connection_arguments, partition=False, forms=("text", *DATA_FORMS)),
    ),
    run_version,
    (
        ("licorne version", "of this command, and of the server"),
        ("licorne version --client -o json", "of this command alone, for programs"),
    ),
)

LEVEL_HEADERS = ("LOGGER", "LEVEL", "SET", "WANTED BY")
LEVELS = ("debug", "info", "warning", "error")
OTHERS = "(all others)"


def log_level(channel: grpc.Channel, args: argparse.Namespace) -> None:
    """Change levels if the arguments say so, and print all levels.

    Raises:
        UsageError: the arguments contradict each other.
    """
    stub = AdminStub(channel)
    changes = wanted_levels(args)
    found = levels_of(stub, args)
    if args.reset and not args.words:
        changes = [(name, "") for name in sorted(found.levels)]
    for logger, level in changes:
        request = SetLogLevelRequest(logger=logger, level=level, message=args.message)
        stub.SetLogLevel(request, timeout=args.timeout)
    if changes:
        found = levels_of(stub, args)
    show_levels(found, args.output)


def levels_of(stub: AdminStub, args: argparse.Namespace) -> GetLogLevelsResponse:
    """The levels, including those that RMs request."""
    found = GetLogLevelsResponse()
    for page in pages(stub.GetLogLevels, GetLogLevelsRequest(), args.timeout):
        found.MergeFrom(page)
    return found


def show_levels(found: GetLogLevelsResponse, output: str) -> None:
    """Print the levels that operators have set, followed by those that RMs request."""
    given = dict(sorted(found.levels.items()))
    wanted = [{"rmId": one.rm_id, "levels": dict(sorted(one.levels.items()))} for one in found.wanted]
    if output in DATA_FORMS:
        marks = {name: to_plain(mark) for name, mark in sorted(found.marks.items())}
        print_data({"levels": given, "marks": marks, "wanted": wanted}, output)
        return
    rows = [
        (printable(name) or OTHERS, level, marked_with_reason(found.marks[name]), NOTHING)
        for name, level in given.items()
    ]
    rows += [
        (printable(name) or OTHERS, level, NOTHING, f"RM {printable(one.rm_id)}")
        for one in found.wanted
        for name, level in sorted(one.levels.items())
    ]
    shown = [True, True, any(row[2] != NOTHING for row in rows), bool(wanted)]
    print_table(tuple(compress(LEVEL_HEADERS, shown)), [tuple(compress(row, shown)) for row in rows])


def wanted_levels(args: argparse.Namespace) -> list[tuple[str, str]]:
    """Loggers with their new levels. An empty logger means all others, and an empty level clears the level.

    Raises:
        UsageError: the arguments contradict each other.
    """
    match args.words:
        case []:
            return []
        case [logger] if args.reset:
            return [(logger, "")]
        case [level] if level in LEVELS:
            return [("", level)]
        case [logger, level] if level in LEVELS and not args.reset:
            return [(logger, level)]
    raise UsageError(f"log-level [LOGGER] LEVEL, with one of {', '.join(LEVELS)}")


LOG_LEVEL = Command(
    (
        argument(
            "words",
            nargs="*",
            metavar="[LOGGER] LEVEL",
            help=f"one of {', '.join(LEVELS)}, for a logger such as core.engine and those below it, or "
            "for all others",
        ),
        argument(
            "--reset",
            action="store_true",
            help="take the logger's own level away; without a logger, all go back to the start's",
        ),
        argument("--message", default="", metavar="TEXT", help="why, kept with the level"),
        partial(add_connection_arguments, partition=False),
    ),
    served(log_level),
    (
        ("licorne log-level", "which loggers have a level of their own"),
        ("licorne log-level core.scheduler debug", "more of one, and of those below it"),
        ("licorne log-level core.scheduler --reset", "and as before"),
    ),
)

RELOAD_HEADERS = ("RM", "REVISION", "RESULT")


def reload(channel: grpc.Channel, args: argparse.Namespace) -> None:
    """Let the server read its `--config` file again, and print the result for each RM that uses it.

    Raises:
        RefusedError: the file is unusable, or an RM keeps its configuration.
    """
    request = ReloadConfigurationRequest(message=args.message)
    answer = AdminStub(channel).ReloadConfiguration(request, timeout=args.timeout)
    if args.output in DATA_FORMS:
        print_data(to_plain(answer), args.output)
    else:
        say("the file was read: it has changed" if answer.changed else "nothing is new in the file")
        print_table(RELOAD_HEADERS, [reloaded_row(rm) for rm in answer.rms])
    refused = [printable(rm.rm_id) for rm in answer.rms if rm.refusal]
    if refused:
        raise RefusedError([f"licorne: not taken by {', '.join(refused)}"])


def reloaded_row(rm: ReloadedRm) -> tuple[str, ...]:
    """The cells of an RM."""
    result = rm.refusal or ("changed" if rm.changed else "the same as before")
    return (printable(rm.rm_id), str(rm.revision), printable(result))


RELOAD = Command(
    (
        argument("--message", default="", metavar="TEXT", help="why, for the audit log"),
        partial(add_connection_arguments, partition=False),
    ),
    served(reload),
    (("licorne reload", "after the file was edited; the server also notices that by itself"),),
)


def dump(channel: grpc.Channel, args: argparse.Namespace) -> None:
    """Write the state of the server as one JSON document.

    There is no deadline, because the server also queries RMs.

    Raises:
        UsageError: the file cannot be written.
    """
    answers = AdminStub(channel).DumpState(DumpStateRequest(rm_id=args.rm_id))
    if args.file is None:
        for answer in answers:
            sys.stdout.write(answer.json.decode())
        sys.stdout.write("\n")
        return
    size = 0
    with replacing(args.file) as write:
        for answer in answers:
            size += write(answer.json)
        write(b"\n")
    say(f"{printable(str(args.file))}: {human_bytes(size)}B")


@contextmanager
def replacing(path: Path) -> Iterator[Callable[[bytes], int]]:
    """A function that writes to a temporary file, which replaces the file when the block ends.

    Raises:
        UsageError: the file cannot be written.
    """
    beside: Path | None = None
    try:
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as stream:
            beside = Path(stream.name)
            yield stream.write
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
    except OSError as error:
        _remove(beside)
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    except BaseException:
        _remove(beside)
        raise


def _remove(path: Path | None) -> None:
    if path is not None:
        with suppress(OSError):
            path.unlink()


STATE_DUMP = Command(
    (
        argument("--rm", dest="rm_id", metavar="RM", help="only this RM (default: all)"),
        argument(
            "--file",
            type=Path,
            metavar="FILE",
            help="write it there, all or nothing; otherwise it goes to stdout",
        ),
        partial(add_connection_arguments, partition=False, forms=()),
    ),
    served(dump),
    (
        ("licorne state-dump > state.json", "everything"),
        ("licorne state-dump --rm my-cluster --file state.json", "one RM, all of it or nothing"),
    ),
)
