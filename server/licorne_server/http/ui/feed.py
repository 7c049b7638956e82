"""Live feed: the state is read once for all viewers, while there are any, and sent as server-sent events.

The state is read (a *look*) after a change, at most once a second, and looks use at most one part in
`BUDGET` of a core. A viewer gets one message at a time. The only state of a viewer is its version: a slow
viewer gets fewer messages, each with all changes since the last. A message is encoded in time slices, once
for all viewers with the same rights and version (`Renderings`), and sent in chunks.
"""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from math import inf

import structlog

from licorne_server.http.pages import Maker
from licorne_server.http.stream import CHUNK, Together, encode, sliced
from licorne_server.http.ui.looking import Board, Looker, Visible
from licorne_server.http.ui.mirrors import Mirrors
from licorne_server.http.units import milliseconds
from licorne_server.process.build_info import build_info
from licorne_server.process.fair import PeerQuota, TimeSlices
from licorne_server.process.loop import stop_task
from licorne_server.reads.sources import Sources

PEER = "page"
"""Peer whose time slices make renderings that are the same for all."""


@dataclass(frozen=True, slots=True)
class Audience:
    """Viewers with the same rights, and thus the same `identity`."""

    identity: Hashable = None
    peer: str = field(default=PEER, compare=False)
    """Peer that is charged for the time slices of the messages."""
    visible: Visible | None = field(default=None, compare=False)
    """Tests the right of viewers to see an RM; None if they may see everything."""


EVERYBODY = Audience()
"""Viewers with the right to everything."""


@dataclass(frozen=True, slots=True)
class Rendering:
    """Changes from one version of a board to another, as chunks of JSON."""

    version: int
    """Version of the board that includes these changes."""
    chunks: tuple[bytes, ...]


class Renderings:
    """Makes messages to viewers in slices, and caches the latest."""

    def __init__(self, time_slices: TimeSlices) -> None:
        """Make renderings in `time_slices`."""
        self._time_slices = time_slices
        self._together = Together[Rendering]()
        self.forget = self._together.forget
        """Drops the cached renderings, which are outdated."""

    async def since(self, board: Board, version: int, audience: Audience) -> Rendering:
        """The message to an audience with a given version of the board."""
        key = (board, version, board.version, audience)
        return await self._together.get(key, partial(self._make, board, version, audience))

    async def _make(self, board: Board, version: int, audience: Audience) -> tuple[Rendering, float]:
        now = board.version
        pieces = board.since(version, audience.visible)
        chunks = [chunk async for chunk in sliced(pieces, self._time_slices, audience.peer)]
        return Rendering(now, tuple(chunks)), inf


log = structlog.get_logger("core.http.ui.feed")

LOOK_SECONDS = 1.0
"""Minimum seconds between two looks."""

WHOLE_SECONDS = 5.0
"""Minimum seconds between two looks that skip no parts."""

BUDGET = 125.0
"""Length of the pause after a look, as a multiple of the duration of the look."""

BEAT_SECONDS = 5.0
"""Seconds between heartbeats to a viewer, while nothing changes."""

MAX_VIEWERS = 64
MAX_VIEWERS_OF_PEER = 16
"""Maximum number of concurrent viewers in total; maximum number of viewers of one token or host."""


class TooManyViewers(Exception):
    """A viewer is refused; the text gives the bound that is reached."""


