"""The part of the loop's time that all readers have together.

Whoever reads what the core knows has its answer made in slices, one slice of all readers at a time.
While there is scheduling to do no slice begins for three times as long as the last one took, so
that all readers together take at most a quarter of the loop's time, however many they are. They
take turns by party, and the readers of one party in the order in which they came.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import perf_counter

SLICE_SECONDS = 0.001
"""How long a reader works at a time, unless the turns of the engine are longer."""

PAUSE_FACTOR = 3.0
"""How many times as long no reader works after that, while the engine is busy."""


class Share:
    """Deals out slices of the loop's time to all readers."""

    def __init__(
        self, busy: Callable[[], bool], turn: Callable[[], float] = lambda: SLICE_SECONDS
    ) -> None:
        """`busy` tells whether there is scheduling to do; without that there are no pauses.

        `turn` gives the seconds that a turn of the engine takes: no slice is longer.
        """
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
        cannot end with its slice is done as a `whole`: the pause behind it is made in any case. In
        so long a time much may come in that nobody has seen yet.
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
            pause = self._owed(self._ended - begin + more, always=whole)
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
