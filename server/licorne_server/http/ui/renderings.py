"""What viewers are told, made once for all of them that have and may see the same."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field

from licorne_server.fair import TimeSlices
from licorne_server.http.stream import sliced
from licorne_server.http.together import Together
from licorne_server.http.ui.board import Board, Visible

KEPT = 8
"""Renderings that are kept for viewers that come a little later."""

PEER = "page"
"""Whose slices those take that are the same for everybody."""


@dataclass(frozen=True, slots=True)
class Audience:
    """Viewers who may see the same: those with the same `identity`."""

    identity: Hashable = None
    peer: str = field(default=PEER, compare=False)
    """Whose slices are taken to make what they are told."""
    visible: Visible | None = field(default=None, compare=False)
    """Whether they may see what is of an RM; None if they may see everything."""


EVERYBODY = Audience()
"""Those who may see everything."""


@dataclass(frozen=True, slots=True)
class Rendering:
    """The way from one version of a board to another, as chunks of JSON."""

    version: int
    """That of the board which a viewer has then."""
    chunks: tuple[bytes, ...]


class Renderings:
    """Makes what viewers are told in slices, and keeps it for as long as it is the latest."""

    def __init__(self, time_slices: TimeSlices) -> None:
        """Made in these time slices."""
        self._time_slices = time_slices
        self._together = Together[Rendering]()
        self._kept: OrderedDict[Hashable, Rendering] = OrderedDict()

    async def since(self, board: Board, version: int, audience: Audience) -> Rendering:
        """What an audience with that version of the board is to be told."""
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
        """There is something new, so nobody needs what is kept."""
        self._kept.clear()

    async def _make(self, board: Board, version: int, audience: Audience) -> Rendering:
        now = board.version
        pieces = board.since(version, audience.visible)
        chunks = [chunk async for chunk in sliced(pieces, self._time_slices, audience.peer)]
        return Rendering(now, tuple(chunks))
