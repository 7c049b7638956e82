"""The full-screen view of a server: queues, an opened queue, and the help.

Textual handles the terminal, the keys, the mouse, the scrolling and the layout. A thread takes snapshots.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, ClassVar

import grpc
from rich.text import Text
from textual import on, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.drivers.linux_driver import LinuxDriver
from textual.widgets import ContentSwitcher, DataTable, Footer, Input, Static

from licorne_cli.failures import INTERRUPTED, NotFoundError
from licorne_cli.output.text import printable
from licorne_cli.screen.pages import status_text
from licorne_cli.screen.pieces import legend
from licorne_cli.screen.tree import Opened, Snapshot
from licorne_cli.screen.view import View
from licorne_cli.screen.widgets import Head, Help, OpenedQueue, Queues, Typing

TICK_SECONDS = 1.0
"""Seconds between two updates of the title."""

HIGH_ENOUGH_FOR_A_LEGEND = 12
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

Look = Callable[[Opened | None], Snapshot]


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Functions that make the current title and status of a screen.

    `none` makes the message for no RM, given its consequence.
    """

    title: Callable[[], str]
    status: Callable[[Snapshot], str]
    none: Callable[[str], str]


async def watch(look: Look, words: Words, *, interval: float, seconds: float | None = None) -> None:
    """Show a server on the terminal until the viewer quits, or for `seconds`.

    `look` blocks, and is called in a thread, `interval` seconds after the last call has ended. If a call
    takes longer than `interval`, the pause is as long as the call, to spare a slow server.

    Raises:
        grpc.RpcError: the first look failed. Later failures are shown on the screen.
        NotFoundError: the first look found no such RM or partition.
        KeyboardInterrupt: the viewer has interrupted the screen.
        SystemExit: a signal has ended the screen.
    """
    first = await asyncio.to_thread(look, None)
    screen = TopApp(look, words, first, interval=interval, seconds=seconds, has_keys=sys.stdin.isatty())
    loop = asyncio.get_running_loop()
    for number in ENDING:
        loop.add_signal_handler(number, partial(screen.exit, return_code=128 + number))
    try:
        await screen.run_async()
    finally:
        for number in ENDING:
            loop.remove_signal_handler(number)
    if screen.return_code == INTERRUPTED:
        raise KeyboardInterrupt
    if screen.return_code:
        raise SystemExit(screen.return_code)


