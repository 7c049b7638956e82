"""`licorne apps`: the applications of a partition, or one application with its asks; `kill` ends some.

Filters are queue, user, group, state, and the reason for waiting.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from operator import neg

import grpc

from licorne.v1.state_pb2 import (
    Allocation,
    Application,
    Ask,
    ExplainRequest,
    GetApplicationRequest,
    ListApplicationsRequest,
    TaskGroup,
)
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.config.plan import PLAN_APPLICATION
from licorne_cli.connection.channel import chosen_partition, rows, suggesting
from licorne_cli.failures import UsageError
from licorne_cli.nouns.app_acts import VERBS, active_apps, active_names
from licorne_cli.nouns.noun import Noun
from licorne_cli.output.listing import Column, Listing
from licorne_cli.output.marks import age, marked, told
from licorne_cli.output.printer import Printer
from licorne_cli.output.text import (
    DATA_FORMS,
    NOTHING,
    counted,
    human_resources,
    human_text,
    print_data,
    print_sentence,
    print_table,
    printable,
    say,
    shown_time,
    to_plain,
)

LISTS = ("active", "completed", "rejected")
"""Lists that the server has. The second one includes failed applications."""
ALL = "all"
OF_LIST = {
    "new": "active",
    "accepted": "active",
    "running": "active",
    "resuming": "active",
    "completing": "active",
    "failing": "active",
    "failed": "completed",
    "expired": "completed",
}
"""For each single state that can be named, the list with its applications."""


def add_filter_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the filters of applications."""
    group = parser.add_argument_group("which")
    add = group.add_argument
    add("--queue", default="", metavar="QUEUE", help="only those of this queue")
    add("--user", default="", metavar="USER", help="only those of this user")
    add("--group", default="", metavar="GROUP", help="only those of users in this group")
    add(
        "--state",
        type=str.lower,
        choices=(*LISTS, ALL, *OF_LIST),
        default=LISTS[0],
        help="only those in this state (%(default)s: all that are not over)",
    )
    add(
        "--reason",
        default="",
        metavar="TEXT",
        help="only those that wait, or were rejected, for a reason with this text in it: a code "
        "such as NO_NODE_FITS, or words",
    )


def lists_of(state: str) -> Sequence[str]:
    """The server's lists with applications in a state."""
    return LISTS if state == ALL else (OF_LIST.get(state, state),)


def listed_apps(stub: StateStub, args: argparse.Namespace, partition: str) -> Iterator[Application]:
    """The applications of the lists of the given state, in the given queue."""
    queue = args.queue.removeprefix("queue/")
    for state in lists_of(args.state):
        request = ListApplicationsRequest(partition=partition, queue=queue, state=state, reason=args.reason)
        yield from rows(stub.ListApplications, request, "applications", args.timeout)


def is_wanted(app: Application, args: argparse.Namespace) -> bool:
    """True for an application with the given state, user and group."""
    return (
        (args.state not in OF_LIST or app.state.lower() == args.state)
        and args.user.removeprefix("user/") in ("", app.user)
        and (not args.group or args.group.removeprefix("group/") in app.groups)
    )


GROUP_HEADERS = ("TASK GROUP", "PLACEHOLDERS", "REPLACED", "TIMED OUT", "LEFT", "SIZE")
LOGGED = 5
"""Maximum number of past states of an application that are shown."""
ITEM_HEADERS = ("KEY", "STATE", "NODE", "PRIORITY", "AGE", "RESOURCES")
EXAMPLES = (
    ("licorne apps", "all that are active"),
    ("licorne apps oversized", "one, with its asks and allocations"),
    ("licorne apps --queue root.batch --user ann --state running", "some of them"),
    ("licorne apps --reason QUEUE_MAX_EXCEEDED", "those that wait because a queue is full"),
    ("licorne apps --state rejected --reason limit", "why others never came in"),
    ("licorne apps -w", "and continue with changes"),
    ("licorne apps kill a1 --yes", "have it end, with all that it runs"),
    ('licorne apps hold a1 --message "data is late"', "place none of its asks until `apps resume a1`"),
    ("licorne apps set a1 --priority 10", "whatever the priorities of its asks are"),
    ("licorne apps set a1 --queue root.batch", "move it while it waits"),
)


