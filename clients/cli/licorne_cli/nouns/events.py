"""`licorne events`: the retained events of an RM; with -w also future events.

An event names its object, but not the queue and the user of an application. So filters by queue or user query
the server about applications: at the beginning, and for each new one.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import grpc

from licorne.si.v1.si_pb2 import EventRecord
from licorne.v1.state_pb2 import (
    Application,
    Event,
    GetApplicationRequest,
    ListApplicationsRequest,
    ListEventsRequest,
    ListPartitionsRequest,
    WatchEventsRequest,
)
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.connection.channel import add_connection_arguments, chosen_rm, rows, served
from licorne_cli.connection.errors import metadata_of
from licorne_cli.nouns.apps import LISTS
from licorne_cli.nouns.queues import is_below
from licorne_cli.output.listing import Column, Listing, add_listing_arguments, of_kind
from licorne_cli.output.printer import Printer, print_listing
from licorne_cli.output.text import NOTHING, human_resources, human_text, printable, say, shown_time, to_plain
from licorne_cli.parsing.parser import duration

TYPES = {"app": "APP", "node": "NODE", "queue": "QUEUE", "request": "REQUEST", "user": "USERGROUP"}
STATES = {
    "new": "APP_NEW",
    "accepted": "APP_ACCEPTED",
    "running": "APP_RUNNING",
    "completing": "APP_COMPLETING",
    "completed": "APP_COMPLETED",
    "rejected": "APP_REJECT",
    "failing": "APP_FAILING",
    "failed": "APP_FAILED",
    "resuming": "APP_RESUMING",
    "expired": "APP_EXPIRED",
}
"""For each state of an application, the detail of the event that announces it."""
WITH_APP = {
    EventRecord.QUEUE_APP,
    EventRecord.UG_APP_LINK,
}
"""Details of events that refer to an application but are not about it."""


def add_filter_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the filters of events."""
    group = parser.add_argument_group("which", "All that are given have to hold.")
    add = group.add_argument
    add("--app", default="", type=of_kind("app"), metavar="APP", help="of this application")
    add(
        "--queue",
        default="",
        type=of_kind("queue"),
        metavar="QUEUE",
        help="of this queue and those below it, and of the applications in them",
    )
    add(
        "--user",
        default="",
        type=of_kind("user"),
        metavar="USER",
        help="of this user, and of the applications of this user",
    )
    add("--node", default="", type=of_kind("node"), metavar="NODE", help="of this node")
    add("--type", choices=TYPES, help="of this kind of thing")
    add("--state", type=str.lower, choices=STATES, help="of applications that came into this state")
    add(
        "--reason",
        default="",
        metavar="TEXT",
        help="with this text in detail or message, such as APP_REJECT or preempt",
    )
    add("--since", type=duration, metavar="TIME", help="of the last 90s, 5m or 1h30m")


def name_of(enum: str, number: int) -> str:
    """The name of a kind in the published interface, or the number of an unknown kind."""
    value = EventRecord.DESCRIPTOR.enum_types_by_name[enum].values_by_number.get(number)
    return str(number) if value is None else value.name


def app_of(record: EventRecord) -> str:
    """The application that an event is about; empty if there is none."""
    if record.type == EventRecord.APP:
        return record.objectID
    if record.type == EventRecord.REQUEST or record.eventChangeDetail in WITH_APP:
        return record.referenceID
    return ""


def queue_of(record: EventRecord) -> str:
    """The queue that an event names; empty if there is none."""
    if record.type == EventRecord.QUEUE:
        return record.objectID
    if record.type == EventRecord.USERGROUP and record.eventChangeDetail not in WITH_APP:
        return record.referenceID
    return ""


class Owners:
    """The queue and the user of each application."""

    def __init__(self, stub: StateStub, args: argparse.Namespace) -> None:
        """Query the server about all applications of the RM."""
        self._stub = stub
        self._timeout = args.timeout
        request = ListPartitionsRequest(rm_id=args.rm_id)
        partitions = stub.ListPartitions(request, timeout=args.timeout).partitions
        self._partitions = [item.name for item in partitions]
        self._known: dict[str, tuple[str, str]] = {}
        for partition in self._partitions:
            for state in LISTS:
                wanted = ListApplicationsRequest(partition=partition, state=state)
                for app in rows(stub.ListApplications, wanted, "applications", args.timeout):
                    self._known[app.application_id] = app.queue, app.user

    def of(self, app_id: str) -> tuple[str, str]:
        """Queue and user of an application; both empty if it has ended."""
        if app_id not in self._known:
            app = self._asked(app_id)
            self._known[app_id] = app.queue, app.user
        return self._known[app_id]

    def forget(self, app_id: str) -> None:
        """Drop an application that has ended."""
        self._known.pop(app_id, None)

    def _asked(self, app_id: str) -> Application:
        for partition in self._partitions:
            request = GetApplicationRequest(partition=partition, application_id=app_id, limit=1)
            try:
                return self._stub.GetApplication(request, timeout=self._timeout)
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.NOT_FOUND:
                    raise
        return Application()


