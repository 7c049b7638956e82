"""`licorne calendar`: when asks and gangs that hold a shadow start are expected to start."""

import argparse
from collections.abc import Iterator

import grpc

from licorne.v1.state_pb2 import CalendarEntry, ListCalendarRequest
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.connection.channel import add_connection_arguments, chosen_partition, pages, served
from licorne_cli.output.listing import Column, Listing, add_listing_arguments
from licorne_cli.output.printer import print_or_watch
from licorne_cli.output.text import NOTHING, human_resources, shown_time

EXAMPLES = (
    ("licorne calendar", "the earliest start first"),
    ("licorne calendar --queue root.training -w", "of a queue and those below it, as it changes"),
    ("licorne calendar -o json", "for programs"),
)


def subject(entry: CalendarEntry) -> str:
    """``job-1``, or ``job-1/key`` for a single ask."""
    return f"{entry.application_id}/{entry.allocation_key}".rstrip("/")


def time_or_none(nanoseconds: int) -> str:
    """A time; a dash for none."""
    return shown_time(nanoseconds) if nanoseconds else NOTHING


def late(entry: CalendarEntry) -> str:
    """``late`` if the start is expected after the latest one that is wanted."""
    is_late = 0 < entry.start.start_by < entry.start.starts_at
    return "late" if is_late else NOTHING


CALENDAR = Listing[CalendarEntry](
    kind="entry",
    plural="entries",
    name=subject,
    columns=(
        Column("STARTS AT", "start.starts_at", time_or_none, head=True),
        Column("FOR", "", subject, head=True),
        Column("QUEUE", "queue"),
        Column("CONFIDENCE", "start.confidence"),
        Column("ASKS", "asks", "{:,}".format, key=int),
        Column("REQUESTED", "requested", human_resources),
        Column("NODES", "nodes", "{:,}".format, key=int),
        Column("FIRST TOLD", "start.first_told", time_or_none, wide=True),
        Column("SINCE", "since", time_or_none, wide=True),
        Column("START BY", "start.start_by", time_or_none, wide=True, optional=True),
        Column("DEADLINE", "", late, optional=True),
    ),
    none=lambda _: "nothing holds a shadow start",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne calendar`."""
    parser.add_argument(
        "--queue", default="", metavar="QUEUE", help="only of this queue, and of those below it"
    )
    add_listing_arguments(parser, CALENDAR)
    add_connection_arguments(parser, forms=())


def show(channel: grpc.Channel, args: argparse.Namespace) -> None:
    """Print the calendar of a partition; `-w` continues."""
    stub = StateStub(channel)
    partition = chosen_partition(stub, args)
    print_or_watch(CALENDAR, lambda: list(entries(stub, args, partition)), args)


run = served(show)


def entries(stub: StateStub, args: argparse.Namespace, partition: str) -> Iterator[CalendarEntry]:
    """The entries of a partition, page by page."""
    request = ListCalendarRequest(partition=partition, queue=args.queue)
    for page in pages(stub.ListCalendar, request, args.timeout):
        yield from page.entries
