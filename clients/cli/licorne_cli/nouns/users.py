"""`licorne users`: usage and limits of users or groups, queue by queue."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import grpc

from licorne.v1.state_pb2 import USAGE_OF_GROUPS, USAGE_OF_USERS, ListUsageRequest, QueueUsage, Usage
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.connection.channel import add_connection_arguments, chosen_partition, pages, served
from licorne_cli.output.listing import Column, Listing, add_listing_arguments
from licorne_cli.output.printer import print_or_watch
from licorne_cli.output.shares import decayed, decayed_key
from licorne_cli.output.text import NOTHING, human_resources

EXAMPLES = (
    ("licorne users", "all users"),
    ("licorne users --sort-by allocated.memory --reverse", "who has most comes first"),
    ("licorne users --groups -o json", "groups, for programs"),
)


class Row(NamedTuple):
    """A user or group in one queue."""

    usage: Usage
    queue: QueueUsage


def rows(usage: Usage) -> Iterator[Row]:
    """A row for each queue, children after their parent."""
    waiting: list[QueueUsage] = [usage.root]
    while waiting:
        queue = waiting.pop()
        waiting += reversed(queue.children)
        yield Row(usage, queue)


def running(queue: QueueUsage) -> str:
    """Running applications, and their maximum."""
    text = str(len(queue.running_applications))
    return f"{text} (max {queue.max_applications})" if queue.max_applications else text


USERS = Listing[Usage](
    kind="user",
    plural="usages",
    name="name",
    rows=rows,
    columns=(
        Column("USER", "usage.name", head=True),
        Column("QUEUE", "queue.queue", head=True),
        Column("RUNNING", "queue", running, key=lambda queue: len(queue.running_applications)),
        Column("ALLOCATED", "queue.allocated", human_resources),
        Column("MAX", "queue.max", human_resources),
        Column("DECAYED", "queue.fair_share", decayed, key=decayed_key, optional=True),
        Column("APPLICATIONS", "queue.running_applications", lambda ids: " ".join(ids) or NOTHING, wide=True),
    ),
)
GROUPS = replace(USERS, kind="group", columns=(replace(USERS.columns[0], header="GROUP"), *USERS.columns[1:]))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne users`."""
    parser.add_argument("name", nargs="?", default="", metavar="USER", help="only this one")
    parser.add_argument("--groups", action="store_true", help="groups instead of users")
    add_listing_arguments(parser, USERS)
    add_connection_arguments(parser, forms=())


def show(channel: grpc.Channel, args: argparse.Namespace) -> None:
    """Print users or groups by name, root before the queues below it."""
    stub = StateStub(channel)
    partition = chosen_partition(stub, args)
    listing = GROUPS if args.groups else USERS
    print_or_watch(listing, lambda: found_usages(stub, args, partition), args)


run = served(show)


def found_usages(stub: StateStub, args: argparse.Namespace, partition: str) -> Sequence[Usage]:
    """The usage of all users or groups, page by page."""
    request = ListUsageRequest(
        partition=partition,
        kind=USAGE_OF_GROUPS if args.groups else USAGE_OF_USERS,
        name=args.name.removeprefix("group/" if args.groups else "user/"),
    )
    found = pages(stub.ListUsage, request, args.timeout)
    return [usage for page in found for usage in page.usages]
