"""`licorne rms`: the RMs and how much they have; `licorne rms forget` removes one."""

import argparse
from collections.abc import Sequence

import grpc

from licorne.v1.admin_pb2 import ForgetRmRequest, ListConfigurationsRequest
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne.v1.state_pb2 import ListRmsRequest, ResourceManager
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.cli.connection.channel import (
    NotFoundError,
    UsageError,
    add_connection_arguments,
    pages,
    with_channel,
)
from licorne_server.cli.connection.missing import MAY_MEAN_IT, no_rm, not_there
from licorne_server.cli.nouns.apps import age
from licorne_server.cli.nouns.verbs import (
    act_and_names,
    add_words,
    add_yes,
    check_consent,
    counted,
    tell,
)
from licorne_server.cli.output.listing import Column, Listing, add_listing_arguments, itself, number
from licorne_server.cli.output.text import NOTHING, human_bytes, printable, shown_time
from licorne_server.cli.output.watch import print_or_watch

COUNTED = ("partitions", "queues", "nodes", "applications", "asks", "memory")
EXAMPLES = (
    ("licorne rms", "all of them, and how much each has"),
    ("licorne rms --sort-by asks --reverse", "those with most asks first"),
    ("licorne rms forget old-cluster --yes", "remove one that will not come back"),
)
ACTS = {"forget": "remove RMs that are gone, with all they had and their configurations"}
NEAR = 0.8
"""A cap is shown beside the count from this part of it on."""


def count_cell(rm: ResourceManager, name: str) -> str:
    """How much an RM has: ``70``, and ``85 of 100`` where the cap is near."""
    count, cap = getattr(rm.counts, name), getattr(rm.caps, name)
    shown = human_bytes if name == "memory" else str
    return f"{shown(count)} of {shown(cap)}" if count >= NEAR * cap else shown(count)


def counting(name: str) -> Column[ResourceManager]:
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
    none=no_rm,
    columns=(
        Column("RM", lambda rm: rm.rm_id, head=True),
        Column("STATE", lambda rm: "connected" if rm.connected else "gone", head=True),
        Column("SINCE", lambda rm: shown_time(rm.since), key=lambda rm: rm.since),
        Column("FOR", lambda rm: age(rm.since), key=lambda rm: -rm.since),
        Column("OVER", lambda rm: "session" if rm.over_session else "si.v1"),
        *map(counting, COUNTED),
        Column("VERSION", lambda rm: rm.version or NOTHING, wide=True),
        Column("POLICY GROUP", lambda rm: rm.policy_group or NOTHING, wide=True),
        number("SESSION", lambda rm: rm.session, wide=True),
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne rms`."""
    add = parser.add_argument
    add_words(parser, "rm", ACTS, "only this RM")
    add(
        "--force",
        action="store_true",
        help="forget it even if allocations of it run; they are counted no more",
    )
    add_yes(parser)
    add_listing_arguments(parser, RMS)
    add_connection_arguments(parser, partition=False, forms=())


def run(args: argparse.Namespace) -> int:
    """Print the RMs in order of their ids, or forget some."""
    return with_channel(args, lambda channel: act(channel, args))


def act(channel: grpc.Channel, args: argparse.Namespace) -> None:
    """Ask and print, or forget.

    Raises:
        UsageError: the arguments do not fit together.
    """
    verb, names = act_and_names(args, ACTS, "RM")
    if not verb:
        if args.force or args.yes:
            raise UsageError(f"--{'force' if args.force else 'yes'} is for: rms forget RM")
        show(StateStub(channel), args, names)
        return
    check_consent(plan(channel, args, names), yes=args.yes)
    for name in names:
        request = ForgetRmRequest(rm_id=name, force=args.force)
        answer = AdminStub(channel).ForgetRm(request, timeout=args.timeout)
        tell(args, answer, f"RM {printable(name)} forgotten")


def plan(channel: grpc.Channel, args: argparse.Namespace, names: Sequence[str]) -> list[str]:
    """What would be forgotten with these RMs, a sentence each.

    Raises:
        NotFoundError: nothing is known of one of them.
    """
    rms = registered(StateStub(channel), args)
    lines = []
    for name in names:
        if name in rms:
            lines.append(planned(rms[name]))
        elif count := remembered(AdminStub(channel), args, name):
            revisions = counted(count, "revision")
            lines.append(
                f"RM {printable(name)}, which is not registered, is to be forgotten: "
                f"{revisions} of its configuration"
            )
        else:
            raise NotFoundError(not_there("RM", name, rms, no_rm(args)))
    return lines


def remembered(stub: AdminStub, args: argparse.Namespace, name: str) -> int:
    """How many revisions the server keeps for an RM that is not registered."""
    try:
        request = ListConfigurationsRequest(rm_id=name)
        return len(stub.ListConfigurations(request, timeout=args.timeout).revisions)
    except grpc.RpcError as error:
        if error.code() in MAY_MEAN_IT:
            return 0
        raise


def registered(stub: StateStub, args: argparse.Namespace) -> dict[str, ResourceManager]:
    """All RMs by their ids."""
    found = pages(stub.ListRms, ListRmsRequest(), args.timeout)
    return {rm.rm_id: rm for page in found for rm in page.rms}


def wanted(
    stub: StateStub, args: argparse.Namespace, names: Sequence[str]
) -> list[ResourceManager]:
    """The RMs of these names; all for no name.

    Raises:
        NotFoundError: one of them is not registered.
    """
    rms = registered(stub, args)
    for name in names:
        if name not in rms:
            raise NotFoundError(not_there("RM", name, rms, no_rm(args)))
    return [rms[name] for name in names or rms]


def planned(rm: ResourceManager) -> str:
    """What would be forgotten with an RM."""
    state = "connected" if rm.connected else "gone"
    return (
        f"RM {printable(rm.rm_id)}, {state} for {age(rm.since)}, is to be forgotten: "
        f"{counted(rm.counts.partitions, 'partition')}, {counted(rm.counts.nodes, 'node')}, "
        f"{counted(rm.counts.applications, 'application')}, "
        f"{rm.counts.asks} asks and allocations"
    )


def show(stub: StateStub, args: argparse.Namespace, names: Sequence[str]) -> None:
    """Ask and print."""
    print_or_watch(RMS, lambda: wanted(stub, args, names), args)
