"""`licorne events`: the kept events of an RM; with --follow also those to come."""

import argparse
import json
import sys
from collections.abc import Sequence

from licorne.si.v1.si_pb2 import EventRecord
from licorne.v1.state_pb2 import Event, ListEventsRequest
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.cli.connection import add_connection_arguments, with_state
from licorne_server.cli.follow_events import Follower
from licorne_server.cli.output import (
    NOTHING,
    human_resources,
    human_text,
    print_json,
    print_table,
    printable,
    say,
    shown_time,
    to_plain,
)

HEADERS = ("ID", "TIME", "TYPE", "CHANGE", "DETAIL", "OBJECT", "REFERENCE", "RESOURCES", "MESSAGE")
WIDTHS = (8, 24, 9, 6, 18, 20, 20, 24, 0)
"""The least widths of the columns; used while the rows to come are not known."""

INTERRUPTED = 130


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne events`."""
    parser.add_argument(
        "--rm", default="", metavar="ID", help="of this RM (default: the one that came first)"
    )
    parser.add_argument("--follow", action="store_true", help="go on with what happens")
    parser.add_argument(
        "--from",
        dest="start",
        type=event_id,
        metavar="ID",
        help="from this event on (default: all that are kept, with --follow none of them)",
    )
    add_connection_arguments(parser, partition=False)


def event_id(text: str) -> int:
    """An id as it is given."""
    if not (text.isascii() and text.isdecimal() and int(text) < 2**64):
        raise argparse.ArgumentTypeError(f"{text} is no id of an event")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Print events; 130 when interrupted."""
    try:
        return with_state(args, show_coming if args.follow else show_kept)
    except KeyboardInterrupt:
        return INTERRUPTED


def show_kept(stub: StateStub, args: argparse.Namespace) -> None:
    """Ask until all is there that was kept at the first answer."""
    request = ListEventsRequest(rm_id=args.rm, start=args.start or 0)
    first = answer = stub.ListEvents(request, timeout=args.timeout)
    events = list(first.events)
    while answer.events and events[-1].id < first.highest_id:
        request.start = events[-1].id + 1
        answer = stub.ListEvents(request, timeout=args.timeout)
        if answer.instance != first.instance:
            say("the RM registered anew meanwhile: this is what was before")
            break
        events += answer.events
    if args.output == "json":
        print_json({**to_plain(first), "events": [to_plain(event) for event in events]})
    else:
        print_table(HEADERS, [row(event) for event in events])


def show_coming(stub: StateStub, args: argparse.Namespace) -> None:
    """Print what happens as it happens; in JSON a line for each event."""
    follower = Follower(stub, args.target, args.rm)
    follower.begin(args.start, args.timeout)
    if args.output == "table":
        print_columns([HEADERS])
    for events in follower.events():
        if args.output == "table":
            print_columns([row(event) for event in events])
        else:
            lines = [json.dumps(to_plain(event), ensure_ascii=False) for event in events]
            print("\n".join(lines), flush=True)


def print_columns(rows: Sequence[Sequence[str]]) -> None:
    """Rows of a table of which the rest is still to come."""
    for cells in rows:
        columns = (cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=True))
        print("  ".join(columns).rstrip())
    sys.stdout.flush()


def row(event: Event) -> tuple[str, ...]:
    """One line of the table."""
    record = event.record
    change, detail = record.eventChangeType, record.eventChangeDetail
    return (
        str(event.id),
        shown_time(record.timestampNano),
        name_of("Type", record.type),
        name_of("ChangeType", change) if change else NOTHING,
        name_of("ChangeDetail", detail) if detail else NOTHING,
        printable(record.objectID),
        printable(record.referenceID) or NOTHING,
        human_resources({name: amount.value for name, amount in record.resource.resources.items()}),
        human_text(record.message) or NOTHING,
    )


def name_of(enum: str, number: int) -> str:
    """What the published interface calls a kind; a number for one that is newer than this."""
    value = EventRecord.DESCRIPTOR.enum_types_by_name[enum].values_by_number.get(number)
    return str(number) if value is None else value.name
