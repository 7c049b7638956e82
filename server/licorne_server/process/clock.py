"""The clock of the server: its one source of time.

A test hands the server another clock. Only measurements of the process itself, such as how long a
turn took, are made without it.
"""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Gives the time in unix seconds, which never goes back, and waits for a time."""

    def now(self) -> float:
        """Unix seconds."""
        ...

    async def wait(self, until: float | None, event: asyncio.Event) -> None:
        """Return once the event is set or the time `until` has come; None: for the event alone.

        It may set the event itself, and may return early. The caller has to look at the time again.
        """
        ...


class SystemClock:
    """The wall clock's time at the start, carried on by the monotonic clock.

    So a jump of the wall clock moves no deadline, and time never runs backwards.
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