class _OnStdout(LinuxDriver):
    """Draws on stdout, in place of a table; Textual itself draws on stderr."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        assert sys.__stdout__ is not None, "a screen is shown on a terminal only"
        self._file = sys.__stdout__
        # The widgets of the library use characters that an older encoding lacks.
        sys.__stdout__.reconfigure(errors="replace")

    def run_input_thread(self) -> None:
        """Read keys. Without a terminal, the end of the input would be read again and again."""
        if os.isatty(self.fileno):
            super().run_input_thread()


class TopApp(App[None]):
    """The screen and all its parts."""

    ENABLE_COMMAND_PALETTE = False
    CSS_PATH = "app.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        # These keys have priority, to take effect before the next key, which may be meant for another part.
        Binding("slash", "filter", "filter", key_display="/", priority=True),
        Binding("enter", "keep_filter", "keeps it", key_display="enter", priority=True),
        Binding("ctrl+c", "interrupt", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", show=False, priority=True),
    ]

    def __init__(
        self,
        look: Look,
        words: Words,
        first: Snapshot,
        *,
        interval: float,
        seconds: float | None = None,
        has_keys: bool = True,
    ) -> None:
        """Begin with the `first` snapshot. Without a keyboard no keys are displayed."""
        super().__init__(driver_class=_OnStdout, ansi_color=True)
        self.hurry = asyncio.Event()
        self._look = look
        self._words = words
        self._interval = interval
        self._seconds = seconds
        self._has_keys = has_keys
        self._failure = ""
        self._last_answer = monotonic()
        self._view = View(first)
        # References to the parts, not queries: parts are mounted and removed while snapshots and keys arrive.
        self._head = Head()
        self._queues = Queues("queues", has_keys=has_keys)
        self._opened = OpenedQueue(has_keys=has_keys)
        self._help = Help()
        self._pages = ContentSwitcher(self._queues, self._opened, self._help, initial="queues")
        self._none = Static(id="none", markup=False)
        self._place = Static(id="place", markup=False)
        self._legend = Static(legend(), id="legend")
        self._typing = Typing()

    def compose(self) -> ComposeResult:
        """The parts of the screen, from top to bottom."""
        yield from (self._head, self._pages, self._none, self._place, self._legend, self._typing)
        yield Footer(compact=True) if self._has_keys else Static("Ctrl-C quits", id="keys")

    def on_mount(self) -> None:
        """Start taking snapshots."""
        self._queues.focus()
        self.go_on_looking()
        self.set_interval(TICK_SECONDS, self.show_head)
        if self._seconds is not None:
            self.set_timer(self._seconds, self.exit)

    def on_resize(self) -> None:
        """Choose columns for the new width."""
        self.call_after_refresh(self.show)

    @work
    async def go_on_looking(self) -> None:
        """Take snapshots until the program ends."""
        took = 0.0
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.hurry.wait(), max(self._interval, took))
            self.hurry.clear()
            start = monotonic()
            try:
                snapshot = await asyncio.to_thread(self._look, self._view.opened)
            except grpc.RpcError as error:
                self._failure = printable(error.details() or error.code().name)
            except NotFoundError as error:
                self._failure = str(error)
            else:
                self._failure = ""
                self._last_answer = monotonic()
                self.select()
                self._view.saw(snapshot)
            took = monotonic() - start
            self.show()

    def show(self) -> None:
        """Display the last snapshot."""
        self.show_head()
        self.show_queues()
        if self._view.opened is not None:
            self._opened.show(self._view, self._view.opened, self.size.width)

    def show_head(self) -> None:
        """Show the title and the time, the status or a failure, and the marks of partitions."""
        snapshot = self._view.snapshot
        status = "  ".join((self._words.status(snapshot), *status_text(self._view.wanted)))
        if self._failure:
            silence = monotonic() - self._last_answer
            status = f"no answer for {silence:.0f} s, trying again: {self._failure}"
        self._head.show(self._words.title(), status, snapshot, has_failed=bool(self._failure))

    def show_queues(self) -> None:
        """Show the table, or if it is empty, the reason."""
        view = self._view
        self._queues.show(view, self.size.width)
        none = self._words.none(", so there are no queues")
        if view.wanted.text:
            none = f"no queue has {view.wanted.text} in its path"
        self._none.update("" if view.nodes else none)
        self._none.display = not view.nodes
        is_table = self._pages.current == "queues"
        is_high = self.size.height >= HIGH_ENOUGH_FOR_A_LEGEND
        self._legend.display = is_table and is_high
        self._place.display = is_table and is_high and len(view.nodes) > self.size.height
        self.select()

    @on(DataTable.RowHighlighted, "#queues")
    def select(self) -> None:
        """Keep the cursor on its queue when rows above change, and pass its position on."""
        view = self._view
        view.select(self._queues.cursor_row)
        if view.current is not None:
            place = (
                f"{view.row + 1:,} of {len(view.nodes):,} queues, in {printable(view.current.cluster.name)}"
            )
            self._place.update(Text(place, "bold"))

    @on(DataTable.RowSelected, "#queues")
    def open(self) -> None:
        """Open the queue at the cursor."""
        self.select()
        self._view.open()
        self.hurry.set()
        self.action_turn_to("opened")

    @on(DataTable.RowHighlighted, "#applications")
    def choose(self) -> None:
        """Request why the application at the cursor waits."""
        if self._view.choose(self._opened.applications.cursor_row):
            self.hurry.set()
        self.show()

    def action_turn_to(self, page: str) -> None:
        """Show the page ``queues``, ``opened`` or ``help``."""
        self._pages.current = page
        parts = {"queues": self._queues, "opened": self._opened.applications, "help": self._help}
        parts[page].focus()
        self.show()

    def action_interrupt(self) -> None:
        """Quit as an interrupt does."""
        self.exit(return_code=INTERRUPTED)

    def action_leave(self) -> None:
        """Leave the help for the previous page, or leave the opened queue."""
        if self._pages.current == "opened":
            self._view.opened = None
        self.action_turn_to("queues" if self._view.opened is None else "opened")

    def action_change(self, what: str) -> None:
        """Change the choice of visible rows; see `View.changes`."""
        self.select()
        self._view.changes[what]()
        self.show()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Allow the keys of the filter only in their widgets, because a filter may contain a slash."""
        del parameters
        if action == "keep_filter":
            return isinstance(self.focused, Typing)
        return action != "filter" or isinstance(self.focused, Queues)

    def action_filter(self) -> None:
        """Start typing a filter."""
        self._typing.display = True
        self._typing.value = self._view.wanted.text
        self.screen.set_focus(self._typing)

    def action_keep_filter(self) -> None:
        """Stop typing, and keep the filter."""
        self._typing.display = False
        self.screen.set_focus(self._queues)

    def action_unfilter(self) -> None:
        """Clear the filter, so that all queues are shown."""
        self._typing.value = ""
        self.action_keep_filter()
        self._view.want(text="")
        self.show()

    @on(Input.Changed)
    def apply_filter(self, event: Input.Changed) -> None:
        """Apply the filter while it is typed."""
        if event.value == event.input.value != self._view.wanted.text:
            self._view.want(text=event.value)
            self._view.go_to_match()
            self.show()