class Feed:
    """The board that all viewers share, and the task that updates it."""

    def __init__(self, sources: Sources, mirrors: Mirrors | None = None) -> None:
        """Idle until there is a viewer. With `mirrors` the board includes the RMs of other members."""
        self._sources = sources
        self._mirrors = mirrors
        self._instance = str(uuid.uuid4())
        self._board = Board()
        self._renderings = Renderings(sources.time_slices)
        self._viewers = PeerQuota(MAX_VIEWERS, MAX_VIEWERS_OF_PEER, _too_many)
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._closed = False

    @contextmanager
    def watched_by(self, peer: str) -> Iterator[None]:
        """Count a viewer inside the block. The first viewer starts the looks, the last stops them.

        Raises:
            TooManyViewers: the viewer is refused.
        """
        try:
            with self._viewers.place(peer):
                if self._task is None:
                    self._board = Board()
                    self._task = asyncio.create_task(self._look_on(), name="the page's feed")
                yield
        finally:
            if not self._viewers.taken and self._task is not None:
                self._task.cancel()
                self._task = None

    async def messages(
        self, audience: Audience, role: str, is_there: Callable[[], bool]
    ) -> AsyncGenerator[bytes, None]:
        """Server-sent events for one viewer, as long as it `is_there`.

        The first event identifies the server, the second has all entries, the others have changes.
        The first event also has the viewer's `role`: ``open``, ``rm``, ``viewer`` or ``operator``.
        """
        yield self._hello(role)
        board, version = self._board, 0
        while is_there():
            if board.version == version and not self._closed:
                await self._wait()
            if self._closed or self._task is None or board is not self._board:
                why = "the server is about to stop" if self._closed else "the feed was interrupted"
                yield _event("bye", f'"reason":"{why}"')
                return
            now = f'"time":{milliseconds(self._sources.now())}'
            if board.version == version:
                yield _event("beat", now)
                continue
            rendering = await self._renderings.since(board, version, audience)
            version = rendering.version
            for chunk in _framed(_event("change", f"{now},"), rendering.chunks):
                yield chunk

    async def close(self) -> None:
        """Notify all viewers that the server is about to stop, and stop the looks."""
        self._closed = True
        self._tell()
        await stop_task(self._task)

    def _hello(self, role: str) -> bytes:
        hello = {
            "instance": self._instance,
            "version": build_info().version,
            "started": milliseconds(self._sources.started_time),
            "time": milliseconds(self._sources.now()),
            "role": role,
            "beat": round(BEAT_SECONDS * 1000),
        }
        return _event("hello", encode(hello)[1:-1])

    async def _wait(self) -> None:
        """Wait until the board has changed, or a beat is due."""
        try:
            async with asyncio.timeout(BEAT_SECONDS):
                await self._news.wait()
        except TimeoutError:
            pass

    def _tell(self) -> None:
        """Wake all waiting viewers."""
        self._renderings.forget()
        self._news.set()
        self._news = asyncio.Event()

    async def _look_on(self) -> None:
        """Read the state until cancelled. After a failure the viewers are disconnected, and may reconnect."""
        try:
            await self._look_again_and_again()
        except Exception:
            log.exception("the page's feed has failed")
            self._task = None
        finally:
            if self._mirrors is not None:
                self._mirrors.stop()
            self._tell()

    async def _look_again_and_again(self) -> None:
        """Look after each change, and later look again at the skipped parts."""
        mirrors = self._mirrors
        looker = Looker(self._sources, self._board, mirrors)
        loop = asyncio.get_running_loop()
        looked: object = None
        whole: object = None
        if mirrors is not None:
            mirrors.follow()
            await mirrors.first()
        whole_at = -WHOLE_SECONDS
        while True:
            figures = self._sources.figures()
            others = None if mirrors is None else mirrors.follow()
            now = (figures.commands, figures.turns, figures.rms, others, self._sources.verdicts.latest)
            spent = 0.0
            if now != whole and loop.time() - whole_at >= WHOLE_SECONDS:
                spent = await self._look(looker.look(figures.rms, whole=True))
                looked = whole = now
                whole_at = loop.time()
            elif now != looked:
                spent = await self._look(looker.look(figures.rms, whole=False))
                looked = now
            await asyncio.sleep(max(LOOK_SECONDS, spent * BUDGET))

    async def _look(self, stops: Iterator[None]) -> float:
        """Look once; returns the CPU seconds that it took."""
        maker = Maker(self._sources.time_slices, PEER)
        await maker.all(stops)
        self._tell()
        return maker.spent


def _too_many(most: int, peer: str) -> TooManyViewers:
    of_whom = f"of {peer} look" if peer else "look at this server"
    return TooManyViewers(f"{most} viewers {of_whom} already")


def farewell(status: int, reason: str) -> bytes:
    """The last event for a viewer whose feed ends."""
    return _event("bye", f'"status":{status},"reason":{encode(reason)}')


END = b"}\n\n"
"""End of an event whose data is a JSON object."""


def _event(name: str, members: str) -> bytes:
    """A server-sent event, whose data is a JSON object of these members."""
    return f"event: {name}\ndata: {{{members}".encode(errors="replace") + END


def _framed(event: bytes, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """An event whose object gets further members from `chunks`; a short event is one piece."""
    before = event.removesuffix(END)
    for chunk in chunks:
        if len(before) + len(chunk) > CHUNK:
            yield before
            before = b""
        before += chunk
    yield before + END
