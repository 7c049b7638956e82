"""The terminal in full-screen mode, restored at the end whatever happens; keys parsed from its bytes."""

import asyncio
import codecs
import os
import signal
import sys
import termios
import tty
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TextIO

from rich.console import Console, ConsoleDimensions, Group, ScreenContext
from rich.control import Control
from rich.text import Text

ESCAPE = "\x1b"
LONGEST_SEQUENCE = 16
"""Limit of characters. A longer sequence is no key, and is dropped."""

CONTROLS = {"\r": "enter", "\n": "enter", "\x7f": "backspace", "\b": "backspace", "\t": "tab"}
FINALS = {"A": "up", "B": "down", "C": "right", "D": "left", "H": "home", "F": "end"}
TILDES = {
    "1": "home",
    "4": "end",
    "5": "page-up",
    "6": "page-down",
    "7": "home",
    "8": "end",
}


class Keys:
    """Parses bytes, in pieces of any size, into keys.

    A key is its character, or a name: ``up``, ``enter``, ``escape``. Sequences without a name are
    ignored.
    """

    def __init__(self) -> None:
        """Begin with no key pressed."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        self._held = ""

    def feed(self, data: bytes) -> list[str]:
        """The keys that are complete with these bytes."""
        keys = []
        for character in self._decoder.decode(data):
            if self._held:
                keys.extend(self._continued(character))
            elif character == ESCAPE:
                self._held = ESCAPE
            else:
                keys.extend(_plain(character))
        return keys

    @property
    def is_open(self) -> bool:
        """True while it is open whether an escape is a key or begins a sequence."""
        return bool(self._held)

    def settle(self) -> list[str]:
        """End an incomplete sequence after its timeout: the escape key, or nothing."""
        held, self._held = self._held, ""
        return ["escape"] if held == ESCAPE else []

    def _continued(self, character: str) -> list[str]:
        """Take the next character of a sequence, which ends with a letter or a tilde."""
        if self._held == ESCAPE:
            if character in "[O":
                self._held += character
                return []
            if character == ESCAPE:
                return ["escape"]
            self._held = ""
            return ["escape", *_plain(character)]
        self._held += character
        if "\x40" <= character <= "\x7e":
            sequence, self._held = self._held[2:], ""
            key = TILDES.get(sequence[:-1]) if character == "~" else FINALS.get(sequence)
            return [key] if key else []
        if len(self._held) > LONGEST_SEQUENCE:
            self._held = ""
        return []


def _plain(character: str) -> list[str]:
    if character in CONTROLS:
        return [CONTROLS[character]]
    return [character] if character.isprintable() else []


USUAL_SIZE = (80, 24)
READ_BYTES = 1024
ESCAPE_SECONDS = 0.05
"""Timeout in seconds of a sequence, whose characters follow the escape at once."""

ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class _Console(Console):
    """A console that leaves a closed pipe to the command."""

    def on_broken_pipe(self) -> None:
        """Do not exit, as rich would."""
        raise BrokenPipeError


def console_on(stream: TextIO, *, pictured: bool) -> Console:
    """A console with control codes, or without. It honours NO_COLOR."""
    return _Console(file=stream, force_terminal=pictured, highlight=False, markup=False)


def size_of(stream: TextIO) -> tuple[int, int]:
    """The current columns and lines of a terminal."""
    try:
        columns, lines = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return USUAL_SIZE
    return columns or USUAL_SIZE[0], lines or USUAL_SIZE[1]


class Terminal:
    """The alternate screen of stdout, and the keys of stdin if that is a terminal too.

    Use it as a context manager in the main task of a loop. A signal that ends the process ends that
    task with SystemExit; an interrupt is a KeyboardInterrupt. A stop from the keyboard restores the
    terminal until the process continues.
    """

    def __init__(self, heard: Callable[[Sequence[str]], None], changed: Callable[[], None]) -> None:
        """`heard` is called with keys. `changed` is called when the whole screen must be redrawn."""
        self._heard = heard
        self._changed = changed
        self._console = console_on(sys.stdout, pictured=True)
        self._screen: ScreenContext | None = None
        self._input = _input()
        self._mode: list[Any] | None = None
        self._keys = Keys()
        self._settling: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[object] | None = None
        self._signal: int | None = None

    @property
    def has_keys(self) -> bool:
        """True if there is a keyboard."""
        return self._input is not None

    def __enter__(self) -> Self:
        """Enter full-screen mode."""
        self._task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        try:
            for number in ENDING:
                loop.add_signal_handler(number, self._end, number)
            loop.add_signal_handler(signal.SIGWINCH, self._changed)
            loop.add_signal_handler(signal.SIGTSTP, self._suspend)
            self._take()
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Restore the terminal.

        Raises:
            SystemExit: a signal has ended the block.
        """
        self._release()
        if self._signal is not None and isinstance(error, asyncio.CancelledError):
            raise SystemExit(128 + self._signal) from None

    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        return size_of(sys.stdout)

    def draw(self, lines: Sequence[Text], size: tuple[int, int]) -> None:
        """Draw lines that fill a screen of this size."""
        if self._screen is not None:
            self._console.size = ConsoleDimensions(*size)
            # One write, so that no half of it is visible.
            with self._console:
                self._console.control(Control.home())
                self._screen.update(Group(*lines))

    def _take(self) -> None:
        if self._input is not None:
            self._mode = termios.tcgetattr(self._input)
            tty.setcbreak(self._input)
            asyncio.get_running_loop().add_reader(self._input, self._read)
        self._screen = self._console.screen(hide_cursor=True)
        self._screen.__enter__()

    def _give_back(self) -> None:
        """Restore the screen, then the keyboard; the terminal may be gone by now."""
        if self._settling is not None:
            self._settling.cancel()
        if self._screen is not None:
            screen, self._screen = self._screen, None
            with suppress(OSError):
                screen.__exit__(None, None, None)
        if self._input is not None and self._mode is not None:
            mode, self._mode = self._mode, None
            asyncio.get_running_loop().remove_reader(self._input)
            with suppress(OSError, termios.error):
                # Unread input is not for the shell.
                termios.tcsetattr(self._input, termios.TCSAFLUSH, mode)

    def _release(self) -> None:
        self._give_back()
        loop = asyncio.get_running_loop()
        for number in (*ENDING, signal.SIGWINCH, signal.SIGTSTP):
            loop.remove_signal_handler(number)

    def _end(self, number: int) -> None:
        self._signal = number
        if self._task is not None:
            self._task.cancel()

    def _suspend(self) -> None:
        """Stop the process as the shell expects, and resume when it continues the process."""
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._take()
        self._changed()

    def _read(self) -> None:
        """Read typed bytes. At the end of input keys end, and the screen stays."""
        assert self._input is not None, "only a keyboard is read"
        try:
            data = os.read(self._input, READ_BYTES)
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._input)
            return
        if self._settling is not None:
            self._settling.cancel()
        self._heard(self._keys.feed(data))
        if self._keys.is_open:
            loop = asyncio.get_running_loop()
            self._settling = loop.call_later(ESCAPE_SECONDS, lambda: self._heard(self._keys.settle()))


def _input() -> int | None:
    """The descriptor of the keyboard; None if stdin is something else."""
    try:
        return sys.stdin.fileno() if sys.stdin.isatty() else None
    except (AttributeError, OSError, ValueError):
        return None
