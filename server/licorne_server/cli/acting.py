"""What the commands that act on a running server have in common: names, consent, messages."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import grpc
from google.protobuf.message import Message

from licorne.v1.state_pb2 import ListPartitionsRequest
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.cli.connection import NotFoundError, UsageError, chosen_partition
from licorne_server.cli.listing import of_kind
from licorne_server.cli.output import DATA_FORMS, print_data, printable, say, to_plain

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
        UsageError: there is an act without a name, or there are several names and no act.
    """
    words: list[str] = args.words
    named = of_kind(metavar.lower())
    if not words or words[0] not in acts:
        if len(words) > 1:
            raise UsageError(f"unknown act {printable(words[0])}: one of {', '.join(acts)}")
        return "", [named(word) for word in words]
    if len(words) == 1:
        raise UsageError(f"say which: {args.command} {words[0]} {metavar}")
    return words[0], [named(word) for word in words[1:]]


def place_of(channel: grpc.Channel, args: argparse.Namespace) -> Place:
    """The RM and the partition that are meant; a bare name is that of the RM that came first.

    Raises:
        NotFoundError: there is no such partition.
    """
    stub = StateStub(channel)
    name = chosen_partition(stub, args)
    if not name.startswith("["):
        known = stub.ListPartitions(ListPartitionsRequest(), timeout=args.timeout).partitions
        found = [one.name for one in known if one.name.rpartition("]")[2] == name]
        if not found:
            raise NotFoundError(f"partition {printable(name)} not found")
        name = found[0]
    return Place(name[1:].partition("]")[0], name)


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
