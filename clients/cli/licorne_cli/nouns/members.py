"""`licorne members`: the servers that share the RMs of a deployment; `drain` and `undrain` them."""

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from licorne.v1.admin_pb2 import (
    DrainMemberRequest,
    DrainMemberResponse,
    ListMembersRequest,
    ListMembersResponse,
    Member,
    MemberRm,
)
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_cli.connection.channel import not_there
from licorne_cli.failures import NotFoundError, UsageError
from licorne_cli.nouns.noun import Act, Noun, Verb, add_message
from licorne_cli.output.listing import Column, Listing
from licorne_cli.output.marks import age
from licorne_cli.output.printer import print_or_watch
from licorne_cli.output.text import counted, printable, say, to_plain

EXAMPLES = (
    ("licorne members", "all of them, with the RMs and the load of each"),
    ("licorne members --rms", "which RM is where, and under which epoch"),
    ("licorne members --endpoints --no-headers", "the address that each RM should dial"),
    ("licorne members drain host-2:7070 --message 'new kernel'", "have one give its RMs to the others"),
    ("licorne members undrain host-2:7070", "let it have some again"),
)


MEMBERS = Listing[Member](
    kind="member",
    plural="members",
    name="name",
    columns=(
        Column("MEMBER", "name", head=True),
        Column("STATE", "state", head=True),
        Column("FOR", "since", age, key=lambda begin: -begin),
        Column("ADDRESS", "address"),
        Column("RMS", lambda member: len(member.rms)),
        Column("LOAD", "load", "{:.2f}".format),
        Column("VERSION", "version"),
        Column("DRAINED BY", "drained_by", optional=True),
        Column("WHY", "drained_why", optional=True),
        Column("ID", "id", wide=True),
        Column("HTTP", "http", wide=True),
    ),
)


class Owned(NamedTuple):
    """An RM, and the member that serves it; None if no member does."""

    rm: MemberRm
    member: Member | None

    @property
    def rm_id(self) -> str:
        """The id of the RM."""
        return self.rm.rm_id

    @property
    def name(self) -> str:
        """The name of the member."""
        return self.member.name if self.member else ""

    @property
    def endpoint(self) -> str:
        """The address of the member."""
        return self.member.address if self.member else ""


def plain_rm(owned: Owned) -> dict[str, object]:
    """An RM with its member as data."""
    return {**to_plain(owned.rm), "member": owned.name, "endpoint": owned.endpoint}


RMS = Listing[Owned](
    kind="rm",
    plural="rms",
    name="rm_id",
    plain=plain_rm,
    columns=(
        Column("RM", "rm_id", head=True),
        Column("MEMBER", "name", head=True),
        Column("EPOCH", "rm.epoch"),
        Column("LOAD", "rm.load", "{:.2f}".format),
        Column("MOVED", "rm.moved", age),
        Column("ENDPOINT", "endpoint", wide=True),
    ),
)
ENDPOINTS = Listing[Owned](
    kind="rm",
    plural="endpoints",
    name="rm_id",
    plain=lambda owned: {"rmId": owned.rm_id, "endpoint": owned.endpoint},
    columns=(Column("RM", "rm_id", head=True), Column("ENDPOINT", "endpoint", head=True)),
)


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose the list."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--rms", action="store_true", help="list the RMs, with member and epoch of each")
    which.add_argument("--endpoints", action="store_true", help="list the RMs, with the owner's address")


def asked(stub: AdminStub, args: argparse.Namespace) -> ListMembersResponse:
    """All members; a line on stderr warns if they may be outdated."""
    answer: ListMembersResponse = stub.ListMembers(ListMembersRequest(), timeout=args.timeout)
    if answer.problem:
        say(f"this may be out of date: {printable(answer.problem)}")
    return answer


def owned_rms(stub: AdminStub, args: argparse.Namespace, name: str) -> Iterator[Owned]:
    """The RMs of a member, or all RMs, including those without a member."""
    answer = asked(stub, args)
    members = [member for member in answer.members if name in ("", member.name, member.id)]
    if name and not members:
        raise NotFoundError(missing(name, list(answer.members), args))
    for member in members:
        yield from (Owned(rm, member) for rm in member.rms)
    if not name:
        yield from (Owned(rm, None) for rm in answer.unowned)


def show(stub: AdminStub, args: argparse.Namespace, name: str) -> None:
    """Print the members, or their RMs."""
    if not (args.rms or args.endpoints):
        NOUN.print(stub, args, name)
        return
    if args.sort_by is not None:
        raise UsageError("--sort-by is for the list of members: RMs are in order of their members")

    def found() -> list[Owned]:
        return [one for one in owned_rms(stub, args, name) if args.rms or one.endpoint]

    print_or_watch(RMS if args.rms else ENDPOINTS, found, args)


def missing(name: str, members: Sequence[Member], _args: argparse.Namespace, _partition: str = "") -> str:
    """The message for an unknown member."""
    return not_there("member", name, (member.name for member in members), "there is no member")


def plan_drain(act: Act, names: Sequence[str]) -> list[str]:
    """A line for each member that will be drained.

    Raises:
        NotFoundError: there is no member with one of the names or ids.
    """
    members = list(asked(act.admin, act.args).members)
    lines = []
    for name in names:
        found = next((one for one in members if name in (one.name, one.id)), None)
        if found is None:
            raise NotFoundError(missing(name, members, act.args))
        others = sum(one.state == "active" for one in members if one is not found)
        lines.append(
            f"member {printable(found.name)} is to give {counted(len(found.rms), 'RM')} "
            f"to {counted(others, 'other active member')}, and to take none"
        )
    return lines


def drain(act: Act, name: str, *, drained: bool) -> tuple[DrainMemberResponse, str]:
    """Drain a member, or end the drain."""
    request = DrainMemberRequest(member=name, drain=drained, message=act.args.message)
    answer = act.admin.DrainMember(request, timeout=act.timeout)
    already = "" if answer.changed else " already"
    state = f"is to be drained{already}" if drained else f"is not to be drained{already and ' anyway'}"
    return answer, f"member {printable(answer.name)} {state}: {counted(answer.rms, 'RM')} there now"


NOUN = Noun(
    listing=MEMBERS,
    about="only this member",
    service=AdminStub,
    items=lambda stub, args, _: asked(stub, args).members,
    missing=missing,
    filters=add_filters,
    partitioned=False,
    show=show,
    verbs={
        "drain": Verb(
            "have members give their RMs to others and take none",
            partial(drain, drained=True),
            plan_drain,
            options=add_message("why, shown beside the member"),
        ),
        "undrain": Verb("take that back", partial(drain, drained=False), options=add_message("why")),
    },
)
add_arguments, run = NOUN.add_arguments, NOUN.run
