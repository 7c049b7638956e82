"""The part of the loop's time that all readers have together.

Whoever reads what the core knows has its answer made in slices, one slice of all readers at a time.
While there is scheduling to do no slice begins for three times as long as the last one took, so
that all readers together take at most a quarter of the loop's time, however many they are. They
take turns by party, and the readers of one party in the order in which they came. Behind a slice
that took far too long there is a pause in any case.
"""

import asyncio
import traceback
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter

from licorne_server.slow_steps import SLOW_SECONDS, SlowSteps

SLICE_SECONDS = 0.001
"""How long a reader works at a time, unless the turns of the engine are longer."""

PAUSE_FACTOR = 3.0
"""How many times as long no reader works after that, while the engine is busy."""

OVERRUN = 2.0
"""How many times its length a slice may take without owing its pause to an engine that rests."""

SHOWN_FRAMES = 4
"""Functions of a reader that the log names."""

_PACKAGE, _SELF = Path(__file__).parent, Path(__file__).stem


class Share:
    """Deals out slices of the loop's time to all readers."""

    def __init__(
        self,
        busy: Callable[[], bool],
        turn: Callable[[], float] = lambda: SLICE_SECONDS,
        slow: SlowSteps | None = None,
    ) -> None:
        """`busy` tells whether there is scheduling to do; without that there are no pauses.

        `turn` gives the seconds that a turn of the engine takes: no slice is longer. Those that
        were slow all the same are told to `slow`.
        """
        self._slow = slow or SlowSteps()
        self._busy = busy
        self._turn_seconds = turn
        # When the last slice ended.
        self._ended = perf_counter()
        # Who waits for a slice, by party; the first party is the next. None is there without one.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        # Whether a slice is taken, or the pause behind one is not over.
        self._taken = False
        # Seconds of pause that are still owed.
        self._debt = 0.0

    @asynccontextmanager
    async def slice(
        self, party: str, more: float = 0.0, *, whole: bool = False
    ) -> AsyncIterator[Callable[[], bool]]:
        """Give the caller a slice; it gets a function that tells whether the slice is over.

        What is made inside takes `more` seconds of the loop later, such as to send it. Work that
        cannot end with its slice is done as a `whole`: the pause behind it is made in any case, as
        it is behind a slice that took more than `OVERRUN` times its length. In so long a time much
        may come in that nobody has seen yet.
        Nothing may be awaited inside. What is done inside counts, also if it fails. A pause is for
        whoever comes next, so nobody can leave it out by going away.
        """
        await self._turn(party)
        begin = perf_counter()
        length = self._length(begin - self._ended)
        try:
            yield lambda: perf_counter() - begin >= length
        finally:
            self._ended = perf_counter()
            spent = self._ended - begin
            if spent > SLOW_SECONDS:
                self._slow.note("slice", spent, party=party, reader=_reader())
            pause = self._owed(spent + more, always=whole or spent > OVERRUN * length)
            if pause:
                asyncio.get_running_loop().call_later(pause, self._next)
            else:
                # Everything else has its turn of the loop before the next reader.
                try:
                    await asyncio.sleep(0)
                finally:
                    self._next()

    async def _turn(self, party: str) -> None:
        """Wait for a slice. Whoever goes away meanwhile leaves the line at once."""
        if not self._taken:
            self._taken = True
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line = self._waiting.setdefault(party, deque())
        line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._next()
            elif turn in line:
                line.remove(turn)
                if not line:
                    del self._waiting[party]
            raise

    def _next(self) -> None:
        """Give the next party its slice, and put it at the end of the line of parties."""
        while self._waiting:
            party = next(iter(self._waiting))
            line = self._waiting.pop(party)
            turn = line.popleft()
            if line:
                self._waiting[party] = line
            # One that was cancelled just now has not left the line yet.
            if not turn.done():
                turn.set_result(None)
                return
        self._taken = False

    def _length(self, gap: float) -> float:
        """How long a slice is that begins so many seconds after the last one.

        A slice begins between two rounds of the engine only. Where these are long, as with one RM
        alone, a longer slice gives the readers the time that their share is, and a watcher keeps up
        with what is decided. An engine that rests may be needed at once.
        """
        if not self._busy():
            return SLICE_SECONDS
        return max(SLICE_SECONDS, min(gap / PAUSE_FACTOR, self._turn_seconds()))

    def _owed(self, spent: float, *, always: bool) -> float:
        """The pause behind a slice that took so many seconds."""
        if always or self._busy():
            self._debt += spent * PAUSE_FACTOR
        # A shorter pause is saved up: the loop's timer is too coarse for it.
        if self._debt < SLICE_SECONDS:
            return 0.0
        pause, self._debt = self._debt, 0.0
        return pause


def _reader() -> list[str]:
    """Who has had a slice: the functions that have led to it, outermost first."""
    ours = [
        f"{path.stem}.{frame.name}"
        for frame in traceback.extract_stack()
        if (path := Path(frame.filename)).is_relative_to(_PACKAGE) and path.stem != _SELF
    ]
    return ours[-SHOWN_FRAMES:]
