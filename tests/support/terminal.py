"""Commands on a pseudo-terminal, and clusters for them to draw."""

import asyncio
import fcntl
import os
import re
import select
import struct
import sys
import termios
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from rich.cells import cell_len

from licorne.v1.state_pb2 import Partition, Queue, ResourceManager
from licorne_cli.screen.picture import Frame, picture
from licorne_cli.screen.pieces import UNICODE, Glyphs
from licorne_cli.screen.tree import Cluster, Snapshot, totals
from licorne_cli.screen.view import View
from support.patience import PATIENCE

LOOK_SECONDS = 0.1
"""How often a terminal is looked at that says nothing."""

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
        """Wait until it has ended; its exit code, that of a signal being negative.

        The last that it wrote may come behind the news of its end, and is read as well.
        """
        code = await asyncio.wait_for(self.process.wait(), PATIENCE)
        while select.select([self._ours], [], [], 0)[0]:
            self._read()
        return code

    def is_as_before(self) -> bool:
        """True if keyboard, screen and cursor are as they were before it came."""
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


NOON = 1_790_000_000.0
GI = 1024**3
CAPACITY = {"vcore": 100_000, "memory": 400 * GI}


def queue(path: str, **fields: Any) -> Queue:
    """A queue that is a leaf and active unless said otherwise; amounts in cores, or by resource."""
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


def seen(*clusters: Cluster) -> View:
    """A view of these clusters, as it is at first."""
    view = View()
    view.saw(Snapshot(time=NOON, clusters=clusters))
    return view


def drawn(
    view: View,
    width: int = 80,
    height: int = 24,
    *,
    glyphs: Glyphs = UNICODE,
    failure: str = "",
    has_keys: bool = True,
) -> list[str]:
    """The lines of a screen, without colours."""
    frame = Frame(
        title="licorne top 127.0.0.1:7070",
        status=totals(view.snapshot),
        glyphs=glyphs,
        failure=failure,
        has_keys=has_keys,
    )
    return [line.plain for line in picture(view, frame, width, height)]
