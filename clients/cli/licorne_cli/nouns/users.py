"""`licorne users`: what users or groups have and may have, queue by queue."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace

from licorne.v1.state_pb2 import USAGE_OF_GROUPS, USAGE_OF_USERS, ListUsageRequest, QueueUsage, Usage
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.connection.channel import add_connection_arguments, chosen_partition, pages, with_state
from licorne_cli.output.listing import Column, Listing, add_listing_arguments, resources
from licorne_cli.output.printer import print_or_watch
from licorne_cli.output.text import NOTHING

EXAMPLES = (
    ("licorne users", "all users"),
    ("licorne users --sort-by allocated.memory --reverse", "who has most comes first"),
    ("licorne users --groups -o json", "groups, for programs"),
)
Row = tuple[Usage, QueueUsage]
"""A user or group in one queue."""


def rows(usage: Usage) -> Iterator[Row]:
    """A row for each queue, those below behind their parent."""
    waiting: list[QueueUsage] = [usage.root]
    while waiting:
        queue = waiting.pop()
        waiting += reversed(queue.children)
        yield usage, queue


def running(row: Row) -> str:
    """Running applications, and their maximum."""
    _, queue = row
    text = str(len(queue.running_applications))
    return f"{text} (max {queue.max_applications})" if queue.max_applications else text


def applications(row: Row) -> str:
    """The applications that run."""
    return " ".join(row[1].running_applications) or NOTHING


USERS = Listing[Usage, Row](
    kind="user",
    plural="usages",
    name=lambda usage: usage.name,
    rows=rows,
    columns=(
        Column("USER", lambda row: row[0].name, head=True),
        Column("QUEUE", lambda row: row[1].queue, head=True),
        Column("RUNNING", running, key=lambda row: len(row[1].running_applications)),
        resources("ALLOCATED", lambda row: row[1].allocated),
        resources("MAX", lambda row: row[1].max),
        Column("APPLICATIONS", applications, wide=True),
    ),
)
GROUPS = replace(USERS, kind="group", columns=(replace(USERS.columns[0], header="GROUP"), *USERS.columns[1:]))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne users`."""
    parser.add_argument("name", nargs="?", default="", metavar="USER", help="only this one")
    parser.add_argument("--groups", action="store_true", help="groups instead of users")
    add_listing_arguments(parser, USERS)
    add_connection_arguments(parser, forms=())


def run(args: argparse.Namespace) -> int:
    """Print users or groups by name, root before the queues below it."""
    return with_state(args, show)


def show(stub: StateStub, args: argparse.Namespace) -> None:
    """Ask and print."""
    partition = chosen_partition(stub, args)
    listing = GROUPS if args.groups else USERS
    print_or_watch(listing, lambda: found_usages(stub, args, partition), args)


def found_usages(stub: StateStub, args: argparse.Namespace, partition: str) -> Sequence[Usage]:
    """All of them, page by page."""
    request = ListUsageRequest(
        partition=partition,
        kind=USAGE_OF_GROUPS if args.groups else USAGE_OF_USERS,
        name=args.name.removeprefix("group/" if args.groups else "user/"),
    )
    found = pages(stub.ListUsage, request, args.timeout)
    return [usage for page in found for usage in page.usages]