@dataclass(frozen=True, slots=True)
class EventFilter:
    """The filter described by the arguments. `since` is in nanoseconds since 1970."""

    args: argparse.Namespace
    since: float
    owners: Owners | None

    @staticmethod
    def of(stub: StateStub, args: argparse.Namespace) -> "EventFilter":
        """Make the filter; queries the server about applications if the filter needs them."""
        since = 0.0 if args.since is None else (time.time() - args.since) * 1e9
        owners = Owners(stub, args) if args.queue or args.user else None
        return EventFilter(args=args, since=since, owners=owners)

    def takes(self, event: Event) -> bool:
        """True if the event passes the filter."""
        record, args = event.record, self.args
        detail = name_of("ChangeDetail", record.eventChangeDetail)
        app = app_of(record)
        return (
            record.timestampNano >= self.since
            and args.app in ("", app)
            and (not args.node or (record.type, record.objectID) == (EventRecord.NODE, args.node))
            and (args.type is None or name_of("Type", record.type) == TYPES[args.type])
            and (args.state is None or detail == STATES[args.state])
            and args.reason.casefold() in f"{detail} {record.message}".casefold()
            and (self.owners is None or self._is_owned(record, app, self.owners))
        )

    def _is_owned(self, record: EventRecord, app: str, owners: Owners) -> bool:
        """True for an event of the given queue and user."""
        queue, user = owners.of(app) if app else ("", "")
        queue = queue_of(record) or queue
        if record.type == EventRecord.USERGROUP and not app:
            user = record.objectID
        if record.type == EventRecord.APP and record.eventChangeType == EventRecord.REMOVE:
            owners.forget(app)
        return (not self.args.queue or (bool(queue) and is_below(queue, self.args.queue))) and (
            self.args.user in ("", user)
        )


FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
"""Maximum pause between two attempts, in seconds. Each failure doubles the pause."""

TRANSIENT = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.INTERNAL,
    }
)
"""Status codes after which the watch is retried.

The server may restart, the RM may have to register again, or tracking may be off for a while.
"""


class Follower:
    """A position in the events of an RM, which outlives single calls."""

    def __init__(self, stub: StateStub, target: str, rm_id: str) -> None:
        """`target` is the server's name in messages."""
        self._stub = stub
        self._target = target
        self._rm_id = rm_id
        self._instance = ""
        self._next_id = 0
        self._heard = False
        self._pause = 0.0

    def begin(self, start: int | None, timeout: float) -> None:
        """Start at an event id, or with future events."""
        if start is None:
            request = ListEventsRequest(rm_id=self._rm_id, count=1)
            kept = self._stub.ListEvents(request, timeout=timeout)
            self._instance, start = kept.instance, kept.highest_id + 1
        self._next_id = start

    def events(self) -> Iterator[Sequence[Event]]:
        """Events as they occur, without end; a note on stderr reports missed events.

        Raises:
            RpcError: the first call failed, or the failure is permanent.
        """
        while True:
            request = WatchEventsRequest(rm_id=self._rm_id, start=self._next_id, instance=self._instance)
            try:
                for answer in self._stub.WatchEvents(request):
                    self._heard, self._pause = True, 0.0
                    self._instance = answer.instance
                    if answer.events:
                        self._next_id = answer.events[-1].id + 1
                        yield answer.events
            except grpc.RpcError as error:
                self._take(error)
            self._pause = min(LONGEST_PAUSE, 2 * self._pause) or FIRST_PAUSE
            time.sleep(self._pause)

    def _take(self, error: grpc.RpcError) -> None:
        """Set the position for the next call after a failure.

        Raises:
            RpcError: the failure is permanent.
        """
        where = metadata_of(error)
        if "next_id" in where:
            self._move(int(where["next_id"]), where.get("instance", self._instance))
        elif not self._heard or error.code() not in TRANSIENT:
            raise error
        elif not self._pause:
            details = printable(error.details() or error.code().name)
            say(f"licorne: lost {self._target}: {details}; trying again")

    def _move(self, next_id: int, instance: str) -> None:
        if self._instance and instance != self._instance:
            say("licorne: the RM registered anew: ids start over")
        elif next_id > self._next_id:
            say(f"licorne: events {self._next_id} to {next_id - 1} are not kept any more")
        elif next_id < self._next_id:
            say(f"licorne: event {self._next_id} is far from happening: the next is {next_id}")
        self._next_id, self._instance = next_id, instance


