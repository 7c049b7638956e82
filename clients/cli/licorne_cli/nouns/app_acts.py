"""Acts of an operator on applications: end, hold, resume, change of priority, move to another queue."""

import argparse
from collections.abc import Iterator, Sequence
from functools import partial

from licorne.v1.admin_pb2 import (
    ChangeApplicationRequest,
    ChangeApplicationResponse,
    HoldApplicationRequest,
    HoldApplicationResponse,
    StopApplicationRequest,
    StopApplicationResponse,
)
from licorne.v1.state_pb2 import Application, GetApplicationRequest, ListApplicationsRequest
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.connection.channel import rows, suggesting
from licorne_cli.failures import UsageError
from licorne_cli.nouns.noun import Act, Verb, add_message
from licorne_cli.output.text import counted, printable

INT32 = range(-(2**31), 2**31)


def set_held(act: Act, name: str, *, held: bool) -> tuple[HoldApplicationResponse, str]:
    """Hold an application, or resume it."""
    request = HoldApplicationRequest(**act.about, application_id=name, held=held)
    answer = act.admin.HoldApplication(request, timeout=act.timeout)
    if held:
        done = "held" if answer.changed else "is held already"
    else:
        done = "resumed" if answer.changed else "is not held"
    waits = f"{counted(answer.asks, 'ask')} wait{'s' if answer.asks == 1 else ''}"
    goes_on = f"{counted(answer.allocations, 'allocation')} go{'es' if answer.allocations == 1 else ''} on"
    return answer, f"application {printable(name)} {done}: {waits}, {goes_on}"


def priority(text: str) -> int:
    """Parse a priority.

    Raises:
        argparse.ArgumentTypeError: the text is not a whole number of 32 bits.
    """
    try:
        value = int(text)
    except ValueError:
        value = INT32.stop
    if value not in INT32:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no whole number from {INT32.start} to {INT32.stop - 1}"
        )
    return value


def add_changes(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``apps set``."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--priority", type=priority, metavar="N", help="of all its asks, those to come too")
    group.add_argument("--reset-priority", action="store_true", help="give each ask its own priority again")
    parser.add_argument(
        "--queue", default="", metavar="QUEUE", help="the leaf to move it to, if it has no allocations"
    )
    add_message("why, for people")(parser)


def change(act: Act, name: str) -> tuple[ChangeApplicationResponse, str]:
    """Change the priority or the queue of an application.

    Raises:
        UsageError: neither option is given.
    """
    args = act.args
    if args.priority is None and not args.reset_priority and not args.queue:
        raise UsageError("apps set needs --priority, --reset-priority or --queue")
    request = ChangeApplicationRequest(
        **act.about,
        application_id=name,
        priority=args.priority,
        reset_priority=args.reset_priority,
        queue=args.queue.removeprefix("queue/"),
    )
    answer = act.admin.ChangeApplication(request, timeout=act.timeout)
    given = answer.operator_priority if answer.HasField("operator_priority") else "its asks' own"
    is_so = "is now" if answer.changed else "is already"
    where = f"in queue {printable(answer.queue)}, priority: {given}"
    return answer, f"application {printable(name)} {is_so} {where}"


def plan_kill(act: Act, names: Sequence[str]) -> list[str]:
    """A line for each application that will be killed."""
    partition, found = act.place.partition, []
    for name in names:
        request = GetApplicationRequest(partition=partition, application_id=name, limit=1)
        with suggesting(name, lambda: active_names(act.state, act.timeout, partition)):
            found.append(planned(act.state.GetApplication(request, timeout=act.timeout)))
    return found


def active_apps(stub: StateStub, timeout: float, partition: str) -> Iterator[Application]:
    """The applications of a partition that have not ended."""
    request = ListApplicationsRequest(partition=partition)
    return rows(stub.ListApplications, request, "applications", timeout)


def active_names(stub: StateStub, timeout: float, partition: str) -> Iterator[str]:
    """Names of the active applications."""
    return (app.application_id for app in active_apps(stub, timeout, partition))


def planned(app: Application) -> str:
    """The line for an application that will be killed."""
    return (
        f"application {printable(app.application_id)} in queue {printable(app.queue)} is to be "
        f"killed: {counted(app.allocation_count, 'allocation')}, {counted(app.pending_asks, 'ask')}"
    )


def kill(act: Act, name: str) -> tuple[StopApplicationResponse, str]:
    """Ask the server to end an application."""
    request = StopApplicationRequest(
        rm_id=act.place.rm_id,
        partition=act.place.partition,
        application_id=name,
        reason=act.args.message,
    )
    answer = act.admin.StopApplication(request, timeout=act.timeout)
    are = "is" if answer.allocations == 1 else "are"
    return answer, (
        f"application {printable(name)} killed: {counted(answer.allocations, 'allocation')} "
        f"{are} being stopped, {counted(answer.asks, 'ask')} dropped"
    )


VERBS = {
    "kill": Verb(
        "end applications; their RM is asked to stop what runs",
        kill,
        plan_kill,
        options=add_message("why, told to the RM"),
    ),
    "hold": Verb(
        "place no ask of applications until they are resumed; allocations continue",
        partial(set_held, held=True),
        options=add_message("why, shown wherever it is seen"),
    ),
    "resume": Verb(
        "end their hold", partial(set_held, held=False), options=add_message("why, told to the RM")
    ),
    "set": Verb(
        "give applications another priority, or a waiting one another queue", change, options=add_changes
    ),
}
