"""Messages to viewers, made once for all of them with the same version and rights."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field

from licorne_server.fair import TimeSlices
from licorne_server.http.stream import sliced
from licorne_server.http.together import Together
from licorne_server.http.ui.looking import Board, Visible

KEPT = 8
"""Cached renderings for viewers that come a little later."""

PEER = "page"
"""Peer of the slices for a rendering that is the same for all."""


@dataclass(frozen=True, slots=True)
class Audience:
    """Viewers with the same rights: those with the same `identity`."""

    identity: Hashable = None
    peer: str = field(default=PEER, compare=False)
    """Peer whose slices make the messages."""
    visible: Visible | None = field(default=None, compare=False)
    """A test of their right to see an RM; None if they may see everything."""


EVERYBODY = Audience()
"""Viewers with the right to everything."""


@dataclass(frozen=True, slots=True)
class Rendering:
    """The way from one version of a board to another, as chunks of JSON."""

    version: int
    """Version of the board that a viewer has then."""
    chunks: tuple[bytes, ...]


class Renderings:
    """Makes messages to viewers in slices, and caches the latest."""

    def __init__(self, time_slices: TimeSlices) -> None:
        """Make renderings in these time slices."""
        self._time_slices = time_slices
        self._together = Together[Rendering]()
        self._kept: OrderedDict[Hashable, Rendering] = OrderedDict()

    async def since(self, board: Board, version: int, audience: Audience) -> Rendering:
        """The message to an audience with that version of the board."""
        key = (board, version, board.version, audience)
        found = self._kept.get(key)
        if found is None:
            found = await self._together.make(key, lambda: self._make(board, version, audience))
            self._kept[key] = found
            self._kept.move_to_end(key)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return found

    def forget(self) -> None:
        """Drop the cached renderings, which are out of date."""
        self._kept.clear()

    async def _make(self, board: Board, version: int, audience: Audience) -> Rendering:
        now = board.version
        pieces = board.since(version, audience.visible)
        chunks = [chunk async for chunk in sliced(pieces, self._time_slices, audience.peer)]
        return Rendering(now, tuple(chunks))
