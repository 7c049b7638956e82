"""`licorne rms`: the RMs and how much they have; `licorne rms forget` removes one."""

import argparse
from collections.abc import Sequence

import grpc

from licorne.v1.admin_pb2 import ForgetRmRequest
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne.v1.state_pb2 import ListRmsRequest, ResourceManager
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.cli.connection import (
    UsageError,
    add_connection_arguments,
    pages,
    with_channel,
)
from licorne_server.cli.listing import Column, Listing, add_listing_arguments, itself, number
from licorne_server.cli.output import NOTHING, human_bytes, printable, say, shown_time
from licorne_server.cli.watch import print_or_watch

COUNTED = ("partitions", "queues", "nodes", "applications", "asks", "memory")
EXAMPLES = (
    ("licorne rms", "all of them, and how much each has"),
    ("licorne rms --sort-by asks --reverse", "those with most asks first"),
    ("licorne rms forget old-cluster", "remove one that will not come back"),
)
NEAR = 0.8
"""A cap is shown beside the count from this part of it on."""


def count_cell(rm: ResourceManager, name: str) -> str:
    """How much an RM has: ``70``, and ``85 of 100`` where the cap is near."""
    count, cap = getattr(rm.counts, name), getattr(rm.caps, name)
    shown = human_bytes if name == "memory" else str
    return f"{shown(count)} of {shown(cap)}" if count >= NEAR * cap else shown(count)


def counted(name: str) -> Column[ResourceManager]:
    """The column of something that is counted."""
    return Column(
        name.upper(),
        lambda rm: count_cell(rm, name),
        key=lambda rm: getattr(rm.counts, name),
    )


RMS = Listing[ResourceManager, ResourceManager](
    kind="rm",
    plural="rms",
    name=lambda rm: rm.rm_id,
    rows=itself,
    columns=(
        Column("RM", lambda rm: rm.rm_id, head=True),
        Column("STATE", lambda rm: "connected" if rm.connected else "gone", head=True),
        Column("SINCE", lambda rm: shown_time(rm.since), key=lambda rm: rm.since),
        Column("OVER", lambda rm: "session" if rm.over_session else "si.v1"),
        *map(counted, COUNTED),
        Column("VERSION", lambda rm: rm.version or NOTHING, wide=True),
        Column("POLICY GROUP", lambda rm: rm.policy_group or NOTHING, wide=True),
        number("SESSION", lambda rm: rm.session, wide=True),
    ),
)


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
    add_listing_arguments(parser, RMS)
    add_connection_arguments(parser, partition=False, forms=())


def run(args: argparse.Namespace) -> int:
    """Print the RMs in order of their ids, or forget one."""
    return with_channel(args, lambda channel: act(channel, args))


def act(channel: grpc.Channel, args: argparse.Namespace) -> None:
    """Ask and print, or forget.

    Raises:
        UsageError: the arguments do not fit together.
    """
    if args.action is None:
        if args.force:
            raise UsageError("--force is for: rms forget RM")
        show(StateStub(channel), args)
    elif not args.rm:
        raise UsageError("say which RM to forget: rms forget RM")
    else:
        request = ForgetRmRequest(rm_id=args.rm, force=args.force)
        AdminStub(channel).ForgetRm(request, timeout=args.timeout)
        say(f"RM {printable(args.rm)} is forgotten")


def show(stub: StateStub, args: argparse.Namespace) -> None:
    """Ask and print."""
    print_or_watch(RMS, lambda: found_rms(stub, args), args)


def found_rms(stub: StateStub, args: argparse.Namespace) -> Sequence[ResourceManager]:
    """All of them, page by page."""
    found = pages(stub.ListRms, ListRmsRequest(), args.timeout)
    return [rm for page in found for rm in page.rms]
