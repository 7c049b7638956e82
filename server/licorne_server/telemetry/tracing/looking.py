"""The task that examines followed asks: a span gets an event whenever the blocker of its ask changes.

It works in time slices among readers, and sleeps while no ask is followed.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from time import thread_time

from licorne_core.values.ids import RmId
from licorne_server.process.clock import Clock
from licorne_server.process.fair import TimeSlices
from licorne_server.process.loop import stop_task
from licorne_server.telemetry.tracing.ask_spans import AskSpans, FollowedAsk, Key, Stands

UNKNOWN_SECONDS = 10.0
"""Seconds after which an ask that has not reached the core counts as gone."""

LOOK_SECONDS = 1.0
"""Seconds between two examinations of each followed ask, even without a change."""

PAUSE_FACTOR = 50.0
"""Pause between two examinations of an ask, as a multiple of the duration of all examinations."""

MAX_PAUSE = 2.0
"""Longest pause of this kind, in seconds."""

PEER = "traces"


class Looking:
    """Examines followed asks for changes of their blockers."""

    def __init__(
        self,
        asks: AskSpans,
        stands: Stands,
        time_slices: TimeSlices,
        clock: Clock,
        on_defect: Callable[[], None],
    ) -> None:
        """Nothing runs before `start`.

        `stands` gives the blocker of an ask. Spans of asks that left the core are ended. `on_defect` is
        called in the handler of an exception that ends this task.
        """
        self._asks = asks
        self._stands = stands
        self._time_slices = time_slices
        self._clock = clock
        self._on_defect = on_defect
        self._changed: dict[RmId, None] = {}
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the task."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="traces")

    async def stop(self) -> None:
        """Stop the task."""
        await stop_task(self._task)

    def wake(self) -> None:
        """Wake the task if asks are followed."""
        if self._asks.rm_ids():
            self._news.set()

    def changed(self, rm_id: RmId) -> None:
        """Note a change of the RM's books."""
        if self._asks.has(rm_id):
            self._changed[rm_id] = None
            self._news.set()

    async def _run(self) -> None:
        try:
            await self._look_on()
        except Exception:
            self._on_defect()

    async def _look_on(self) -> None:
        due = 0.0
        while True:
            await self._clock.wait(due if self._asks.rm_ids() else None, self._news)
            self._news.clear()
            changed, self._changed = list(self._changed), {}
            if self._clock.now() >= due:
                changed = self._asks.rm_ids()
                due = self._clock.now() + LOOK_SECONDS
            spent = await self._look_at(changed)
            # CPU time of the thread: a busy machine does not lengthen the pause.
            if spent:
                await asyncio.sleep(min(MAX_PAUSE, PAUSE_FACTOR * spent))

    async def _look_at(self, rm_ids: list[RmId]) -> float:
        """Examine the asks of these RMs; returns the CPU seconds used."""
        looks = self._looks(rm_ids)
        spent = 0.0
        while rm_ids:
            async with self._time_slices.slice(PEER) as is_over:
                begin = thread_time()
                is_last = True
                for _ in looks:
                    if is_over():
                        is_last = False
                        break
                spent += thread_time() - begin
            if is_last:
                break
        return spent

    def _looks(self, rm_ids: Iterable[RmId]) -> Iterator[None]:
        """Examine all followed asks of these RMs; yields None after each."""
        for rm_id in rm_ids:
            for key, found in list(self._asks.of(rm_id).items()):
                if self._asks.of(rm_id).get(key) is found:
                    self._look(rm_id, key, found)
                yield None

    def _look(self, rm_id: RmId, key: Key, found: FollowedAsk) -> None:
        now, ask = self._clock.now(), found.ask
        stands = self._stands(rm_id, ask.partition, ask.app_id, ask.key)
        if stands is None:
            if found.known or now - found.span.time > UNKNOWN_SECONDS:
                self._asks.gone(rm_id, key)
            return
        if not stands.reason:
            # The core got the ask before this message: no effect will follow.
            self._asks.drop(rm_id, key)
            return
        found.known = True
        if stands.reason != found.reason:
            about = {"licorne.reason": stands.reason}
            if found.reason:
                about["licorne.reason.before"] = found.reason
            found.reason = stands.reason
            found.span.add_event("reason", now, about)
        if stands.queue != found.queue:
            found.note_queue(stands)