def reason(app: Application) -> str:
    """The reason why the application waits or was rejected; a dash if reasons were not requested."""
    return human_text(app.reason or app.rejected_message) or NOTHING


def running(app: Application) -> str:
    """The number of allocations, with the number of placeholders after a plus."""
    held = app.placeholder_count
    return f"{app.allocation_count - held}{f' +{held} placeholders' if held else ''}"


def members(app: Application) -> str:
    """The size of an elastic gang, and its minimum and maximum; a dash for other applications."""
    if not app.HasField("elastic"):
        return NOTHING
    size = app.elastic
    return f"{size.size} of {size.min}–{size.max}" if size.max else f"{size.size} of {size.min} or more"


def set_priority(app: Application) -> str:
    """The priority that an operator has set; a dash if there is none."""
    return str(app.operator_priority) if app.HasField("operator_priority") else NOTHING


APPS = Listing[Application](
    kind="app",
    plural="applications",
    name="application_id",
    columns=(
        Column("APPLICATION", "application_id", head=True),
        Column("QUEUE", "queue", head=True),
        Column("USER", "user", head=True),
        Column("STATE", "state", head=True),
        Column("AGE", "submission_time", age, key=neg),
        Column("ALLOCATED", "allocated", human_resources),
        Column("RUNNING", "", running, key=lambda app: app.allocation_count - app.placeholder_count),
        Column("MEMBERS", "", members, key=lambda app: app.elastic.size, optional=True),
        Column("PENDING", "pending_asks"),
        Column("REASON", "", reason, key=reason, optional=True),
        Column("HELD", "hold", marked, optional=True),
        Column("WANTED", "pending", human_resources, wide=True),
        Column("SET PRIORITY", "", set_priority, wide=True),
        Column("AGE BONUS", "age_bonus", wide=True),
        Column("GROUPS", "groups", lambda groups: ",".join(groups) or NOTHING, wide=True),
        Column("RESERVATIONS", "reservations", wide=True),
        Column("FINISHED", "finished_time", age, key=neg, wide=True),
        Column("PARTITION", "partition", wide=True),
    ),
)


def show(stub: StateStub, args: argparse.Namespace, name: str) -> None:
    """Print one application with its asks and allocations, or the list."""
    if name:
        show_one(stub, args, name)
    else:
        NOUN.print(stub, args)


def first_check(stub: StateStub, args: argparse.Namespace, app: Application) -> str:
    """The check that blocks the first ask of an application, with its operands; empty if there is none."""
    if app.rejected_message or not app.pending_asks:
        return app.rejected_message
    request = ExplainRequest(partition=app.partition, application_id=app.application_id)
    try:
        answer = stub.Explain(request, timeout=args.timeout)
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.NOT_FOUND:
            return ""  # the application has ended, or has no pending ask
        raise
    return next((f"{c.code}: {c.message}" for c in answer.checks if not c.passed), "")


def show_one(stub: StateStub, args: argparse.Namespace, name: str) -> None:
    """Print an application, and a line for each allocation and ask that the server has sent.

    Raises:
        UsageError: `--watch` was given.
    """
    if args.watch:
        raise UsageError("-w is for the list of applications: apps -w")
    partition = chosen_partition(stub, args)
    request = GetApplicationRequest(partition=partition, application_id=name)
    with suggesting(name, lambda: active_names(stub, args.timeout, partition)):
        app = stub.GetApplication(request, timeout=args.timeout)
    if args.output == "name":
        print(f"{APPS.kind}/{printable(app.application_id)}")
    elif args.output in DATA_FORMS:
        print_data(to_plain(app), args.output)
    else:
        print_one(app, args.output)
        print_end(app, first_check(stub, args, app))
    for what, shown, count in (
        ("allocations", len(app.allocations), app.allocation_count),
        ("asks", len(app.asks), app.pending_asks),
    ):
        if shown < count:
            say(f"the first {shown:,} of {count:,} {what}")


