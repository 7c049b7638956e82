"""Commands on a pseudo-terminal, and clusters for them to draw."""

import asyncio
import fcntl
import os
import select
import struct
import sys
import termios
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Self

import pyte
import pytest

from licorne.v1.state_pb2 import Partition, Queue, ResourceManager
from licorne_cli.screen.app import TopApp, Words
from licorne_cli.screen.tree import Cluster, Opened, Snapshot, totals
from support.patience import PATIENCE
from support.peers.shim import eventually

LOOK_SECONDS = 0.1
"""How often a terminal is looked at that says nothing."""

ALTERNATE, ORDINARY = "\x1b[?1049h", "\x1b[?1049l"
HIDDEN, SHOWN = "\x1b[?25l", "\x1b[?25h"
ON_TERMINAL = 'source=$1; shift; exec "$@" <"$source" >"$0" 2>&1'
"""A process that leads a session and has no terminal gets the one that it opens first."""


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
        self._screen = pyte.Screen(width, height)
        self._stream = pyte.ByteStream(self._screen)
        self._ours, self._theirs = os.openpty()
        self.resize(width, height)
        self.mode = self.attributes()
        self.output = ""
        self._news = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        """Start it, in a session of its own with this terminal."""
        asyncio.get_running_loop().add_reader(self._ours, self._read)
        terminal = os.ttyname(self._theirs)
        source = terminal if self._keyboard else os.devnull
        self._process = await asyncio.create_subprocess_exec(
            *("sh", "-c", ON_TERMINAL, terminal, source, *self._command),
            env=self._env,
            start_new_session=True,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
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

    @property
    def is_stopped(self) -> bool:
        """True while the process is stopped, as by control-Z."""
        state = Path(f"/proc/{self.process.pid}/stat").read_text()
        return state.rpartition(")")[2].split()[0] == "T"

    def attributes(self) -> list[Any]:
        """The mode that the terminal is in."""
        return termios.tcgetattr(self._theirs)

    def resize(self, width: int, height: int) -> None:
        """Resize the terminal; its process gets SIGWINCH."""
        self._screen.resize(height, width)
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def press(self, keys: str) -> None:
        """Type these characters at once."""
        os.write(self._ours, keys.encode())

    def screen(self) -> list[str]:
        """The visible lines."""
        return [line.rstrip() for line in self._screen.display]

    async def until(self, condition: Callable[[list[str]], bool]) -> list[str]:
        """Wait for a screen for which this is true.

        The mode of the terminal may change without any output, so it is checked in between too.
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
        """Wait until it has ended; return its exit code, that of a signal being negative.

        Its last output may follow the notification of its end, and is read as well.
        """
        code = await asyncio.wait_for(self.process.wait(), PATIENCE)
        while select.select([self._ours], [], [], 0)[0]:
            self._read()
        return code

    def is_as_before(self) -> bool:
        """True if keyboard, screen and cursor are as they were before its start."""
        back = self.output.rfind(ORDINARY) > self.output.rfind(ALTERNATE)
        cursor = self.output.rfind(SHOWN) > self.output.rfind(HIDDEN)
        return self.attributes() == self.mode and back and cursor

    def _read(self) -> None:
        try:
            data = os.read(self._ours, 65_536)
        except OSError:
            data = b""
        self._stream.feed(data)
        self.output += data.decode(errors="replace")
        self._news.set()


NOON = 1_790_000_000.0
GI = 1024**3
CAPACITY = {"vcore": 100_000, "memory": 400 * GI}


def queue(path: str, **fields: Any) -> Queue:
    """A queue that is a leaf and active by default; amounts in cores, or by resource."""
    made: dict[str, Any] = {
        "path": path,
        "parent": path.rpartition(".")[0],
        "is_leaf": True,
        "is_managed": True,
        "state": "Active",
    }
    for name, value in fields.items():
        made[name] = {"vcore": int(value * 1000)} if _is_cores(name, value) else value
    return Queue(**made)


AMOUNTS = ("allocated", "guaranteed", "max", "pending", "preempting", "promised")


def _is_cores(name: str, value: Any) -> bool:
    return name in AMOUNTS and not isinstance(value, Mapping)


def root(used: float, capacity: Mapping[str, int] = CAPACITY, **fields: Any) -> Queue:
    """The root of a cluster."""
    return queue("root", is_leaf=False, max=capacity, allocated=used, **fields)


def cluster(
    name: str,
    queues: Sequence[Queue],
    *,
    lost: float = 0.0,
    holds: Iterable[str] = (),
    pending_asks: int = 0,
) -> Cluster:
    """The partition `default` of an RM; its stream is lost since a time, if one is given."""
    partition = Partition(
        name=f"[{name}]default",
        rm_id=name,
        state="Active",
        capacity=queues[0].max,
        nodes=4,
        allocations=12,
        pending_asks=pending_asks,
        holds=list(holds),
    )
    rm = ResourceManager(rm_id=name, connected=not lost, since=int((lost or NOON) * 1e9))
    return Cluster(partition=partition, queues=queues, rm=rm, name=partition.name)


def seen(*clusters: Cluster) -> Snapshot:
    """A snapshot of these clusters."""
    return Snapshot(time=NOON, clusters=clusters)


async def _at_once(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


class Viewer:
    """Reads a screen without a terminal, and presses its keys."""

    def __init__(self, snapshot: Snapshot, *, failure: Exception | None = None) -> None:
        """The server has this `snapshot`, until it fails."""
        self.snapshot = snapshot
        self.failure = failure
        self.opened: list[Opened | None] = []

    def look(self, opened: Opened | None) -> Snapshot:
        """The server's answer."""
        self.opened.append(opened)
        if self.failure is not None:
            raise self.failure
        return self.snapshot

    @asynccontextmanager
    async def at(self, width: int = 80, height: int = 24, *keys: str) -> AsyncIterator[Self]:
        """The screen of a terminal of this size, with these keys pressed."""
        words = Words(
            title=lambda: "licorne top 127.0.0.1:7070", status=totals, none="no RM has registered".__add__
        )
        self._app = TopApp(self.look, words, self.snapshot, interval=3600.0)
        self._app.animation_level = "none"
        with pytest.MonkeyPatch.context() as patch:
            # The library waits for a processor that is idle, which a busy machine's never or always is.
            patch.setattr("textual.app.wait_for_idle", self._settled)
            patch.setattr("textual.pilot.wait_for_idle", self._settled)
            # A thread would answer between any two of the rounds that a screen settles in, or after them.
            patch.setattr("asyncio.to_thread", _at_once)
            async with self._app.run_test(size=(width, height)) as self._pilot:
                await self.press(*keys)
                yield self

    async def press(self, *keys: str) -> list[str]:
        """Press keys one after the other; return the lines of the screen after them."""
        await self._settled()
        await self._app._press_keys(keys)
        return self.lines

    async def _settled(self, *_: float) -> None:
        """Let each part handle its messages and draw, twice as often as any key has consequences."""
        for _round in range(6):
            assert await self._pilot._wait_for_screen(PATIENCE), self._app._exception
            self._app.screen._on_timer_update()

    async def click(self, at: tuple[int, int]) -> list[str]:
        """Click on a column and a line; return the lines of the screen after it."""
        await self._pilot.click(offset=at)
        return await self.press()

    async def looks_again(self, snapshot: Snapshot | None = None) -> list[str]:
        """The server's state has changed, and is read."""
        self.snapshot = snapshot or self.snapshot
        # The second look begins when the first has been shown.
        for _ in range(2):
            self._app.hurry.set()
            await eventually(lambda: not self._app.hurry.is_set())
        return await self.press()

    @property
    def lines(self) -> list[str]:
        """The lines of the screen, without colours."""
        # There is no public way to read a screen but as a picture.
        strips = self._app.screen._compositor.render_strips()
        return [strip.text.rstrip() for strip in strips]
