"""`licorne users`: what users or groups have and may have, queue by queue."""

import argparse
from collections.abc import Iterator

from licorne.v1.state_pb2 import (
    USAGE_OF_GROUPS,
    USAGE_OF_USERS,
    ListUsageRequest,
    QueueUsage,
    Usage,
)
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.cli.connection import (
    add_connection_arguments,
    chosen_partition,
    pages,
    with_state,
)
from licorne_server.cli.output import (
    human_resources,
    print_json,
    print_table,
    printable,
    to_plain,
)

HEADERS = ("QUEUE", "RUNNING", "ALLOCATED", "MAX")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne users`."""
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="only this one")
    parser.add_argument("--groups", action="store_true", help="groups instead of users")
    add_connection_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print users or groups by name, root before the queues below it."""
    return with_state(args, show)


def show(stub: StateStub, args: argparse.Namespace) -> None:
    """Ask page by page and print."""
    request = ListUsageRequest(
        partition=chosen_partition(stub, args),
        kind=USAGE_OF_GROUPS if args.groups else USAGE_OF_USERS,
        name=args.name,
    )
    found = pages(stub.ListUsage, request, args.timeout)
    usages = [usage for page in found for usage in page.usages]
    if args.output == "json":
        print_json({"usages": [to_plain(usage) for usage in usages]})
    else:
        headers = ("GROUP" if args.groups else "USER", *HEADERS)
        print_table(headers, [row for usage in usages for row in rows(usage)])


def rows(usage: Usage) -> Iterator[tuple[str, ...]]:
    """A line for each queue, those below behind their parent; RUNNING counts applications."""
    waiting: list[QueueUsage] = [usage.root]
    while waiting:
        queue = waiting.pop()
        waiting += reversed(queue.children)
        running = str(len(queue.running_applications))
        if queue.max_applications:
            running += f" (max {queue.max_applications})"
        yield (
            printable(usage.name),
            printable(queue.queue),
            running,
            human_resources(queue.allocated),
            human_resources(queue.max),
        )
