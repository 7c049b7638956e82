"""`licorne config get`: the text that an RM runs, exactly as it was given."""

import argparse
import sys
from collections.abc import Iterator

import grpc

from licorne.v1.admin_pb2 import GetConfigurationResponse
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_cli.config.files import add_rm_argument, chosen_rm, revisions_of, running_configuration
from licorne_cli.connection.channel import add_connection_arguments, with_channel
from licorne_cli.output.text import print_json, printable, say, to_plain
from licorne_cli.parsing.parser import revision

EXAMPLES = (
    ("licorne config get > queues.yaml", "what is in force, to edit it"),
    ("licorne config get my-cluster --revision 3", "an earlier one"),
    ("licorne config get -o json", "with its revision, and who brought it"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne config get`."""
    add_rm_argument(parser)
    parser.add_argument(
        "--revision", type=revision, default=0, metavar="N", help="an earlier one of the history"
    )
    add_connection_arguments(parser, partition=False, forms=("yaml", "json"))


def run(args: argparse.Namespace) -> int:
    """Print it; the exit code."""
    return with_channel(args, lambda channel: show(channel, args))


def show(channel: grpc.Channel, args: argparse.Namespace) -> None:
    """Ask and print."""
    stub = AdminStub(channel)
    rm_id = chosen_rm(channel, args)
    found = (
        revisions_of(stub, rm_id, args, args.revision)[0]
        if args.revision
        else running_configuration(stub, rm_id, args)
    )
    if isinstance(found, GetConfigurationResponse):
        for line in remarks(found):
            say(line)
    if args.output == "json":
        print_json(to_plain(found))
    else:
        sys.stdout.write(found.config)


def remarks(found: GetConfigurationResponse) -> Iterator[str]:
    """Remarks on a configuration that is not what it seems."""
    rm = f"RM {printable(found.rm_id)}"
    if not found.registered:
        yield f"{rm} is not registered now: this comes into force when it registers"
    if found.instead_of:
        yield f"{rm} runs revision {found.revision} instead: {printable(found.comment)}"
