"""`licorne calendar`: expected start times of asks and gangs that hold a shadow start."""

import argparse
from collections.abc import Iterator

from licorne.v1.state_pb2 import CalendarEntry, ListCalendarRequest
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.connection.channel import rows
from licorne_cli.nouns.noun import Noun
from licorne_cli.output.listing import Column, Listing
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
    """A time as text; a dash if there is none."""
    return shown_time(nanoseconds) if nanoseconds else NOTHING


def late(entry: CalendarEntry) -> str:
    """``late`` if the expected start is later than requested."""
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
        Column("EARLIEST", "start.earliest", time_or_none, wide=True, optional=True),
        Column("LATEST", "start.latest", time_or_none, wide=True, optional=True),
        Column("FIRST TOLD", "start.first_told", time_or_none, wide=True),
        Column("SINCE", "since", time_or_none, wide=True),
        Column("START BY", "start.start_by", time_or_none, wide=True, optional=True),
        Column("DEADLINE", "", late, optional=True),
    ),
    none=lambda _: "nothing holds a shadow start",
)


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Add the filter of the list."""
    parser.add_argument(
        "--queue", default="", metavar="QUEUE", help="only of this queue, and of those below it"
    )


def entries(stub: StateStub, args: argparse.Namespace, partition: str) -> Iterator[CalendarEntry]:
    """The entries of a partition, page by page."""
    request = ListCalendarRequest(partition=partition, queue=args.queue)
    return rows(stub.ListCalendar, request, "entries", args.timeout)


NOUN = Noun(listing=CALENDAR, items=entries, filters=add_filters)
add_arguments, run = NOUN.add_arguments, NOUN.run
