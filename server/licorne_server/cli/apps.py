"""`licorne apps`: the applications of a partition, or one with its asks and allocations."""

import argparse
import time

import grpc

from licorne.v1.state_pb2 import (
    Allocation,
    Application,
    Ask,
    GetApplicationRequest,
    ListApplicationsRequest,
    TaskGroup,
)
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.cli import app_acts
from licorne_server.cli.acting import act_and_names, add_words, add_yes
from licorne_server.cli.connection import (
    add_connection_arguments,
    chosen_partition,
    pages,
    with_channel,
)
from licorne_server.cli.output import (
    NOTHING,
    human_resources,
    print_json,
    print_table,
    printable,
    say,
    shown_time,
    to_plain,
)

HEADERS = ("APPLICATION", "QUEUE", "USER", "STATE", "AGE", "ALLOCATED", "RUNNING", "PENDING")
GROUP_HEADERS = ("TASK GROUP", "PLACEHOLDERS", "REPLACED", "TIMED OUT", "LEFT", "SIZE")
ITEM_HEADERS = ("KEY", "STATE", "NODE", "PRIORITY", "AGE", "RESOURCES")
STATES = ("active", "completed", "rejected")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne apps`."""
    add_words(parser, "APP", app_acts.ACTS, "this one, with what it has")
    app_acts.add_arguments(parser)
    add_yes(parser)
    parser.add_argument("--queue", default="", metavar="PATH", help="only those of this queue")
    parser.add_argument("--state", choices=STATES, default="active", help="(%(default)s)")
    add_connection_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the applications, or act on some."""
    return with_channel(args, lambda channel: show_or_act(channel, args))


def show_or_act(channel: grpc.Channel, args: argparse.Namespace) -> None:
    """Ask and print, or act."""
    verb, names = act_and_names(args, app_acts.ACTS, "APP")
    if verb:
        app_acts.act(channel, args, verb, names)
    else:
        args.application = "".join(names)
        (show_one if names else show_all)(StateStub(channel), args)


def show_all(stub: StateStub, args: argparse.Namespace) -> None:
    """Ask page by page and print."""
    request = ListApplicationsRequest(
        partition=chosen_partition(stub, args), queue=args.queue, state=args.state
    )
    found = pages(stub.ListApplications, request, args.timeout)
    apps = [app for page in found for app in page.applications]
    if args.output == "json":
        print_json({"applications": [to_plain(app) for app in apps]})
    else:
        rejected = args.state == "rejected"
        headers = (*HEADERS, "REASON") if rejected else HEADERS
        print_table(headers, [row(app) + reason(app) * rejected for app in apps])


def show_one(stub: StateStub, args: argparse.Namespace) -> None:
    """One application, then a line for each of its allocations and asks, as far as they came."""
    request = GetApplicationRequest(
        partition=chosen_partition(stub, args), application_id=args.application
    )
    app = stub.GetApplication(request, timeout=args.timeout)
    if args.output == "json":
        print_json(to_plain(app))
    else:
        print_one(app)
    for what, shown, count in (
        ("allocations", len(app.allocations), app.allocation_count),
        ("asks", len(app.asks), app.pending_asks),
    ):
        if shown < count:
            say(f"the first {shown} of {count} {what}")


def print_one(app: Application) -> None:
    """The application, why it was rejected if so, and what it has."""
    print_table(HEADERS, [row(app)])
    if app.rejected_message:
        print(f"\n{printable(app.rejected_message)}")
    if app.backoff_deadline:
        print(f"\nbacks off until {shown_time(app.backoff_deadline)}: too many asks found no node")
    if app.task_groups:
        print()
        print_table(GROUP_HEADERS, [group_row(group) for group in app.task_groups])
    if app.placeholder_deadline:
        print(f"\nplaceholders time out at {shown_time(app.placeholder_deadline)}")
    items = [item_row(item, standing(item), item.node_id) for item in app.allocations]
    items += [item_row(item, *whereabouts(item)) for item in app.asks]
    if items:
        print()
        print_table(ITEM_HEADERS, items)


def standing(allocation: Allocation) -> str:
    """What an allocation is: one that runs, one that keeps room, or one that has to stop."""
    if allocation.stopping:
        return f"stopping ({allocation.stopping})"
    return "placeholder" if allocation.placeholder else "allocated"


def whereabouts(ask: Ask) -> tuple[str, str]:
    """What an ask waits for, and with which node if any."""
    if ask.assumed_node:
        return "assumed", ask.assumed_node
    if ask.replaces:
        return f"replaces {printable(ask.replaces)}", NOTHING
    if ask.reserved_node:
        return "reserved", ask.reserved_node
    return "pending", NOTHING


def age(nanoseconds: int) -> str:
    """How long ago, in the largest unit that makes sense: ``42s``, ``3h``; a dash for never."""
    if not nanoseconds:
        return NOTHING
    seconds = max(0, int(time.time() - nanoseconds / 1e9))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def row(app: Application) -> tuple[str, ...]:
    """One line of the table; RUNNING counts allocations, PENDING asks.

    Placeholders run nothing: they stand behind a plus.
    """
    held = app.placeholder_count
    return (
        printable(app.application_id),
        printable(app.queue) or NOTHING,
        printable(app.user) or NOTHING,
        app.state,
        age(app.submission_time),
        human_resources(app.allocated),
        f"{app.allocation_count - held}{f' +{held} placeholders' if held else ''}",
        str(app.pending_asks),
    )


def group_row(group: TaskGroup) -> tuple[str, ...]:
    """A task group; LEFT counts the placeholders that are still to be replaced."""
    left = group.count - group.replaced - group.timed_out
    return (
        printable(group.name),
        str(group.count),
        str(group.replaced),
        str(group.timed_out),
        str(left),
        human_resources(group.min_resource),
    )


def reason(app: Application) -> tuple[str, ...]:
    """Why it was rejected, for the end of a line."""
    return (printable(app.rejected_message) or NOTHING,)


def item_row(item: Ask | Allocation, state: str, node: str) -> tuple[str, ...]:
    """One ask or allocation."""
    return (
        printable(item.allocation_key),
        state,
        printable(node),
        str(item.priority),
        age(item.request_time),
        human_resources(item.resources),
    )
