"""A clock that stands still until the test moves it."""

import asyncio
from math import inf

START = 1_700_000_000.0
"""Where the clock begins unless told otherwise, in unix seconds."""


class VirtualClock:
    """Time as a test wants it. What the server does at a time it does at exactly that time."""

    def __init__(self, start: float = START) -> None:
        """Stand at `start`, in unix seconds."""
        self._now = start
        self._waiting: dict[asyncio.Event, float] = {}
        self._came = asyncio.Event()

    def now(self) -> float:
        """Unix seconds."""
        return self._now

    async def wait(self, until: float | None, event: asyncio.Event) -> None:
        """Return when the event is set or the clock was moved to `until`."""
        if until is not None and until <= self._now:
            return
        self._waiting[event] = inf if until is None else until
        self._came.set()
        try:
            await event.wait()
        finally:
            del self._waiting[event]

    async def advance(self, seconds: float) -> None:
        """Move on, stopping at every time that somebody waits for; returns when all wait again."""
        end = self._now + seconds
        while (nearest := min(self._waiting.values(), default=inf)) <= end:
            self._now = max(self._now, nearest)
            due = [event for event, until in self._waiting.items() if until <= self._now]
            for event in due:
                event.set()
            await self._all_back(len(self._waiting))
        self._now = end

    async def _all_back(self, count: int) -> None:
        """Wait until those who were woken have done what was due."""
        while True:
            self._came.clear()
            await asyncio.sleep(0)
            if len(self._waiting) >= count and not any(event.is_set() for event in self._waiting):
                return
            if len(self._waiting) < count:
                await self._came.wait()