def print_one(app: Application, output: str = "table") -> None:
    """Print an application, the reason of its rejection, and its resources."""
    Printer(APPS, output).print([app])
    if app.HasField("hold"):
        print(f"\nheld {told(app.hold)}")
    if app.HasField("change"):
        given = set_priority(app) if app.HasField("operator_priority") else "its asks' own"
        print(f"\npriority or queue changed {told(app.change)}; priority: {given}")
    if app.backoff_deadline:
        print(f"\nbacks off until {shown_time(app.backoff_deadline)}: too many asks found no node")
    if app.HasField("elastic"):
        print(f"\n{elastic_text(app)}")
    if app.task_groups:
        print()
        print_table(GROUP_HEADERS, [group_row(group) for group in app.task_groups])
    if app.placeholder_deadline:
        print(f"\nplaceholders time out at {shown_time(app.placeholder_deadline)}")
    items = [item_row(item, allocation_state(item), item.node_id) for item in app.allocations]
    asks = [item_row(item, *ask_state(item)) for item in app.asks]
    items += asks if output == "wide" else folded(asks)
    if items:
        print()
        print_table(ITEM_HEADERS, items)


def elastic_text(app: Application) -> str:
    """The terms of an elastic gang, and the number of its members that are being stopped."""
    size = app.elastic
    most = str(size.max) if size.max else "any number"
    text = f"elastic gang: starts with {counted(size.min, 'member')}, grows by {size.step} up to {most}"
    return f"{text}; {size.leaving} of its {size.size} are being stopped" if size.leaving else text


def folded(found: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The rows of asks; rows that differ only in their keys are joined."""
    keys: dict[tuple[str, ...], list[str]] = {}
    for key, *others in found:
        keys.setdefault(tuple(others), []).append(key)
    return [
        (f"{first} and {len(more):,} more" if more else first, *others)
        for others, (first, *more) in keys.items()
    ]


def print_end(app: Application, why: str) -> None:
    """Print why the first ask waits, and the last states of the application."""
    if app.pending_asks and why:
        print()
        print_sentence(f"waits: {human_text(why)} (licorne explain {printable(app.application_id)})")
    if app.state_log:
        print()
        log = app.state_log[-LOGGED:]
        print_table(("SINCE", "STATE"), [(shown_time(one.time), one.state) for one in log])


def allocation_state(allocation: Allocation) -> str:
    """The state of an allocation: running, placeholder, or preempting."""
    if allocation.stopping:
        return f"stopping ({allocation.stopping})"
    return "placeholder" if allocation.placeholder else "allocated"


def ask_state(ask: Ask) -> tuple[str, str]:
    """The state of an ask, and its node if it has one."""
    if ask.assumed_node:
        return "assumed", ask.assumed_node
    if ask.replaces:
        return f"replaces {ask.replaces}", NOTHING
    if ask.reserved_node:
        return "reserved", ask.reserved_node
    return "pending", NOTHING


def group_row(group: TaskGroup) -> tuple[str, ...]:
    """The cells of a task group; LEFT is the number of placeholders that are not replaced yet."""
    left = group.count - group.replaced - group.timed_out
    return (
        group.name,
        str(group.count),
        str(group.replaced),
        str(group.timed_out),
        str(left),
        human_resources(group.min_resource),
    )


def item_row(item: Ask | Allocation, state: str, node: str) -> tuple[str, ...]:
    """The cells of an ask or an allocation."""
    return (
        item.allocation_key,
        state,
        node or NOTHING,
        str(item.priority),
        age(item.request_time),
        human_resources(item.resources),
    )


NOUN = Noun(
    listing=APPS,
    about="this one, with what it has",
    items=listed_apps,
    filters=add_filter_arguments,
    wanted=is_wanted,
    show=show,
    meant=lambda stub, args, partition: active_apps(stub, args.timeout, partition),
    verbs={
        "plan": PLAN_APPLICATION,
        **VERBS,
    },
)
add_arguments, run = NOUN.add_arguments, NOUN.run