EXAMPLES = (
    ("licorne events", "all that are kept"),
    ("licorne events -w", "and continue with new events"),
    ("licorne events --app oversized", "of one application and its asks"),
    ("licorne events --queue root.batch --user ann --since 5m", "of some applications"),
    ("licorne events --reason preempt -o json", "of one kind, for programs"),
)

WIDTHS = (8, 24, 9, 6, 18, 20, 20, 24, 0)
"""Minimum widths of columns, because later rows are not known yet."""


def amounts(event: Event) -> dict[str, int]:
    """The resources in an event."""
    return {name: item.value for name, item in event.record.resource.resources.items()}


def kind_column(header: str, field: str, enum: str) -> Column:
    """A column with the name of a kind; a dash if there is none."""

    def shown(number: int) -> str:
        return name_of(enum, number) if number else NOTHING

    return Column(header, f"record.{field}", shown, key=shown, head=True)


EVENTS = Listing[Event](
    kind="event",
    plural="events",
    name="id",
    columns=(
        Column("ID", "id", head=True),
        Column("TIME", "record.timestampNano", shown_time, head=True),
        kind_column("TYPE", "type", "Type"),
        kind_column("CHANGE", "eventChangeType", "ChangeType"),
        kind_column("DETAIL", "eventChangeDetail", "ChangeDetail"),
        Column("OBJECT", "record.objectID"),
        Column("REFERENCE", "record.referenceID"),
        Column("RESOURCES", amounts, human_resources),
        Column("MESSAGE", "record.message", lambda text: human_text(text) or NOTHING),
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `licorne events`."""
    parser.add_argument("-w", "--watch", action="store_true", help="continue with new events")
    parser.add_argument(
        "--from",
        dest="start",
        type=event_id,
        metavar="ID",
        help="from this event on (default: all that are kept, with -w none of them)",
    )
    add_filter_arguments(parser)
    add_listing_arguments(parser, EVENTS, watch=False)
    add_connection_arguments(parser, partition=False, rm=True, forms=())


def event_id(text: str) -> int:
    """Parse an event id."""
    if not (text.isascii() and text.isdecimal() and int(text) < 2**64):
        raise argparse.ArgumentTypeError(f"{text} is no id of an event")
    return int(text)


def show(channel: grpc.Channel, args: argparse.Namespace) -> None:
    """Print events."""
    args.rm_id = chosen_rm(stub := StateStub(channel), args)
    (show_coming if args.watch else show_kept)(stub, args)


run = served(show)


def show_kept(stub: StateStub, args: argparse.Namespace) -> None:
    """Print the events that were retained at the time of the first answer."""
    wanted = EventFilter.of(stub, args)
    request = ListEventsRequest(rm_id=args.rm_id, start=args.start or 0)
    if wanted.since:
        request.start = max(request.start, first_since(stub, args, wanted.since))
    first = answer = stub.ListEvents(request, timeout=args.timeout)
    events = list(first.events)
    while answer.events and events[-1].id < first.highest_id:
        request.start = events[-1].id + 1
        answer = stub.ListEvents(request, timeout=args.timeout)
        if answer.instance != first.instance:
            say("the RM registered anew meanwhile: this is what was before")
            break
        events += answer.events
    beside = {name: value for name, value in to_plain(first).items() if name != EVENTS.plural}
    print_listing(EVENTS, [event for event in events if wanted.takes(event)], args, beside)


def first_since(stub: StateStub, args: argparse.Namespace, since: float) -> int:
    """The first id of an event at or after a time, found by a few short calls.

    Ids increase with time. If the clock of the server was set back, older events may be included.
    """
    request = ListEventsRequest(rm_id=args.rm_id, count=1)
    kept = stub.ListEvents(request, timeout=args.timeout)
    low, high = kept.lowest_id, kept.highest_id + 1
    while low < high:
        request.start = (low + high) // 2
        events = stub.ListEvents(request, timeout=args.timeout).events
        if events and events[0].record.timestampNano < since:
            low = events[0].id + 1
        else:
            high = request.start
    return low


def show_coming(stub: StateStub, args: argparse.Namespace) -> None:
    """Print events as they occur; in JSON each is one line."""
    follower = Follower(stub, args.target, args.rm_id)
    follower.begin(args.start, args.timeout)
    wanted = EventFilter.of(stub, args)
    printer = Printer(EVENTS, args.output, headers=not args.no_headers, widths=WIDTHS)
    printer.print([])
    for events in follower.events():
        printer.print([event for event in events if wanted.takes(event)])
