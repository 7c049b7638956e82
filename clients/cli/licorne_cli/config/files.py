"""The file, the RM, its revisions and the problems of a file, for all actions of `licorne config`."""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import grpc

from licorne.v1.admin_pb2 import (
    ConfigurationRevision,
    GetConfigurationRequest,
    GetConfigurationResponse,
    ListConfigurationsRequest,
    ValidateConfigurationRequest,
    ValidateConfigurationResponse,
)
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.connection.channel import all_rms, no_rm
from licorne_cli.connection.errors import reason_of, violations_of
from licorne_cli.failures import NotFoundError, RefusedError, UsageError
from licorne_cli.output.text import human_text, printable, say, shown_time

STALE = "STALE_REVISION"
"""The server's code for a change that is based on a revision which is no longer in force."""
STANDARD_INPUT = "-"
MAX_BYTES = 2 * 1024 * 1024
"""Maximum bytes of a file, as in the server."""


class Problem(Protocol):
    """A problem of a file; `line` is 0 if its place is unknown."""

    @property
    def message(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def line(self) -> int: ...
    @property
    def column(self) -> int: ...


def add_file_argument(parser: argparse.ArgumentParser) -> None:
    """Add the argument of the file."""
    parser.add_argument("file", metavar="FILE", help="a configuration in YAML; - for stdin")


def file_name(args: argparse.Namespace) -> str:
    """The name of the file for messages."""
    return "stdin" if args.file == STANDARD_INPUT else printable(args.file)


def read_file(args: argparse.Namespace, what: str = "configuration") -> str:
    """The text of the file; `what` names its kind in messages.

    Raises:
        UsageError: the file cannot be read, is too large or empty, or is not UTF-8.
    """
    name = file_name(args)
    try:
        if args.file == STANDARD_INPUT:
            content = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with Path(args.file).open("rb") as stream:
                content = stream.read(MAX_BYTES + 1)
        text = content.decode()
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8: {error}") from None
    if len(content) > MAX_BYTES:
        raise UsageError(f"{name} is larger than {MAX_BYTES} bytes")
    if not text.strip():
        raise UsageError(f"{name} is empty, which is no {what}")
    return text


def located(name: str, problems: Iterable[Problem]) -> list[str]:
    """A line for each problem, ``file:line:column: path: message``, without unknown parts."""
    lines = []
    for problem in problems:
        place = f"{problem.line}:{problem.column}: " if problem.line else " "
        path = f"{problem.path}: " if problem.path else ""
        lines.append(printable(f"{name}:{place}{path}{human_text(problem.message)}"))
    return lines


def validated(
    stub: AdminStub, args: argparse.Namespace, text: str, *, strict: bool = False
) -> ValidateConfigurationResponse:
    """The server's verdict on a valid text; the warnings are written to stderr.

    Raises:
        RefusedError: the text is invalid; a line for each problem.
    """
    request = ValidateConfigurationRequest(config=text, strict=strict)
    verdict = stub.ValidateConfiguration(request, timeout=args.timeout)
    if not verdict.allowed:
        raise RefusedError(located(file_name(args), verdict.problems))
    for warning in verdict.warnings:
        say(printable(f"{file_name(args)}:{warning} (warning)"))
    return verdict


@contextmanager
def refused_by_line(name: str, stale: Callable[[grpc.RpcError], list[str]] | None = None) -> Iterator[None]:
    """A block that sends a text; `name` is the text's name. A refusal has a line for each problem.

    Raises:
        RefusedError: the text is invalid; or its base is stale, for which `stale` returns the lines.
    """
    try:
        yield
    except grpc.RpcError as error:
        if stale is not None and reason_of(error) == STALE:
            raise RefusedError(stale(error)) from None
        if lines := [human_text(_located(name, *violation)) for violation in violations_of(error)]:
            raise RefusedError(lines) from None
        raise


def _located(name: str, path: str, description: str) -> str:
    """``file:line:column: path: message``; the place is at the beginning of the message, if there is one."""
    line, _, rest = description.partition(":")
    column, _, message = rest.partition(": ")
    if line.isdecimal() and column.isdecimal():
        return f"{name}:{line}:{column}: {path}: {message}"
    return f"{name}: {path}: {description}"


def add_rm_argument(parser: argparse.ArgumentParser) -> None:
    """Add the RM, which may be named by a word, by ``--rm`` or by a context."""
    parser.add_argument("rm", nargs="?", default="", metavar="RM", help="the RM's id (default: the only one)")
    parser.add_argument("--rm", dest="rm_id", metavar="RM", help="the same")


def chosen_rm(channel: grpc.Channel, args: argparse.Namespace) -> str:
    """The RM of the arguments, or the only RM.

    Raises:
        UsageError: there are several RMs, and none was named.
        NotFoundError: there is no RM.
    """
    if args.rm or args.rm_id:
        return str(args.rm or args.rm_id)
    rm_ids = [rm.rm_id for rm in all_rms(StateStub(channel), args.timeout)]
    if not rm_ids:
        raise NotFoundError(no_rm(args))
    if len(rm_ids) > 1:
        raise UsageError(f"there are several RMs, name one of them with --rm: {printable(', '.join(rm_ids))}")
    return rm_ids[0]


def running_configuration(stub: AdminStub, rm_id: str, args: argparse.Namespace) -> GetConfigurationResponse:
    """The configuration in force for the RM."""
    answer: GetConfigurationResponse = stub.GetConfiguration(
        GetConfigurationRequest(rm_id=rm_id), timeout=args.timeout
    )
    return answer


def revisions_of(
    stub: AdminStub, rm_id: str, args: argparse.Namespace, revision: int = 0
) -> list[ConfigurationRevision]:
    """The RM's revisions, the latest first; a single revision has its text."""
    request = ListConfigurationsRequest(rm_id=rm_id, revision=revision, with_config=bool(revision))
    return list(stub.ListConfigurations(request, timeout=args.timeout).revisions)


def described(revision: ConfigurationRevision) -> str:
    """A revision in one line: ``revision 3 of 2026-… (operator, 10.0.0.1): why``."""
    who = ", ".join(filter(None, (revision.source, revision.by)))
    why = f": {revision.comment}" if revision.comment else ""
    return printable(f"revision {revision.revision} of {shown_time(revision.time)} ({who}){why}")
