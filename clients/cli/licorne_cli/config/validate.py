"""`licorne config validate`: a file as the server judges it."""

import argparse

import grpc

from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_cli.config.files import add_file_argument, file_name, read_file, validated
from licorne_cli.connection.channel import OK, REFUSED, add_connection_arguments, with_channel
from licorne_cli.failures import RefusedError
from licorne_cli.output.text import DATA_FORMS, print_data, say

EXAMPLES = (
    ("licorne config validate queues.yaml", "all problems of a file"),
    (
        "licorne config validate --strict - < queues.yaml",
        "what another command writes; refuse what is dubious too",
    ),
)
NOTES = """\
It exits with 4 if the file is refused. `licorne validate-config` does the same without a server.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne config validate`."""
    parser.epilog = NOTES
    add_file_argument(parser)
    parser.add_argument("--strict", action="store_true", help="warnings are errors")
    add_connection_arguments(parser, partition=False, forms=("text", *DATA_FORMS))


def run(args: argparse.Namespace) -> int:
    """Print every problem; the exit code."""
    refused: list[str] = []
    code = with_channel(args, lambda channel: judge(channel, args, refused))
    return code or (REFUSED if refused else OK)


def judge(channel: grpc.Channel, args: argparse.Namespace, refused: list[str]) -> None:
    """Ask and print; the problems are in `refused` then."""
    checksum = ""
    try:
        verdict = validated(AdminStub(channel), args, read_file(args), strict=args.strict)
        checksum = verdict.checksum
    except RefusedError as error:
        refused += error.lines
    if args.output in DATA_FORMS:
        print_data({"valid": not refused, "checksum": checksum, "problems": refused}, args.output)
        return
    for line in refused:
        print(line)
    if not refused:
        say(f"{file_name(args)}: valid, checksum {checksum}")
