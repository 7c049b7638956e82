"""`licorne rms`: the RMs and how much they have; `licorne rms forget` removes one."""

import argparse

import grpc

from licorne.v1.admin_pb2 import ForgetRmRequest
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne.v1.state_pb2 import ListRmsRequest, ResourceManager
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.cli.acting import add_yes, check_consent, counted
from licorne_server.cli.apps import age
from licorne_server.cli.connection import (
    NotFoundError,
    UsageError,
    add_connection_arguments,
    pages,
    with_channel,
)
from licorne_server.cli.output import (
    human_bytes,
    print_json,
    print_table,
    printable,
    say,
    shown_time,
    to_plain,
)

COUNTED = ("partitions", "queues", "nodes", "applications", "asks", "memory")
HEADERS = ("RM", "STATE", "SINCE", "FOR", "OVER", *(name.upper() for name in COUNTED))
NEAR = 0.8
"""A cap is shown beside the count from this part of it on."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne rms`."""
    add = parser.add_argument
    add(
        "action", nargs="?", choices=("forget",), metavar="forget", help="remove an RM that is gone"
    )
    add("rm", nargs="?", default="", metavar="RM", help="the id of the RM to forget")
    add(
        "--force",
        action="store_true",
        help="forget it even if allocations of it run; they are counted no more",
    )
    add_yes(parser)
    add_connection_arguments(parser, partition=False)


def run(args: argparse.Namespace) -> int:
    """Print the RMs in order of their ids, or forget one."""
    return with_channel(args, lambda channel: act(channel, args))


def act(channel: grpc.Channel, args: argparse.Namespace) -> None:
    """Ask and print, or forget.

    Raises:
        UsageError: the arguments do not fit together.
    """
    if args.action is None:
        if args.force or args.yes:
            raise UsageError(f"--{'force' if args.force else 'yes'} is for: rms forget RM")
        show(StateStub(channel), args)
    elif not args.rm:
        raise UsageError("say which RM to forget: rms forget RM")
    else:
        check_consent([planned(StateStub(channel), args)], yes=args.yes)
        request = ForgetRmRequest(rm_id=args.rm, force=args.force)
        AdminStub(channel).ForgetRm(request, timeout=args.timeout)
        say(f"RM {printable(args.rm)} forgotten")


def planned(stub: StateStub, args: argparse.Namespace) -> str:
    """What would be forgotten with an RM.

    Raises:
        NotFoundError: it is not registered.
    """
    found = pages(stub.ListRms, ListRmsRequest(), args.timeout)
    rm = next((rm for page in found for rm in page.rms if rm.rm_id == args.rm), None)
    name = printable(args.rm)
    if rm is None:
        raise NotFoundError(f"RM {name} is not registered")
    state = "connected" if rm.connected else "gone"
    return (
        f"RM {name}, {state} for {age(rm.since)}, is to be forgotten: "
        f"{counted(rm.counts.partitions, 'partition')}, {counted(rm.counts.nodes, 'node')}, "
        f"{counted(rm.counts.applications, 'application')}, "
        f"{rm.counts.asks} asks and allocations"
    )


def show(stub: StateStub, args: argparse.Namespace) -> None:
    """Ask and print."""
    found = pages(stub.ListRms, ListRmsRequest(), args.timeout)
    rms = [rm for page in found for rm in page.rms]
    if args.output == "json":
        print_json({"rms": [to_plain(rm) for rm in rms]})
    else:
        print_table(HEADERS, [row(rm) for rm in rms])


def row(rm: ResourceManager) -> tuple[str, ...]:
    """One line of the table."""
    return (
        printable(rm.rm_id),
        "connected" if rm.connected else "gone",
        shown_time(rm.since),
        age(rm.since),
        "session" if rm.over_session else "si.v1",
        *(count_cell(rm, name) for name in COUNTED),
    )


def count_cell(rm: ResourceManager, name: str) -> str:
    """How much an RM has: ``70``, and ``85 of 100`` where the cap is near."""
    count, cap = getattr(rm.counts, name), getattr(rm.caps, name)
    shown = human_bytes if name == "memory" else str
    return f"{shown(count)} of {shown(cap)}" if count >= NEAR * cap else shown(count)
