"""Where the server gets the time from, so that a test can hand it another one."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """The time in unix seconds, and how to wait for it. It never goes back."""

    def now(self) -> float:
        """Unix seconds."""
        ...

    async def wait(self, until: float | None, event: asyncio.Event) -> None:
        """Return once the event is set or `until` has come; None waits for the event alone.

        It may set the event itself, and may return early: whoever waits looks again.
        """
        ...


class SystemClock:
    """The wall clock as it was at the start, carried on by the monotonic one.

    A jump of the wall clock therefore moves no deadline, and time never runs backwards.
    """

    def __init__(self) -> None:
        """Read both clocks once."""
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        """Unix seconds."""
        return self._offset + time.monotonic()

    async def wait(self, until: float | None, event: asyncio.Event) -> None:
        """Wait on the loop's timer."""
        if until is None:
            await event.wait()
            return
        timer = asyncio.get_running_loop().call_later(max(0.0, until - self.now()), event.set)
        try:
            await event.wait()
        finally:
            timer.cancel()
