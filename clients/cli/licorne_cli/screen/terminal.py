"""A terminal that is taken for a screen, and given back as it was, whatever happens.

Also here:

* Keys out of the bytes that a terminal sends.
"""

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
"""Of characters. A longer sequence is none of a key's, and is dropped."""

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
    """Takes bytes as they come, in pieces of any size, and gives the keys that are whole.

    A key is its character, or has a name: ``up``, ``enter``, ``escape``. Sequences of keys that
    have no name here mean nothing.
    """

    def __init__(self) -> None:
        """Begin with no key pressed."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        self._held = ""

    def feed(self, data: bytes) -> list[str]:
        """The keys that are whole now."""
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
        """True while an escape may be a key, or begin the sequence of another."""
        return bool(self._held)

    def settle(self) -> list[str]:
        """End a sequence that nothing followed in time: the escape key, or nothing."""
        held, self._held = self._held, ""
        return ["escape"] if held == ESCAPE else []

    def _continued(self, character: str) -> list[str]:
        """One more character of a sequence; it ends with a letter or a tilde."""
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
"""The rest of a sequence follows its escape at once."""

ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class _Console(Console):
    """A console that leaves it to the command what a closed pipe means."""

    def on_broken_pipe(self) -> None:
        """Do not exit with an error of our own."""
        raise BrokenPipeError


def console_on(stream: TextIO, *, pictured: bool) -> Console:
    """A console that draws with control codes, or writes without any. It honours NO_COLOR."""
    return _Console(file=stream, force_terminal=pictured, highlight=False, markup=False)


def size_of(stream: TextIO) -> tuple[int, int]:
    """The columns and lines of a terminal at the moment."""
    try:
        columns, lines = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return USUAL_SIZE
    return columns or USUAL_SIZE[0], lines or USUAL_SIZE[1]


class Terminal:
    """The alternate screen of stdout, and the keys of stdin if that is a terminal too.

    To be used as a context manager in the main task of a loop. A signal that ends the process
    ends that task with SystemExit; an interrupt is a KeyboardInterrupt as ever. A stop from the
    keyboard gives the terminal back until the process is continued.
    """

    def __init__(self, heard: Callable[[Sequence[str]], None], changed: Callable[[], None]) -> None:
        """`heard` gets keys as they come. `changed` is called when all must be drawn anew."""
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
        """Take the terminal."""
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
        """Give the terminal back.

        Raises:
            SystemExit: a signal ended it.
        """
        self._release()
        if self._signal is not None and isinstance(error, asyncio.CancelledError):
            raise SystemExit(128 + self._signal) from None

    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        return size_of(sys.stdout)

    def draw(self, lines: Sequence[Text], size: tuple[int, int]) -> None:
        """Show these lines, which fill a screen of that size."""
        if self._screen is not None:
            self._console.size = ConsoleDimensions(*size)
            # In one write, so that nobody sees a half.
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
        """The screen first, then the keyboard: the terminal itself may be gone by now."""
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
                # What was typed and not read is not for the shell.
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
        """Stop, as the shell expects it of whoever is asked to; go on when it says so."""
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._take()
        self._changed()

    def _read(self) -> None:
        """Take what was typed. An end of input is that of the keys, and not of the screen."""
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
