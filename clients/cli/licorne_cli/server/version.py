"""`licorne version`: what would run here, and what runs in the server."""

import argparse
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import version

import grpc

from licorne.v1.state_pb2 import GetServerRequest, GetServerResponse
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli import DISTRIBUTION
from licorne_cli.connection.channel import OK, add_connection_arguments, with_state
from licorne_cli.connection.target import DEFAULT_TARGET
from licorne_cli.output.text import DATA_FORMS, print_data, printable, say, to_plain
from licorne_cli.plugins import build_here

EXAMPLES = (
    ("licorne version", "of this command, and of the server"),
    ("licorne version --client -o json", "of this command alone, for programs"),
)


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The command line alone, in the words of a server's build, which has its form in addition."""

    version: str
    python: str
    form: None = None
    optimized: None = None

    def __str__(self) -> str:
        """``licorne 0.1.0, CPython 3.11.7; no server package is installed here``."""
        return f"licorne {self.version}, {self.python}; no server package is installed here"


def command_line() -> CommandLine:
    """That of this process."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return CommandLine(version(DISTRIBUTION), python)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne version`."""
    parser.add_argument("--client", action="store_true", help="do not ask the server")
    add_connection_arguments(parser, partition=False, forms=("text", *DATA_FORMS))


def run(args: argparse.Namespace) -> int:
    """Print version, form and interpreter of the server package here, and of the server.

    Nothing is said of a server at the usual place that does not answer. One that was named has to.
    """
    found: list[GetServerResponse] = []
    named = args.target is not None

    def ask(stub: StateStub, args: argparse.Namespace) -> None:
        found.extend(server_version(stub, args, named=named or args.target != DEFAULT_TARGET))

    code = OK if args.client else with_state(args, ask)
    show(args, found[0] if found else None)
    return code


def server_version(stub: StateStub, args: argparse.Namespace, *, named: bool) -> list[GetServerResponse]:
    """The version of the server; nothing from one that is too old to know.

    Raises:
        RpcError: a server that was named does not answer.
    """
    try:
        return [stub.GetServer(GetServerRequest(), timeout=args.timeout)]
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.UNIMPLEMENTED:
            say(f"{args.target} does not tell its version: it is older than this command")
        elif named:
            raise
    return []


def show(args: argparse.Namespace, server: GetServerResponse | None) -> None:
    """Print both."""
    build = build_here() or command_line()
    if args.output == "text":
        print(build)
        if server is not None:
            about = f"licorne {server.version}, {server.form}, {server.python}"
            print(f"server {args.target}: {printable(about)}")
    else:
        data = {**asdict(build), "server": to_plain(server)}
        print_data(data, args.output)
