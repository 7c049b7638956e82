"""Commands on a pseudo-terminal, and clusters for their screens."""

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
"""Seconds between two checks of a silent terminal."""

ALTERNATE, ORDINARY = "\x1b[?1049h", "\x1b[?1049l"
HIDDEN, SHOWN = "\x1b[?25l", "\x1b[?25h"
ON_TERMINAL = 'source=$1; shift; exec "$@" <"$source" >"$0" 2>&1'
"""A shell script that runs a command on the terminal `$0`, which becomes that of its session."""


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
        """Create it unstarted. Without a keyboard stdin is empty and not a terminal."""
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
        """True while the process is suspended, as by control-Z."""
        state = Path(f"/proc/{self.process.pid}/stat").read_text()
        return state.rpartition(")")[2].split()[0] == "T"

    def attributes(self) -> list[Any]:
        """The mode of the terminal."""
        return termios.tcgetattr(self._theirs)

    def resize(self, width: int, height: int) -> None:
        """Resize the terminal, of which its process is notified by SIGWINCH."""
        self._screen.resize(height, width)
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def press(self, keys: str) -> None:
        """Type these characters in one write."""
        os.write(self._ours, keys.encode())

    def screen(self) -> list[str]:
        """The visible lines."""
        return [line.rstrip() for line in self._screen.display]

    async def until(self, condition: Callable[[list[str]], bool]) -> list[str]:
        """Wait for a screen that meets the condition.

        The mode of the terminal may change without output, so the condition is also checked in between.
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
        """Wait until it has ended; return its exit code, which is negative for a signal.

        Output that arrives after the end is read, too.
        """
        code = await asyncio.wait_for(self.process.wait(), PATIENCE)
        while select.select([self._ours], [], [], 0)[0]:
            self._read()
        return code

    def is_as_before(self) -> bool:
        """True if keyboard, screen and cursor are as before its start."""
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
    """A queue, by default an active leaf; amounts are cores, or amounts by resource."""
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
    """The partition `default` of an RM, whose stream is lost since `lost` unless that is None."""
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
    """A snapshot with these clusters."""
    return Snapshot(time=NOON, clusters=clusters)


async def _at_once(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


class Viewer:
    """Reads a screen without a terminal, and presses its keys."""

    def __init__(self, snapshot: Snapshot, *, failure: Exception | None = None) -> None:
        """Answer with this `snapshot`, or fail."""
        self.snapshot = snapshot
        self.failure = failure
        self.opened: list[Opened | None] = []

    def look(self, opened: Opened | None) -> Snapshot:
        """The answer of the server."""
        self.opened.append(opened)
        if self.failure is not None:
            raise self.failure
        return self.snapshot

    @asynccontextmanager
    async def at(self, width: int = 80, height: int = 24, *keys: str) -> AsyncIterator[Self]:
        """A screen of this size, after these keys."""
        words = Words(
            title=lambda: "licorne top 127.0.0.1:7070", status=totals, none="no RM has registered".__add__
        )
        self._app = TopApp(self.look, words, self.snapshot, interval=3600.0)
        self._app.animation_level = "none"
        with pytest.MonkeyPatch.context() as patch:
            # The library waits until the processor is idle, which on a busy machine may never be so.
            patch.setattr("textual.app.wait_for_idle", self._settled)
            patch.setattr("textual.pilot.wait_for_idle", self._settled)
            # The answer of a thread would arrive at a random time while a screen settles.
            patch.setattr("asyncio.to_thread", _at_once)
            async with self._app.run_test(size=(width, height)) as self._pilot:
                await self.press(*keys)
                yield self

    async def press(self, *keys: str) -> list[str]:
        """Press keys one by one; return the lines of the screen after them."""
        await self._settled()
        await self._app._press_keys(keys)
        return self.lines

    async def _settled(self, *_: float) -> None:
        """Let all parts process messages and draw, in twice as many rounds as any key needs."""
        for _round in range(6):
            assert await self._pilot._wait_for_screen(PATIENCE), self._app._exception
            self._app.screen._on_timer_update()

    async def click(self, at: tuple[int, int]) -> list[str]:
        """Click on a column and line; return the lines of the screen after that."""
        await self._pilot.click(offset=at)
        return await self.press()

    async def looks_again(self, snapshot: Snapshot | None = None) -> list[str]:
        """Read the server's state, or a changed one; return the lines of the screen after that."""
        self.snapshot = snapshot or self.snapshot
        # The second read begins when the first one is on the screen.
        for _ in range(2):
            self._app.hurry.set()
            await eventually(lambda: not self._app.hurry.is_set())
        return await self.press()

    @property
    def lines(self) -> list[str]:
        """The lines of the screen, without colours."""
        # The library offers a screen to others only as a picture.
        strips = self._app.screen._compositor.render_strips()
        return [strip.text.rstrip() for strip in strips]
