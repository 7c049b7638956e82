"""`licorne rms`: the RMs and their counts; `licorne rms forget` removes an RM."""

import argparse
from collections.abc import Sequence
from functools import partial
from operator import attrgetter, neg

import grpc

from licorne.v1.admin_pb2 import ForgetRmRequest, ForgetRmResponse, ListConfigurationsRequest
from licorne.v1.state_pb2 import ResourceManager
from licorne_cli.connection.channel import MAY_BE_UNKNOWN, all_rms, no_rm, not_there
from licorne_cli.failures import NotFoundError
from licorne_cli.nouns.noun import Act, Noun, Verb, add_message
from licorne_cli.output.listing import Column, Listing, either
from licorne_cli.output.marks import age
from licorne_cli.output.text import counted, human_bytes, printable, shown_time

COUNTED = ("partitions", "queues", "nodes", "applications", "asks", "memory")
EXAMPLES = (
    ("licorne rms", "all of them, and how much each has"),
    ("licorne rms --sort-by asks --reverse", "those with most asks first"),
    ("licorne rms forget old-cluster --yes", "remove one that will not come back"),
)
NEAR = 0.8
"""Fraction of a cap from which the cap is shown next to the count."""


def count_cell(rm: ResourceManager, name: str) -> str:
    """A count of an RM: ``70``, or near the cap ``85 of 100``."""
    count, cap = getattr(rm.counts, name), getattr(rm.caps, name)
    shown = human_bytes if name == "memory" else str
    return f"{shown(count)} of {shown(cap)}" if count >= NEAR * cap else shown(count)


RMS = Listing[ResourceManager](
    kind="rm",
    plural="rms",
    name="rm_id",
    none=no_rm,
    columns=(
        Column("RM", "rm_id", head=True),
        Column("STATE", "connected", either("connected", "gone"), head=True),
        Column("SINCE", "since", shown_time),
        Column("FOR", "since", age, key=neg),
        Column("OVER", "over_session", either("session", "si.v1")),
        *(
            Column(name.upper(), "", partial(count_cell, name=name), key=attrgetter(f"counts.{name}"))
            for name in COUNTED
        ),
        Column("VERSION", "version", wide=True),
        Column("POLICY GROUP", "policy_group", wide=True),
        Column("SESSION", "session", wide=True),
    ),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The option of `forget`."""
    parser.add_argument(
        "--force",
        action="store_true",
        help="forget it even if allocations of it run; they are counted no more",
    )
    add_message("why, for the audit log")(parser)


def missing(name: str, rms: Sequence[ResourceManager], args: argparse.Namespace, _partition: str = "") -> str:
    """The message for an unknown RM."""
    return not_there("RM", name, (rm.rm_id for rm in rms), no_rm(args))


def plan_forget(act: Act, names: Sequence[str]) -> list[str]:
    """A line for each RM that will be forgotten.

    Raises:
        NotFoundError: an RM is not registered and has no revisions.
    """
    rms = {rm.rm_id: rm for rm in all_rms(act.state, act.timeout)}
    lines = []
    for name in names:
        if name in rms:
            lines.append(planned(rms[name]))
        elif count := stored_revisions(act, name):
            revisions = counted(count, "revision")
            lines.append(
                f"RM {printable(name)}, which is not registered, is to be forgotten: "
                f"{revisions} of its configuration"
            )
        else:
            raise NotFoundError(missing(name, list(rms.values()), act.args))
    return lines


def stored_revisions(act: Act, name: str) -> int:
    """The number of stored revisions of an RM that is not registered."""
    try:
        request = ListConfigurationsRequest(rm_id=name)
        return len(act.admin.ListConfigurations(request, timeout=act.timeout).revisions)
    except grpc.RpcError as error:
        if error.code() in MAY_BE_UNKNOWN:
            return 0
        raise


def planned(rm: ResourceManager) -> str:
    """The line for an RM that will be forgotten."""
    state = "connected" if rm.connected else "gone"
    return (
        f"RM {printable(rm.rm_id)}, {state} for {age(rm.since)}, is to be forgotten: "
        f"{counted(rm.counts.partitions, 'partition')}, {counted(rm.counts.nodes, 'node')}, "
        f"{counted(rm.counts.applications, 'application')}, "
        f"{rm.counts.asks:,} asks and allocations"
    )


def forget(act: Act, name: str) -> tuple[ForgetRmResponse, str]:
    """Remove an RM with its state."""
    request = ForgetRmRequest(rm_id=name, force=act.args.force, message=act.args.message)
    answer = act.admin.ForgetRm(request, timeout=act.timeout)
    return answer, f"RM {printable(name)} forgotten"


NOUN = Noun(
    listing=RMS,
    about="only this RM",
    items=lambda stub, args, _: all_rms(stub, args.timeout),
    missing=missing,
    partitioned=False,
    verbs={
        "forget": Verb(
            "remove RMs that are gone, with all they had and their configurations",
            forget,
            plan_forget,
            options=add_options,
        ),
    },
)
add_arguments, run = NOUN.add_arguments, NOUN.run
