"""A screen that goes on: looks at the server in a thread, and draws when something has changed."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import grpc

from licorne_cli.connection.failures import NotFoundError
from licorne_cli.connection.missing import NO_RM
from licorne_cli.output.text import printable
from licorne_cli.screen.glyphs import glyphs_for
from licorne_cli.screen.picture import Frame, picture
from licorne_cli.screen.snapshot import Opened, Snapshot
from licorne_cli.screen.terminal import Terminal
from licorne_cli.screen.view import View

TICK_SECONDS = 1.0
"""Whatever happens, the screen is true to so many seconds."""

Look = Callable[[Opened | None], Snapshot]


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The title and the status of a screen, at any moment."""

    title: Callable[[], str]
    status: Callable[[Snapshot], str]
    none: str = NO_RM
    """The sentence for no RM."""


class Watch:
    """Shows a server on the terminal until the viewer has seen enough, or time is over."""

    def __init__(self, look: Look, words: Words, *, interval: float, encoding: str) -> None:
        """`look` blocks, and is called in a thread, `interval` seconds after it was done.

        If a look takes longer than that, the pause is as long as the look: a server that is slow
        is not asked more.
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
        """Until it is quit, or for so many seconds.

        Raises:
            grpc.RpcError: the first look failed. If later ones do, the screen says so.
            NotFoundError: so did that, as what it looks for is not there.
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
        """Write a screen, unless it is the one that is there."""
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
        """Keys change what is shown at once; for an opened queue something has to be asked."""
        before = self._view.opened
        for key in keys:
            self._view.press(key)
        if self._view.opened != before:
            self._hurry.set()
        self._news.set()

    def _redraw(self) -> None:
        self._drawn = ()
        self._news.set()
