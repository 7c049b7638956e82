"""Containers of a fake resource manager's allocations: each starts and stops after a while."""

import asyncio
import heapq
from collections.abc import Awaitable, Callable
from itertools import count

from licorne import Allocated, ReleaseRequested, Termination
from licorne_server.process.clock import Clock, SystemClock

StartAfter = float | None | Callable[[Allocated], float | None]
StopAfter = float | None | Callable[[ReleaseRequested], float | None]
"""Seconds by the clock, for all or by the event; None for never."""

Confirm = Callable[[str, Termination], Awaitable[None]]


class Containers:
    """Starts allocated containers and stops those that the scheduler ends, each in its time."""

    def __init__(
        self,
        start_after: StartAfter,
        stop_after: StopAfter,
        confirm: Confirm,
        changed: Callable[[], None],
        clock: Clock | None,
    ) -> None:
        """`confirm` is awaited with what has stopped; `changed` is called after every change."""
        self.running: set[str] = set()
        """The keys of what has started and not stopped."""
        self.stopping: dict[str, Termination] = {}
        """The keys of running containers that the scheduler wants to end, each with the reason."""
        self._start_after = start_after
        self._stop_after = stop_after
        self._confirm = confirm
        self._changed = changed
        self._clock = clock or SystemClock()
        self._due: list[tuple[float, int, str, bool]] = []
        """Heap of actions: due time, a number that keeps the order, key, and True to stop it."""
        self._numbers = count()
        self._news = asyncio.Event()
        self._allocated: set[str] = set()

    def allocated(self, event: Allocated) -> None:
        """Start a container in its time."""
        self._allocated.add(event.key)
        after = self._start_after
        self._plan(after(event) if callable(after) else after, event.key, stop=False)

    def wanted(self, event: ReleaseRequested) -> None:
        """Stop it in its time. A request that comes again changes nothing but the reason."""
        is_new = event.key not in self.stopping
        self.stopping[event.key] = event.termination
        if is_new:
            after = self._stop_after
            self._plan(after(event) if callable(after) else after, event.key, stop=True)

    def gone(self, key: str) -> None:
        """Drop a container that has ended, for whatever reason."""
        self._allocated.discard(key)
        self.running.discard(key)
        self.stopping.pop(key, None)

    async def stop(self, key: str) -> None:
        """Stop now the containers that the scheduler wants to end, and confirm it."""
        wanted = self.stopping.get(key)
        if wanted is not None:
            self.gone(key)
            await self._confirm(key, wanted)

    async def run(self) -> None:
        """Start and stop due containers, until it is cancelled."""
        while True:
            self._news.clear()
            await self._clock.wait(self._due[0][0] if self._due else None, self._news)
            while self._due and self._due[0][0] <= self._clock.now():
                _, _, key, stop = heapq.heappop(self._due)
                if stop:
                    await self.stop(key)
                elif key in self._allocated:
                    self.running.add(key)
                self._changed()

    def _plan(self, after: float | None, key: str, *, stop: bool) -> None:
        if after is not None:
            due = self._clock.now() + after
            heapq.heappush(self._due, (due, next(self._numbers), key, stop))
            self._news.set()
