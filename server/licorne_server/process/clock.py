"""The clock of the server: its only source of time.

Tests pass another clock to the server. Only measurements of the process itself, such as the duration
of a turn, use no clock of this module.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from typing import Protocol

import structlog

from licorne_server.process.loop import stop_task
from licorne_server.process.lost_lines import note_lost

log = structlog.get_logger("core.periodic")


class Clock(Protocol):
    """Returns the time in unix seconds, which never decreases, and waits for a time."""

    def now(self) -> float:
        """Unix seconds."""
        ...

    async def wait(self, until: float | None, event: asyncio.Event) -> None:
        """Return once the event is set or the time `until` is reached; None waits only for the event.

        The clock may set the event, and may return early: the caller has to read the time again.
        """
        ...


class SystemClock:
    """The wall clock's time at the start, advanced by the monotonic clock.

    So a jump of the wall clock moves no deadline, and the time never decreases.
    """

    def __init__(self) -> None:
        """Read both clocks once."""
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        """Unix seconds."""
        return self._offset + time.monotonic()

    async def wait(self, until: float | None, event: asyncio.Event) -> None:
        """Wait with a timer of the event loop."""
        if until is None:
            await event.wait()
            return
        timer = asyncio.get_running_loop().call_later(max(0.0, until - self.now()), event.set)
        try:
            await event.wait()
        finally:
            timer.cancel()


class Periodic(ABC):
    """A task that works whenever it is due by a clock, and continues after failures."""

    def __init__(self, name: str, clock: Clock, seconds: float) -> None:
        """Work for the first time `seconds` after the start, and again `seconds` after a failure."""
        self._name = name
        self._clock = clock
        self._seconds = seconds
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the task, which first waits until its work is due."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name=self._name)

    async def stop(self) -> None:
        """Cancel the task, and wait for its end."""
        await stop_task(self._task)

    @abstractmethod
    async def _work(self) -> float:
        """Work once; returns the next time of work, in unix seconds. A failure is logged."""

    async def _run(self) -> None:
        woken = asyncio.Event()
        due = self._clock.now() + self._seconds
        while True:
            await self._clock.wait(due, woken)
            woken.clear()
            if self._clock.now() >= due:
                due = await self._next()

    async def _next(self) -> float:
        try:
            return await self._work()
        except Exception:
            # Logging may fail as well; even then the task continues.
            try:
                log.exception("periodic work failed", task=self._name)
            except Exception:
                note_lost("periodic work failed")
            return self._clock.now() + self._seconds
