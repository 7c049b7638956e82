"""`licorne config history`: which configurations an RM had, who brought them, and why."""

import argparse

import grpc

from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_cli.config.files import add_rm_argument, chosen_rm, revisions_of
from licorne_cli.connection.channel import add_connection_arguments, with_channel
from licorne_cli.output.text import (
    DATA_FORMS,
    NOTHING,
    print_data,
    print_table,
    printable,
    shown_time,
    to_plain,
)

HEADERS = ("REVISION", "TIME", "SOURCE", "BY", "CHECKSUM", "COMMENT")
HEADS = HEADERS.index("SOURCE") + 1
"""Columns that head an entry where the terminal is too narrow for a table."""
SHORT = 12
"""Characters of a checksum that a table shows."""

EXAMPLES = (
    ("licorne config history", "what was in force, the latest first"),
    ("licorne config history my-cluster -o json", "for programs"),
)
NOTES = """\
The latest comes first: it is in force.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne config history`."""
    parser.epilog = NOTES
    add_rm_argument(parser)
    add_connection_arguments(parser, partition=False)


def run(args: argparse.Namespace) -> int:
    """Print it; the exit code."""
    return with_channel(args, lambda channel: show(channel, args))


def show(channel: grpc.Channel, args: argparse.Namespace) -> None:
    """Ask and print."""
    rm_id = chosen_rm(channel, args)
    revisions = revisions_of(AdminStub(channel), rm_id, args)
    if args.output in DATA_FORMS:
        data = {"rmId": rm_id, "revisions": [to_plain(revision) for revision in revisions]}
        print_data(data, args.output)
        return
    rows = [
        (
            str(revision.revision),
            shown_time(revision.time),
            revision.source,
            printable(revision.by) or NOTHING,
            revision.checksum[:SHORT],
            printable(revision.comment) or NOTHING,
        )
        for revision in revisions
    ]
    print_table(HEADERS, rows, heads=HEADS)
