"""`licorne top`: the queues of all partitions as they change, until interrupted.

On a terminal a thread takes snapshots, and the screen is drawn when something has changed.
"""

import argparse
import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from time import perf_counter, sleep

import grpc

from licorne.v1.state_pb2 import Partition
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.connection.channel import (
    NO_RM,
    add_connection_arguments,
    no_rm,
    partitions_meant,
    with_channel,
)
from licorne_cli.failures import OK, NotFoundError
from licorne_cli.output.text import DATA_FORMS, is_terminal, print_data, printable, to_plain
from licorne_cli.parsing.parser import positive, seconds
from licorne_cli.screen.picture import Frame, Lines, picture, whole_table
from licorne_cli.screen.pieces import glyphs_for
from licorne_cli.screen.source import Source
from licorne_cli.screen.terminal import Terminal, console_on, size_of
from licorne_cli.screen.tree import Opened, Snapshot, totals
from licorne_cli.screen.view import View

TICK_SECONDS = 1.0
"""Maximum seconds between two updates of the screen."""

Look = Callable[[Opened | None], Snapshot]


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Functions that make the current title and status of a screen."""

    title: Callable[[], str]
    status: Callable[[Snapshot], str]
    none: str = NO_RM
    """The message for no RM."""


class Watch:
    """Shows a server on the terminal until the viewer quits, or time is over."""

    def __init__(self, look: Look, words: Words, *, interval: float, encoding: str) -> None:
        """`look` blocks, and is called in a thread, `interval` seconds after the last call has ended.

        If a call takes longer than that, the pause is as long as the call, to spare a slow server.
        """
        self._look = look
        self._words = words
        self._interval = interval
        self._glyphs = glyphs_for(encoding)
        self._view = View()
        self._news = asyncio.Event()
        self._hurry = asyncio.Event()
        self._failure = ""
        self._last_answer = 0.0
        self._drawn: tuple[object, ...] = ()

    async def run(self, seconds: float | None = None) -> None:
        """Run until the viewer quits, or for a number of seconds.

        Raises:
            grpc.RpcError: the first look failed. Later failures are shown on the screen.
            NotFoundError: the first look found no such RM or partition.
        """
        await self._first_look()
        with Terminal(self._heard, self._redraw) as terminal:
            looking = asyncio.create_task(self._go_on_looking())
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await self._draw_until_done(terminal)
            finally:
                looking.cancel()
                with suppress(asyncio.CancelledError):
                    await looking

    async def _first_look(self) -> None:
        self._view.saw(await asyncio.to_thread(self._look, None))
        self._last_answer = asyncio.get_running_loop().time()

    async def _go_on_looking(self) -> None:
        loop = asyncio.get_running_loop()
        took = 0.0
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), max(self._interval, took))
            self._hurry.clear()
            start = loop.time()
            try:
                snapshot = await asyncio.to_thread(self._look, self._view.opened)
            except grpc.RpcError as error:
                self._failure = printable(error.details() or error.code().name)
            except NotFoundError as error:
                self._failure = str(error)
            else:
                self._failure = ""
                self._last_answer = loop.time()
                self._view.saw(snapshot)
            took = loop.time() - start
            self._news.set()

    async def _draw_until_done(self, terminal: Terminal) -> None:
        while not self._view.is_done:
            self._draw(terminal)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), TICK_SECONDS)
            self._news.clear()

    def _draw(self, terminal: Terminal) -> None:
        """Draw the screen if it has changed."""
        size = terminal.size()
        lines = picture(self._view, self._frame(terminal), *size)
        drawn = (size, *((line.plain, tuple(line.spans), line.style) for line in lines))
        if drawn != self._drawn:
            self._drawn = drawn
            terminal.draw(lines, size)

    def _frame(self, terminal: Terminal) -> Frame:
        failure = ""
        silence = asyncio.get_running_loop().time() - self._last_answer
        if self._failure:
            failure = f"no answer for {silence:.0f} s, trying again: {self._failure}"
        return Frame(
            title=self._words.title(),
            status=self._words.status(self._view.snapshot),
            glyphs=self._glyphs,
            failure=failure,
            has_keys=terminal.has_keys,
            none=self._words.none,
        )

    def _heard(self, keys: Sequence[str]) -> None:
        """Apply keys at once; an opened queue also needs a look at the server."""
        before = self._view.opened
        for key in keys:
            self._view.press(key)
        if self._view.opened != before:
            self._hurry.set()
        self._news.set()

    def _redraw(self) -> None:
        self._drawn = ()
        self._news.set()


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
    """Look repeatedly; an interrupt is the normal end."""
    try:
        return with_channel(args, lambda channel: show(channel, args))
    except KeyboardInterrupt:
        return OK


def show(channel: grpc.Channel, args: argparse.Namespace) -> None:
    """Show a screen on a terminal; otherwise print a table, a line or an object for each look."""
    stub = StateStub(channel)
    source = Source(stub, args.timeout, lambda: partitions_looked_at(stub, args))
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


def partitions_looked_at(stub: StateStub, args: argparse.Namespace) -> Sequence[Partition]:
    """All partitions, those of an RM, or the named one: for a bare name the first match."""
    found = partitions_meant(stub, args)
    return found[:1] if args.partition else found


def repeat(args: argparse.Namespace, look: Callable[[], None]) -> None:
    """Look as often as given, or endlessly."""
    for number in count(1):
        look()
        if number == args.count:
            return
        sleep(args.interval)


def print_partitions(source: Source, output: str) -> None:
    """Print one look as data; in YAML as a document of a stream."""
    if output == "yaml":
        print("---")
    print_data({"partitions": [to_plain(one) for one in source.partitions()]}, output)
    sys.stdout.flush()


def print_table(snapshot: Snapshot, target: str) -> None:
    """Print one look as text of any length."""
    view = View()
    view.saw(snapshot)
    frame = Frame(title=title_of(target), status=totals(snapshot), glyphs=glyphs_for(sys.stdout.encoding))
    console = console_on(sys.stdout, pictured=True)
    console.width = size_of(sys.stdout)[0]
    for text in whole_table(view, frame, console.width):
        console.print(text, no_wrap=True, overflow="ellipsis")


def watch(channel: grpc.Channel, source: Source, args: argparse.Namespace) -> None:
    """Show the screen until the viewer quits."""

    async def until_quit() -> None:
        words = Words(title=lambda: title_of(args.target), status=totals, none=no_rm(args))
        watched = Watch(source.look, words, interval=args.interval, encoding=sys.stdout.encoding)
        try:
            await watched.run()
        finally:
            # Do not wait for a look that is under way.
            channel.close()

    asyncio.run(until_quit())


def title_of(target: str) -> str:
    """The title of the screen."""
    return f"licorne top {printable(target)}"
