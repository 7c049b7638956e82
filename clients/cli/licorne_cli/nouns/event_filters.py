"""Filters of `licorne events`: application, queue, user, node, state, kind and time.

The server lists all events of an RM. An event says which object it is about, and of applications
not in which queue they are and whose. That is asked at the beginning, and of each new application.
"""

import argparse
import time
from dataclasses import dataclass

import grpc

from licorne.si.v1.si_pb2 import EventRecord
from licorne.v1.state_pb2 import (
    Application,
    Event,
    GetApplicationRequest,
    ListApplicationsRequest,
    ListPartitionsRequest,
)
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.connection.pages import pages
from licorne_cli.nouns.apps import LISTS
from licorne_cli.nouns.queues import is_below
from licorne_cli.output.listing import of_kind
from licorne_cli.parsing.arguments import duration

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
"""States of applications, and what tells that one came into it."""
WITH_APP = {
    EventRecord.QUEUE_APP,
    EventRecord.UG_APP_LINK,
}
"""Details of events of others that refer to an application."""


def add_filter_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what chooses events."""
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
    """The name of a kind in the published interface; a number for one newer than this."""
    value = EventRecord.DESCRIPTOR.enum_types_by_name[enum].values_by_number.get(number)
    return str(number) if value is None else value.name


def app_of(record: EventRecord) -> str:
    """The application that an event is about, empty for none."""
    if record.type == EventRecord.APP:
        return record.objectID
    if record.type == EventRecord.REQUEST or record.eventChangeDetail in WITH_APP:
        return record.referenceID
    return ""


def queue_of(record: EventRecord) -> str:
    """The queue that an event names, empty for none."""
    if record.type == EventRecord.QUEUE:
        return record.objectID
    if record.type == EventRecord.USERGROUP and record.eventChangeDetail not in WITH_APP:
        return record.referenceID
    return ""


class Owners:
    """In which queue applications are, and whose."""

    def __init__(self, stub: StateStub, args: argparse.Namespace) -> None:
        """Ask about all that there are in the partitions of the RM."""
        self._stub = stub
        self._timeout = args.timeout
        request = ListPartitionsRequest(rm_id=args.rm_id)
        partitions = stub.ListPartitions(request, timeout=args.timeout).partitions
        first = partitions[0].rm_id if partitions else ""
        self._partitions = [item.name for item in partitions if item.rm_id == first]
        self._known: dict[str, tuple[str, str]] = {}
        for partition in self._partitions:
            for state in LISTS:
                wanted = ListApplicationsRequest(partition=partition, state=state)
                for page in pages(stub.ListApplications, wanted, args.timeout):
                    for app in page.applications:
                        self._known[app.application_id] = app.queue, app.user

    def of(self, app_id: str) -> tuple[str, str]:
        """Queue and user; empty for an application that is not known any more."""
        if app_id not in self._known:
            app = self._asked(app_id)
            self._known[app_id] = app.queue, app.user
        return self._known[app_id]

    def forget(self, app_id: str) -> None:
        """It is gone."""
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
    """The filter of the arguments. `since` is in nanoseconds since 1970."""

    args: argparse.Namespace
    since: float
    owners: Owners | None

    @staticmethod
    def of(stub: StateStub, args: argparse.Namespace) -> "EventFilter":
        """Makes the filter; asks the server about applications if it needs them."""
        since = 0.0 if args.since is None else (time.time() - args.since) * 1e9
        owners = Owners(stub, args) if args.queue or args.user else None
        return EventFilter(args=args, since=since, owners=owners)

    def takes(self, event: Event) -> bool:
        """True if the event is shown."""
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
        """True if it is of the wanted queue and user."""
        queue, user = owners.of(app) if app else ("", "")
        queue = queue_of(record) or queue
        if record.type == EventRecord.USERGROUP and not app:
            user = record.objectID
        if record.type == EventRecord.APP and record.eventChangeType == EventRecord.REMOVE:
            owners.forget(app)
        return (not self.args.queue or (bool(queue) and is_below(queue, self.args.queue))) and (
            self.args.user in ("", user)
        )
