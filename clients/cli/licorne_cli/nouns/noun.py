"""A noun of the command line: ``licorne nodes`` lists, ``licorne nodes drain n1`` acts.

Each noun is one `Noun`, with its list call, columns, filters and verbs. `run` prints all items or one item,
or executes a verb on named items.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import eq
from typing import Any, Generic, NamedTuple

import grpc
from google.protobuf.message import Message

from licorne.v1.admin_pb2_grpc import AdminStub
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.connection.channel import (
    DEFAULT_PARTITION,
    MOST_COMPARED,
    add_connection_arguments,
    check_queue,
    chosen_partition,
    no_rm,
    partitions_meant,
    queue_names,
    suggesting,
    with_channel,
)
from licorne_cli.failures import NotFoundError, UsageError
from licorne_cli.output.listing import Listing, T, add_listing_arguments, of_kind
from licorne_cli.output.printer import print_or_watch
from licorne_cli.output.text import DATA_FORMS, ask_consent, print_data, printable, say, to_plain
from licorne_cli.parsing.parser import Command, ForVerbs, add_yes, did_you_mean


class Scope(NamedTuple):
    """The RM and the partition in which a verb acts."""

    rm_id: str
    partition: str


def place_of(channel: grpc.Channel, args: argparse.Namespace) -> Scope:
    """The RM and the partition in the arguments; if there are several, one has to be named.

    Raises:
        NotFoundError: there is no such RM or partition.
        UsageError: there are several, and none was named.
    """
    if args.partition.startswith("["):
        # `settle` has already refused a contradicting RM.
        return Scope(args.partition[1:].partition("]")[0], args.partition)
    places = [Scope(one.rm_id, one.name) for one in partitions_meant(StateStub(channel), args)]
    if not places:
        raise NotFoundError(no_rm(args))
    rm_ids = list(dict.fromkeys(place.rm_id for place in places))
    if len(rm_ids) > 1:
        names = printable(", ".join(rm_ids))
        raise UsageError(f"there are several RMs, name one of them with --rm: {names}")
    usual = [one for one in places if args.partition or one.partition.endswith(f"]{DEFAULT_PARTITION}")]
    if not usual and len(places) > 1:
        names = printable(", ".join(place.partition for place in places))
        raise UsageError(f"there are several partitions, name one of them with --partition: {names}")
    return (usual or places)[0]


@dataclass(frozen=True, slots=True)
class Act:
    """The context of a verb: the server, the arguments, the RM and the partition."""

    channel: grpc.Channel
    args: argparse.Namespace
    place: Scope

    @property
    def admin(self) -> AdminStub:
        """The service that changes state."""
        return AdminStub(self.channel)

    @property
    def state(self) -> StateStub:
        """The service that reads state."""
        return StateStub(self.channel)

    @property
    def timeout(self) -> float:
        """Seconds for each answer."""
        return float(self.args.timeout)

    @property
    def about(self) -> dict[str, Any]:
        """Fields of a request: the RM, the partition, and the operator's message."""
        return {**self.place._asdict(), "message": self.args.message}


def _no_arguments(_: argparse.ArgumentParser) -> None:
    """Add no arguments, for a noun without filters or a verb without options."""


@dataclass(frozen=True, slots=True)
class Verb:
    """An operation on named items.

    `do` carries it out on one item, and returns the answer and a sentence for people. `plan` returns a line
    for each item in advance; a verb with a plan needs consent. `named` is the metavar of the names, by
    default the kind of items. `options` adds options.
    """

    text: str
    do: Callable[[Act, str], tuple[Message, str]]
    plan: Callable[[Act, Sequence[str]], list[str]] | None = None
    named: str = ""
    options: Callable[[argparse.ArgumentParser], None] = _no_arguments


