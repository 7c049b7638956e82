"""`licorne usage`: resource-hours by queue, user or group."""

import argparse
import csv
import sys
import time
from collections.abc import Iterator, Sequence

import grpc

from licorne.v1.state_pb2 import ListResourceHoursRequest, ResourceHours
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.connection.channel import add_connection_arguments, partitions_meant, rows, served
from licorne_cli.output.listing import Column, Listing, add_listing_arguments
from licorne_cli.output.printer import print_listing
from licorne_cli.output.text import hours_text
from licorne_cli.parsing.parser import duration

EXAMPLES = (
    ("licorne usage --since 30d", "what each queue has used in a month, those below it included"),
    ("licorne usage --by user --since 7d --sort-by hours --reverse", "the largest users of a week"),
    ("licorne usage --by group -o csv", "for a spreadsheet"),
)
KINDS = ("queue", "user", "group")
CSV = "csv"
PARTS = tuple(
    item.name
    for item in ResourceHours.DESCRIPTOR.fields
    if item.name.endswith("_hours") and item.name != "preempted_hours"
)
"""Further parts of the used hours, each in a separate column."""
CSV_COLUMNS = (
    "partition",
    "name",
    "resource",
    "hours",
    "allocations",
    "preempted",
    "preempted_hours",
    *PARTS,
)


def resource_hours(hours: dict[str, float]) -> str:
    """``memory=1.5Gi·h``, so that it is not mistaken for an amount of memory."""
    return hours_text(hours, "·h")


def sort_key(hours: dict[str, float]) -> float:
    """Sort key with cores first."""
    return hours.get("vcore", 0.0)


HOURS = Listing[ResourceHours](
    kind="row",
    plural="rows",
    name="name",
    columns=(
        Column("PARTITION", "partition", head=True),
        Column("NAME", "name", head=True),
        Column("HOURS", "hours", resource_hours, key=sort_key),
        Column("ALLOCATIONS", "allocations", "{:,}".format, key=int),
        Column("PREEMPTED", "preempted", "{:,}".format, key=int),
        Column("LOST HOURS", "preempted_hours", resource_hours, key=sort_key),
        *[Column(name.upper().replace("_", " "), name, resource_hours, key=sort_key) for name in PARTS],
    ),
    none=lambda _: "nothing was used",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `licorne usage`."""
    add = parser.add_argument
    add("--by", choices=KINDS, default=KINDS[0], help="what the sums are of (%(default)s)")
    add("--since", type=duration, default=0.0, metavar="TIME", help="from so long ago, as 30d (default: all)")
    add("--until", type=duration, default=0.0, metavar="TIME", help="until so long ago (default: now)")
    add_listing_arguments(parser, HOURS, watch=False, forms=(CSV,))
    add_connection_arguments(parser, everywhere=True, forms=())


def show(channel: grpc.Channel, args: argparse.Namespace) -> None:
    """Print the totals."""
    stub = StateStub(channel)
    found = list(all_rows(stub, args))
    if args.output == CSV:
        print_csv(HOURS.ordered(found, args))
        return
    print_listing(HOURS, found, args)


run = served(show)


def all_rows(stub: StateStub, args: argparse.Namespace) -> Iterator[ResourceHours]:
    """The sums of the partitions to which the arguments refer, page by page."""
    names = [""]
    if args.partition or args.rm_id:
        names = [one.name for one in partitions_meant(stub, args)]
    now = time.time()
    for name in names:
        request = ListResourceHoursRequest(
            partition=name, by=args.by, since=_moment(now, args.since), until=_moment(now, args.until)
        )
        yield from rows(stub.ListResourceHours, request, "rows", args.timeout)


def _moment(now: float, ago: float) -> int:
    """The time this number of seconds ago, in nanoseconds; 0 if none is given."""
    return max(1, int((now - ago) * 1e9)) if ago else 0


def print_csv(found: Sequence[ResourceHours]) -> None:
    """Print a line for each resource of each row; amounts are milli-cores, bytes or counts, times hours."""
    lines = csv.writer(sys.stdout, lineterminator="\n")
    lines.writerow(CSV_COLUMNS)
    for row in found:
        for name in sorted({*row.hours, *row.preempted_hours}):
            used, lost = row.hours.get(name, 0.0), row.preempted_hours.get(name, 0.0)
            counted = (row.partition, row.name, name, used, row.allocations, row.preempted, lost)
            lines.writerow((*counted, *[getattr(row, part).get(name, 0.0) for part in PARTS]))
