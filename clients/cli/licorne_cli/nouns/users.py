"""`licorne users`: usage and limits of users or groups, queue by queue."""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from licorne.v1.state_pb2 import USAGE_OF_GROUPS, USAGE_OF_USERS, ListUsageRequest, QueueUsage, Usage
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.connection import channel
from licorne_cli.nouns.noun import Noun
from licorne_cli.output.listing import Column, Listing
from licorne_cli.output.shares import decayed, decayed_key
from licorne_cli.output.text import NOTHING, human_resources

EXAMPLES = (
    ("licorne users", "all users"),
    ("licorne users --sort-by allocated.memory --reverse", "who has most comes first"),
    ("licorne users --groups -o json", "groups, for programs"),
)


class UserRow(NamedTuple):
    """A user or group in one queue."""

    usage: Usage
    queue: QueueUsage


def rows(usage: Usage) -> Iterator[UserRow]:
    """A row for each queue, children after their parent."""
    waiting: list[QueueUsage] = [usage.root]
    while waiting:
        queue = waiting.pop()
        waiting += reversed(queue.children)
        yield UserRow(usage, queue)


def running(queue: QueueUsage) -> str:
    """The number of running applications, and its maximum."""
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


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Add the option that chooses the list."""
    parser.add_argument("--groups", action="store_true", help="groups instead of users")


def found_usages(stub: StateStub, args: argparse.Namespace, partition: str) -> Iterator[Usage]:
    """The usage of all users or groups, or of a named one; root precedes its descendants."""
    request = ListUsageRequest(
        partition=partition,
        kind=USAGE_OF_GROUPS if args.groups else USAGE_OF_USERS,
        name=args.name.removeprefix("group/"),
    )
    return channel.rows(stub.ListUsage, request, "usages", args.timeout)


def show(stub: StateStub, args: argparse.Namespace, name: str) -> None:
    """Print users or groups; the server refuses an unknown name."""
    everybody = argparse.Namespace(**{**vars(args), "name": ""})

    def names() -> Iterator[str]:
        for partition in channel.partitions_named(stub, args):
            yield from (usage.name for usage in found_usages(stub, everybody, partition))

    with channel.suggesting(name, names):
        (replace(NOUN, listing=GROUPS) if args.groups else NOUN).print(stub, args)


NOUN = Noun(listing=USERS, about="only this one", items=found_usages, filters=add_filters, show=show)
add_arguments, run = NOUN.add_arguments, NOUN.run