def add_message(text: str) -> Callable[[argparse.ArgumentParser], None]:
    """Make the function that adds ``--message`` with this help."""

    def add(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--message", default="", metavar="TEXT", help=text)

    return add


def _every(_item: Any, _args: argparse.Namespace) -> bool:
    """True for every item of a noun without filters."""
    return True


@dataclass(frozen=True)  # a generic class cannot have slots
class Noun(Generic[T]):
    """A kind of items.

    `items` lists all items of a partition, or of the server if the noun is not `partitioned`. `about` is the
    help of the name; without it the list takes no name. `is_named` compares a given name with the name of an
    item. `filters` adds the options of the list; `wanted` is True for an item that passes them. A verb may be
    a separate `Command`, whose words are not names of items.
    """

    listing: Listing[T]
    items: Callable[[Any, argparse.Namespace, str], Iterable[T]]
    verbs: Mapping[str, Verb | Command] = field(default_factory=dict)
    about: str = ""
    is_named: Callable[[str, str], bool] = eq
    filters: Callable[[argparse.ArgumentParser], None] = _no_arguments
    wanted: Callable[[T, argparse.Namespace], bool] = _every
    partitioned: bool = True
    missing: Callable[[str, Sequence[T], argparse.Namespace, str], str] | None = None
    show: Callable[[Any, argparse.Namespace, str], None] | None = None
    """Prints the list, or the named item; None for the usual output."""
    meant: Callable[[Any, argparse.Namespace, str], Iterable[T]] | None = None
    """Lists the items that a verb may refer to; None if `items` does not need the list's filters."""
    service: Callable[[grpc.Channel], Any] = StateStub
    """The service that lists the items."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the verbs, and the name and the options of the list."""
        kind = self.listing.kind
        parser.set_defaults(verb="", name="")
        if self.verbs:
            verbs = parser.add_subparsers(action=ForVerbs, title="verbs", dest="verb", metavar="VERB")
            for name, verb in self.verbs.items():
                self._add_verb(verb, verbs.add_parser(name, help=verb.text, description=verb.text))
            parser.usage = f"%(prog)s [OPTION...] [{kind.upper()}]\n       %(prog)s VERB --help"
        if self.about:
            parser.add_argument(
                "name", nargs="?", default="", type=of_kind(kind), metavar=kind.upper(), help=self.about
            )
        self.filters(parser)
        add_listing_arguments(parser, self.listing)
        add_connection_arguments(parser, partition=self.partitioned, forms=())

    def _add_verb(self, verb: Verb | Command, parser: argparse.ArgumentParser) -> None:
        if isinstance(verb, Command):
            verb.add_to(parser)
            return
        named = verb.named or self.listing.kind.upper()
        parser.add_argument(
            "names", nargs="+", type=of_kind(named.lower()), metavar=named, help="one or more"
        )
        verb.options(parser)
        add_yes(parser, asks=verb.plan is not None)
        add_connection_arguments(
            parser,
            partition=self.partitioned,
            forms=("text", *DATA_FORMS),
            named="needed if there are several",
        )

    def run(self, args: argparse.Namespace) -> int:
        """List or act; returns the exit code."""
        verb = self.verbs[args.verb] if args.verb else None
        if isinstance(verb, Command):
            return verb.run(args)
        return with_channel(
            args, lambda channel: self._act(channel, args, verb) if verb else self._list(channel, args)
        )

    def _list(self, channel: grpc.Channel, args: argparse.Namespace) -> None:
        (self.show or self.print)(self.service(channel), args, args.name)

    def print(self, stub: Any, args: argparse.Namespace, name: str = "") -> None:
        """Print the items that pass the filters, or the items with the given name; with `-w` also changes."""
        partition = chosen_partition(stub, args) if self.partitioned else ""
        print_or_watch(self.listing, lambda: self.found(stub, args, partition, name), args)

    def found(self, stub: Any, args: argparse.Namespace, partition: str, name: str) -> Sequence[T]:
        """The items that pass the filters, or those with the given name.

        Raises:
            NotFoundError: there is no item with that name.
        """
        queue = getattr(args, "queue", "") if self.partitioned else ""
        with suggesting(queue, lambda: queue_names(stub, args)):
            everything = list(self.items(stub, args, partition))
        if queue and not everything:
            check_queue(stub, args)
        items = [item for item in everything if not name or self.is_named(self.listing.name_of(item), name)]
        if name and not items:
            raise NotFoundError(self.not_found(name, everything, args, partition))
        return [item for item in items if self.wanted(item, args)]

    def not_found(self, name: str, everything: Sequence[T], args: argparse.Namespace, partition: str) -> str:
        """The message for an unknown name."""
        if self.missing is not None:
            return self.missing(name, everything, args, partition)
        kind, where = self.listing.kind, printable(partition)
        meant = did_you_mean(name, map(self.listing.name_of, everything[:MOST_COMPARED]))
        return f"{kind} {printable(name)} not found in partition {where}{meant}"

    def _act(self, channel: grpc.Channel, args: argparse.Namespace, verb: Verb) -> None:
        """Print the plan, ask for consent if needed, and act on one item after the other.

        Raises:
            UsageError: a name is empty.
            NotFoundError: one of several names has no item; then nothing is done.
        """
        if not all(args.names):
            raise UsageError(f"a {self.listing.kind} has an empty name: nothing was done")
        place = place_of(channel, args) if self.partitioned else Scope("", "")
        if len(args.names) > 1 and verb.plan is None:
            self._check_names(channel, args, place.partition)
        act = Act(channel, args, place)
        if verb.plan is not None:
            for line in verb.plan(act, args.names):
                say(line)
            ask_consent("Do it?", "nothing was done", yes=args.yes)
        for name in args.names:
            with suggesting(name, lambda: self.names(self.service(channel), args, place.partition)):
                answer, text = verb.do(act, name)
            if args.output in DATA_FORMS:
                print_data(to_plain(answer), args.output)
            else:
                say(text)

    def _check_names(self, channel: grpc.Channel, args: argparse.Namespace, partition: str) -> None:
        """Look for all names before acting on the first one; a plan does so itself."""
        known = dict.fromkeys(self.names(self.service(channel), args, partition))
        for name in args.names:
            if name not in known:
                meant = did_you_mean(name, islice(known, MOST_COMPARED))
                raise NotFoundError(
                    f"{self.listing.kind} {printable(name)} not found{meant}: nothing was done"
                )

    def names(self, service: Any, args: argparse.Namespace, partition: str) -> Iterator[str]:
        """The names to which a verb may refer."""
        return map(self.listing.name_of, (self.meant or self.items)(service, args, partition))
