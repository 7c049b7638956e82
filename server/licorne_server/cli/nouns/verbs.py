"""What the commands that act on a running server have in common: names, consent, messages."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import grpc
from google.protobuf.message import Message

from licorne.v1.state_pb2 import ListPartitionsRequest
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.cli.connection.channel import DEFAULT_PARTITION, NotFoundError, UsageError
from licorne_server.cli.connection.missing import missing_rm, no_rm, not_there
from licorne_server.cli.output.listing import of_kind
from licorne_server.cli.output.text import DATA_FORMS, print_data, printable, say, to_plain

OF_LISTS: Mapping[str, object] = {
    "sort_by": None,
    "reverse": False,
    "no_headers": False,
    "watch": False,
    "output_watch_events": False,
}
"""What all lists take and no act does, with what it is if it was not given."""

OF_ACTS = ("yes", "message")
"""What acts take and no list does."""

ACT_FORMS = ("table", "json", "yaml")

AGREED = ("y", "yes")


class Place(NamedTuple):
    """Where somebody acts."""

    rm_id: str
    partition: str


def add_words(
    parser: argparse.ArgumentParser, kind: str, acts: Mapping[str, str], about: str
) -> None:
    """One name of a kind to show, or an act and names: ``NODE``, or ``drain NODE...``."""
    verbs = "|".join(acts)
    shown = "; ".join(f"{verb}: {text}" for verb, text in acts.items())
    parser.add_argument(
        "words",
        nargs="*",
        metavar=f"[{verbs}] {kind.upper()}",
        help=f"{about}; {shown}",
    )


def add_yes(parser: argparse.ArgumentParser) -> None:
    """For acts that are not easily undone."""
    parser.add_argument("--yes", action="store_true", help="do it without being asked")


def act_and_names(
    args: argparse.Namespace, acts: Mapping[str, str], metavar: str
) -> tuple[str, list[str]]:
    """The act, empty for none, and the names, each as such or as `-o name` prints it.

    Raises:
        UsageError: there is an act without a name, or there are several names and no act, or no act
            for what only acts take.
    """
    words: list[str] = args.words
    named = of_kind(metavar.lower())
    if not words or words[0] not in acts:
        if len(words) > 1:
            raise UsageError(f"unknown act {printable(words[0])}: one of {', '.join(acts)}")
        for name in OF_ACTS:
            if getattr(args, name, False):
                raise UsageError(f"--{name} goes with an act: {', '.join(acts)}")
        return "", [named(word) for word in words]
    if len(words) == 1:
        raise UsageError(f"say which: {args.command} {words[0]} {metavar}")
    return words[0], [named(word) for word in words[1:]]


def check_options(args: argparse.Namespace, verb: str, filters: Mapping[str, object]) -> None:
    """Refuse what chooses or lays out a list: an act goes by names alone.

    `filters` has what such an argument is if it was not given.

    Raises:
        UsageError: one was given, by its name.
    """
    unused = {**filters, **OF_LISTS}
    given = [name for name, usual in unused.items() if getattr(args, name) != usual]
    for name in given:
        option = f"--{name.replace('_', '-')}"
        raise UsageError(
            f"{option} is for lists: {args.command} {verb} acts on what is named. Nothing was done"
        )
    if args.output not in ACT_FORMS:
        raise UsageError(
            f"-o {args.output} is for lists: {args.command} {verb} knows -o json and yaml"
        )


def place_of(channel: grpc.Channel, args: argparse.Namespace) -> Place:
    """The RM and the partition that are meant; nobody acts on one of several by chance.

    Raises:
        NotFoundError: there is no such RM or partition.
        UsageError: there are several, and none was named.
    """
    if args.partition.startswith("["):
        # Another RM beside it was refused when the arguments were settled.
        return Place(args.partition[1:].partition("]")[0], args.partition)
    stub = StateStub(channel)
    request = ListPartitionsRequest(rm_id=args.rm_id)
    known = stub.ListPartitions(request, timeout=args.timeout).partitions
    places = [Place(one.name[1:].partition("]")[0], one.name) for one in known]
    if not places:
        raise NotFoundError(missing_rm(stub, args) or no_rm(args))
    wanted = args.partition or DEFAULT_PARTITION
    found = [one for one in places if one.partition.rpartition("]")[2] == wanted]
    if args.partition and not found:
        known_names = [one.partition for one in places]
        raise NotFoundError(not_there("partition", wanted, known_names, no_rm(args)))
    return _only(found if args.partition else places, found)


def _only(meant: Sequence[Place], usual: Sequence[Place]) -> Place:
    """The only place that is meant: of one RM the `usual` one goes before its others.

    Raises:
        UsageError: there are several.
    """
    rm_ids = list(dict.fromkeys(place.rm_id for place in meant))
    if len(rm_ids) > 1:
        names = printable(", ".join(rm_ids))
        raise UsageError(f"there are several RMs, name one of them with --rm: {names}")
    if usual:
        return usual[0]
    if len(meant) > 1:
        names = printable(", ".join(place.partition for place in meant))
        raise UsageError(
            f"there are several partitions, name one of them with --partition: {names}"
        )
    return meant[0]


def check_consent(plan: Sequence[str], *, yes: bool) -> None:
    """Say what is about to be done, and ask on a terminal unless that was agreed to already.

    Raises:
        UsageError: nobody has agreed to it.
    """
    for line in plan:
        say(line)
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("nothing was done: say --yes to do it")
    print("Do it? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in AGREED:
        raise UsageError("nothing was done")


def tell(args: argparse.Namespace, answer: Message, text: str) -> None:
    """What came of it: a sentence, or the answer as data."""
    if args.output in DATA_FORMS:
        print_data(to_plain(answer), args.output)
    else:
        say(text)


def counted(number: int, what: str) -> str:
    """``1 ask``, ``2 asks``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
