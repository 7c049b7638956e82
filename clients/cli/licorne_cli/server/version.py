"""`licorne version`: what would run here, and what runs in the server."""

import argparse
from dataclasses import asdict

import grpc

from licorne.v1.state_pb2 import GetServerRequest, GetServerResponse
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.connection.channel import OK, add_connection_arguments, with_state
from licorne_cli.connection.target import DEFAULT_TARGET
from licorne_cli.output.text import DATA_FORMS, print_data, printable, say, to_plain
from licorne_server.process.build_info import build_info

EXAMPLES = (
    ("licorne version", "of this command, and of the server"),
    ("licorne version --client -o json", "of this command alone, for programs"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne version`."""
    parser.add_argument("--client", action="store_true", help="do not ask the server")
    add_connection_arguments(parser, partition=False, forms=("text", *DATA_FORMS))


def run(args: argparse.Namespace) -> int:
    """Print the version, the form and the interpreter, of the server as well if it can be reached.

    Nothing is said of a server at the usual place that does not answer. One that was named has to.
    """
    found: list[GetServerResponse] = []
    named = args.target is not None

    def ask(stub: StateStub, args: argparse.Namespace) -> None:
        found.extend(server_version(stub, args, named=named or args.target != DEFAULT_TARGET))

    code = OK if args.client else with_state(args, ask)
    show(args, found[0] if found else None)
    return code


def server_version(
    stub: StateStub, args: argparse.Namespace, *, named: bool
) -> list[GetServerResponse]:
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
    info = build_info()
    if args.output == "text":
        print(info)
        if server is not None:
            about = f"licorne {server.version}, {server.form}, {server.python}"
            print(f"server {args.target}: {printable(about)}")
    else:
        data = {**asdict(info), "server": to_plain(server)}
        print_data(data, args.output)
