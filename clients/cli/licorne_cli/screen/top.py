"""`licorne top`: the queues of all partitions as they change, until interrupted."""

import argparse
import asyncio
import sys
from collections.abc import Callable
from itertools import count
from time import perf_counter, sleep

import grpc

from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.connection.channel import OK, add_connection_arguments, with_channel
from licorne_cli.connection.missing import no_rm
from licorne_cli.output.text import DATA_FORMS, is_terminal, print_data, printable, to_plain
from licorne_cli.parsing.arguments import positive, seconds
from licorne_cli.screen.glyphs import glyphs_for
from licorne_cli.screen.picture import Frame, Lines, whole_table
from licorne_cli.screen.snapshot import Snapshot, totals
from licorne_cli.screen.source import Source
from licorne_cli.screen.terminal import console_on, size_of
from licorne_cli.screen.view import View
from licorne_cli.screen.watch import Watch, Words

EXAMPLES = (
    ("licorne top", "until interrupted"),
    ("licorne top --rm batch --interval 5", "of one RM, and less often"),
    ("licorne top --once -o json", "one look, for scripts"),
)
DEFAULT_INTERVAL = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne top`."""
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
    """Look again and again; an interrupt is the end that is expected."""
    try:
        return with_channel(args, lambda channel: show(channel, args))
    except KeyboardInterrupt:
        return OK


def show(channel: grpc.Channel, args: argparse.Namespace) -> None:
    """A screen on a terminal; otherwise for each look a table, a line or an object."""
    source = Source(
        StateStub(channel),
        args.timeout,
        partition=args.partition,
        rm_id=args.rm_id,
        none=no_rm(args),
    )
    if args.output in DATA_FORMS:
        repeat(args, lambda: print_partitions(source, args.output))
    elif not is_terminal(sys.stdout):
        lines, start = Lines(console_on(sys.stdout, pictured=False)), perf_counter()

        def print_line() -> None:
            snapshot = source.look()
            lines.show(snapshot, perf_counter() - start, totals(snapshot))

        repeat(args, print_line)
    elif args.count:
        repeat(args, lambda: print_table(source.look(), args.target))
    else:
        watch(channel, source, args)


def repeat(args: argparse.Namespace, look: Callable[[], None]) -> None:
    """Look as often as is wanted, without a number for ever."""
    for number in count(1):
        look()
        if number == args.count:
            return
        sleep(args.interval)


def print_partitions(source: Source, output: str) -> None:
    """One look as data; looks in YAML are documents of one stream."""
    if output == "yaml":
        print("---")
    print_data({"partitions": [to_plain(one) for one in source.partitions()]}, output)
    sys.stdout.flush()


def print_table(snapshot: Snapshot, target: str) -> None:
    """One look on the ordinary screen, however long it is."""
    view = View()
    view.saw(snapshot)
    frame = Frame(title=title_of(target), status=totals(snapshot), glyphs=glyphs_for(sys.stdout.encoding))
    console = console_on(sys.stdout, pictured=True)
    console.width = size_of(sys.stdout)[0]
    for text in whole_table(view, frame, console.width):
        console.print(text, no_wrap=True, overflow="ellipsis")


def watch(channel: grpc.Channel, source: Source, args: argparse.Namespace) -> None:
    """The screen, until it is quit."""

    async def until_quit() -> None:
        words = Words(title=lambda: title_of(args.target), status=totals, none=no_rm(args))
        watched = Watch(source.look, words, interval=args.interval, encoding=sys.stdout.encoding)
        try:
            await watched.run()
        finally:
            # A look that is under way must not keep anybody waiting.
            channel.close()

    asyncio.run(until_quit())


def title_of(target: str) -> str:
    """The title of the screen."""
    return f"licorne top {printable(target)}"
