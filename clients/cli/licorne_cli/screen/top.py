"""`licorne top`: the queues of all partitions as they change, until interrupted."""

import argparse
import asyncio
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from time import perf_counter, sleep

import grpc
from rich.console import Console
from rich.text import Text

from licorne.v1.state_pb2 import Partition
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.connection.channel import add_connection_arguments, no_rm, partitions_meant, with_channel
from licorne_cli.failures import OK
from licorne_cli.output.text import (
    DATA_FORMS,
    is_terminal,
    print_data,
    printable,
    shown_clock,
    terminal_width,
    to_plain,
)
from licorne_cli.parsing.parser import positive, seconds
from licorne_cli.screen.lines import Lines
from licorne_cli.screen.pieces import all_marks, legend
from licorne_cli.screen.source import Source
from licorne_cli.screen.table import Table, queue_rows
from licorne_cli.screen.tree import Snapshot, Wanted, rows, totals, trees

EXAMPLES = (
    ("licorne top", "until interrupted"),
    ("licorne top --rm batch --interval 5", "of one RM, and less often"),
    ("licorne top --once -o json", "one look, for scripts"),
)
DEFAULT_INTERVAL = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `licorne top`."""
    parser.add_argument(
        "--interval",
        type=seconds(0.0),
        default=DEFAULT_INTERVAL,
        metavar="SECONDS",
        help="between two looks (%(default)s)",
    )
    looks = parser.add_mutually_exclusive_group()
    looks.add_argument("--count", type=positive, metavar="N", help="print so many looks, then end")
    looks.add_argument("--once", dest="count", action="store_const", const=1, help="print one look, then end")
    add_connection_arguments(parser, everywhere=True)


def run(args: argparse.Namespace) -> int:
    """Show snapshots repeatedly; an interrupt is the regular end."""
    try:
        return with_channel(args, lambda channel: show(channel, args))
    except KeyboardInterrupt:
        return OK


def show(channel: grpc.Channel, args: argparse.Namespace) -> None:
    """Show a screen on a terminal; otherwise print a table, a line or an object for each snapshot."""
    stub = StateStub(channel)
    source = Source(stub, args.timeout, lambda: partitions_looked_at(stub, args))
    if args.output in DATA_FORMS:
        repeat(args, lambda: print_partitions(source, args.output))
    elif not is_terminal(sys.stdout):
        lines, start = Lines(), perf_counter()

        def print_line() -> None:
            snapshot = source.look()
            lines.show(snapshot, perf_counter() - start, totals(snapshot))

        repeat(args, print_line)
    elif args.count:
        repeat(args, lambda: print_table(source.look(), args.target))
    else:
        watch(channel, source, args)


def partitions_looked_at(stub: StateStub, args: argparse.Namespace) -> Sequence[Partition]:
    """All partitions, those of an RM, or the named one; a bare name means the first match."""
    found = partitions_meant(stub, args)
    return found[:1] if args.partition else found


def repeat(args: argparse.Namespace, look: Callable[[], None]) -> None:
    """Call `look` as often as the arguments say, or endlessly."""
    for number in count(1):
        look()
        if number == args.count:
            return
        sleep(args.interval)


def print_partitions(source: Source, output: str) -> None:
    """Print a snapshot as data; in YAML each is a document of a stream."""
    if output == "yaml":
        print("---")
    print_data({"partitions": [to_plain(one) for one in source.partitions()]}, output)
    sys.stdout.flush()


def print_table(snapshot: Snapshot, target: str) -> None:
    """Print a snapshot as text of any length."""
    width = terminal_width()
    found = rows(trees(snapshot), Wanted())
    shown = queue_rows(found, "", frozenset())
    console = Console(width=width, highlight=False, markup=False)
    console.print(Text(f"{title_of(target)}  {shown_clock(snapshot.time)}", "bold"))
    console.print(totals(snapshot))
    for mark in all_marks(snapshot.clusters):
        console.print(Text(mark, "bold red"))
    console.print(Table.of_queues(shown, width).printed(shown))
    console.print(legend())


def watch(channel: grpc.Channel, source: Source, args: argparse.Namespace) -> None:
    """Show the screen until the viewer quits."""
    # The library of the screen is imported only here, because that takes half a second.
    from licorne_cli.screen.app import Words, watch

    async def until_quit() -> None:
        words = Words(title=lambda: title_of(args.target), status=totals, none=partial(no_rm, args))
        try:
            await watch(source.look, words, interval=args.interval)
        finally:
            # Do not wait for a running read.
            channel.close()

    asyncio.run(until_quit())


def title_of(target: str) -> str:
    """The title of the screen."""
    return f"licorne top {printable(target)}"
