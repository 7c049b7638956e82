"""A clock that moves only when the test moves it."""

import asyncio
from math import inf

START = 1_700_000_000.0
"""Default start of the clock, in unix seconds."""


class VirtualClock:
    """A clock that a test moves. Work due at a time is done at exactly that time.

    The epoch of a server is the time at which it starts. So move the clock between two servers that
    follow on one another, or a client takes the second for a server of the past.
    """

    def __init__(self, start: float = START) -> None:
        """Stand at `start`, in unix seconds."""
        self._now = start
        self._waiting: dict[asyncio.Event, float] = {}
        self._came = asyncio.Event()
        self._sleeping: dict[asyncio.Event, float] = {}

    def now(self) -> float:
        """Unix seconds."""
        return self._now

    async def wait(self, until: float | None, event: asyncio.Event) -> None:
        """Return when the event is set, or the clock was moved to `until` or beyond."""
        if until is not None and until <= self._now:
            return
        self._waiting[event] = inf if until is None else until
        self._came.set()
        try:
            await event.wait()
        finally:
            del self._waiting[event]

    async def sleep(self, seconds: float) -> None:
        """Return when the clock was moved by so many seconds. `advance` does not wait for more."""
        woken = asyncio.Event()
        self._sleeping[woken] = self._now + seconds
        try:
            await woken.wait()
        finally:
            del self._sleeping[woken]

    async def advance(self, seconds: float) -> None:
        """Move on by so many seconds, stopping at each time that is waited for.

        Returns when all due work is done, and all tasks wait again. A sleeper is woken at its time,
        and need not come back.
        """
        # Who was woken by something else may not have begun yet, and knows no time to wait for.
        await self._all_back(len(self._waiting))
        end = self._now + seconds
        while (nearest := self._nearest()) <= end:
            self._now = max(self._now, nearest)
            for times in (self._waiting, self._sleeping):
                for event in [event for event, until in times.items() if until <= self._now]:
                    event.set()
            await self._all_back(len(self._waiting))
        self._now = end

    def _nearest(self) -> float:
        """The next time that a task waits for or sleeps until."""
        sleeping = (until for woken, until in self._sleeping.items() if not woken.is_set())
        return min((*self._waiting.values(), *sleeping, inf))

    async def _all_back(self, count: int) -> None:
        """Wait until all woken tasks wait again, `count` in all."""
        while True:
            self._came.clear()
            await asyncio.sleep(0)
            if len(self._waiting) >= count and not any(event.is_set() for event in self._waiting):
                return
            if len(self._waiting) < count:
                await self._came.wait()
