"""Ends spans, many of them little by little.

One request, or one turn, may end thousands of asks. In each round of the loop a few spans are ended
at once. The others wait, in order, for a time slice among readers. An end has the time of its call,
so that no span is longer for having waited.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from licorne_server.fair import TimeSlices

AT_ONCE = 64
"""Spans that are ended at once in a round of the loop, which takes a millisecond or two."""

PEER = "traces"

End = Callable[[], bool | None]
"""Ends a span; returns True to be called again, if there are more to end."""


class Ends:
    """The ends of spans that are due."""

    def __init__(self, time_slices: TimeSlices, on_defect: Callable[[], None]) -> None:
        """Start without ends. `start` begins to work off the queue.

        `on_defect` is called while an exception is handled that is the last of this.
        """
        self._time_slices = time_slices
        self._on_defect = on_defect
        self._waiting: deque[End] = deque()
        # How many more may be ended at once in this round.
        self._at_once = AT_ONCE
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Work off what waits from now on."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="ends of spans")

    async def stop(self) -> None:
        """Work off the rest, a few in each round."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        try:
            while self._waiting:
                for _ in range(AT_ONCE):
                    self._end_next()
                await asyncio.sleep(0)
        except Exception:
            self._on_defect()

    def add(self, end: End) -> None:
        """Call it: now, or after everything that waits already."""
        self._news.set()
        while self._at_once and not self._waiting:
            self._at_once -= 1
            if not end():
                return
        self._waiting.append(end)

    async def _run(self) -> None:
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                self._at_once = AT_ONCE
                while self._waiting:
                    await self._work_off()
        except Exception:
            self._on_defect()

    async def _work_off(self) -> None:
        """Work off the queue for one slice."""
        async with self._time_slices.slice(PEER) as is_over:
            while self._waiting and not is_over():
                self._end_next()

    def _end_next(self) -> None:
        if self._waiting and not self._waiting[0]():
            self._waiting.popleft()
