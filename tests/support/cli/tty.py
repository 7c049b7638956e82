"""A command on a pseudo-terminal: what it shows, and keys that are pressed."""

import asyncio
import fcntl
import os
import re
import struct
import sys
import termios
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from rich.cells import cell_len

LOOK_SECONDS = 0.1
"""How often a terminal is looked at that says nothing."""

PATIENCE = 120.0
ALTERNATE, ORDINARY = "\x1b[?1049h", "\x1b[?1049l"
HIDDEN, SHOWN = "\x1b[?25l", "\x1b[?25h"
HOME = "\x1b[H"
ON_TERMINAL = 'source=$1; shift; exec "$@" <"$source" >"$0" 2>&1'
"""A process that leads a session and has no terminal gets the one that it opens first."""
CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def lines_of(text: str) -> list[str]:
    """The lines of what was written, without what controls the terminal."""
    return CODES.sub("", text).replace("\r", "").split("\n")


class Tty:
    """Runs `licorne` with a terminal for stdin, stdout and stderr."""

    def __init__(
        self,
        *arguments: str,
        width: int = 80,
        height: int = 24,
        keyboard: bool = True,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Not started. Without a keyboard stdin is empty and no terminal."""
        self._command = (sys.executable, "-m", "licorne_server", *arguments)
        self._keyboard = keyboard
        self._env = {**os.environ, **(env or {})}
        self._ours, self._theirs = os.openpty()
        self.resize(width, height)
        self.mode = self.attributes()
        self.output = ""
        self._news = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        """Start it, in a session of its own whose terminal this is."""
        asyncio.get_running_loop().add_reader(self._ours, self._read)
        terminal = os.ttyname(self._theirs)
        source = terminal if self._keyboard else os.devnull
        self._process = await asyncio.create_subprocess_exec(
            *("sh", "-c", ON_TERMINAL, terminal, source, *self._command),
            env=self._env,
            start_new_session=True,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill it if it still runs."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        asyncio.get_running_loop().remove_reader(self._ours)
        os.close(self._ours)
        os.close(self._theirs)

    @property
    def process(self) -> asyncio.subprocess.Process:
        """The command, which was started."""
        assert self._process is not None
        return self._process

    def attributes(self) -> list[Any]:
        """The mode that the terminal is in."""
        return termios.tcgetattr(self._theirs)

    def resize(self, width: int, height: int) -> None:
        """Make the terminal another size; who is on it is told by SIGWINCH."""
        self._width, self._height = width, height
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def press(self, keys: str) -> None:
        """Type these characters at once."""
        os.write(self._ours, keys.encode())

    def screen(self) -> list[str]:
        """The lines of the last screen that was drawn to its end; without any, all that came."""
        first, *frames = self.output.split(HOME)
        for frame in reversed(frames):
            lines = lines_of(frame)
            if len(lines) >= self._height and cell_len(lines[self._height - 1]) >= self._width:
                return [line.rstrip() for line in lines]
        return [] if frames else [line.rstrip() for line in lines_of(first)]

    async def until(self, condition: Callable[[list[str]], bool]) -> list[str]:
        """Wait for a screen for which this is true.

        The mode of the terminal may change without any output: so it is looked at in between too.
        """
        try:
            async with asyncio.timeout(PATIENCE):
                while not condition(self.screen()):
                    self._news.clear()
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._news.wait(), LOOK_SECONDS)
        except TimeoutError:
            raise AssertionError("never shown; at last: " + "\n".join(self.screen())) from None
        return self.screen()

    async def shows(self, text: str) -> list[str]:
        """Wait for a screen with this text in a line."""
        return await self.until(lambda lines: any(text in line for line in lines))

    async def ended(self) -> int:
        """Wait until it has ended; its exit code, that of a signal being negative."""
        return await asyncio.wait_for(self.process.wait(), PATIENCE)

    def is_as_before(self) -> bool:
        """Whether keyboard, screen and cursor are as they were before it came."""
        back = self.output.rfind(ORDINARY) > self.output.rfind(ALTERNATE)
        cursor = self.output.rfind(SHOWN) > self.output.rfind(HIDDEN)
        return self.attributes() == self.mode and back and cursor

    def _read(self) -> None:
        try:
            data = os.read(self._ours, 65_536)
        except OSError:
            data = b""
        self.output += data.decode(errors="replace")
        self._news.set()
