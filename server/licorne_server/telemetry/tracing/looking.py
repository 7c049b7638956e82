"""Looks at followed asks, in time slices among readers: are they there, and what blocks them?

An event is added to the span of an ask whenever its blocker changes.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from time import thread_time

from licorne_core.values.ids import RmId
from licorne_server.fair import TimeSlices
from licorne_server.process.clock import Clock
from licorne_server.telemetry.tracing.ask_spans import AskEnds
from licorne_server.telemetry.tracing.followed import FollowedAsk, FollowedAsks, Key, Stands
from licorne_server.telemetry.tracing.spans import PEER, nanoseconds

UNKNOWN_SECONDS = 10.0
"""Seconds that an ask may be on its way to the core; then it is taken for gone."""

REASON_EVENT = "reason"


LOOK_SECONDS = 1.0
"""Seconds between two looks at each followed ask, also without a change."""

PAUSE_FACTOR = 50.0
"""Pause between two looks at an ask, in durations of all looks."""

MAX_PAUSE = 2.0
"""Seconds of such a pause at the most."""


class Looking:
    """The task that looks. Nothing is looked at while no ask is followed."""

    def __init__(
        self,
        followed: FollowedAsks,
        stands: Stands,
        ends: AskEnds,
        time_slices: TimeSlices,
        clock: Clock,
        on_defect: Callable[[], None],
    ) -> None:
        """`start` begins to wait for something to look at.

        `stands` gives the blocker of an ask, and `ends` ends those that are gone. `on_defect` is
        called while an exception is handled that ends the looks.
        """
        self._followed = followed
        self._stands = stands
        self._ends = ends
        self._time_slices = time_slices
        self._clock = clock
        self._on_defect = on_defect
        self._changed: dict[RmId, None] = {}
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="traces")

    async def stop(self) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def wake(self) -> None:
        """Wake the loop of looks, if there are asks to look at."""
        if self._followed.rm_ids():
            self._news.set()

    def changed(self, rm_id: RmId) -> None:
        """Note a change of the RM's books."""
        if self._followed.has(rm_id):
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
            await self._clock.wait(due if self._followed.rm_ids() else None, self._news)
            self._news.clear()
            changed, self._changed = list(self._changed), {}
            if self._clock.now() >= due:
                changed = self._followed.rm_ids()
                due = self._clock.now() + LOOK_SECONDS
            spent = await self._look_at(changed)
            # The thread's own time: a busy machine makes no pause longer.
            if spent:
                await asyncio.sleep(min(MAX_PAUSE, PAUSE_FACTOR * spent))

    async def _look_at(self, rm_ids: list[RmId]) -> float:
        """Look at the asks of these RMs; returns the CPU seconds that it took."""
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
        """Look at all followed asks of these RMs, with a None after each."""
        for rm_id in rm_ids:
            for key, found in list(self._followed.of(rm_id).items()):
                if self._followed.of(rm_id).get(key) is found:
                    self._look(rm_id, key, found)
                yield None

    def _look(self, rm_id: RmId, key: Key, found: FollowedAsk) -> None:
        now, ask = self._clock.now(), found.ask
        stands = self._stands(rm_id, ask.partition, ask.app_id, ask.key)
        if stands is None:
            if found.known or now - found.time > UNKNOWN_SECONDS:
                self._ends.gone(rm_id, key)
            return
        if not stands.reason:
            # It was there before it was sent this time: there is nothing to be told of.
            self._followed.take(rm_id, key)
            self._followed.close(rm_id)
            return
        found.known = True
        if stands.reason != found.reason:
            about = {"licorne.reason": stands.reason}
            if found.reason:
                about["licorne.reason.before"] = found.reason
            found.reason = stands.reason
            found.span.add_event(REASON_EVENT, about, nanoseconds(now))
        if stands.queue != found.queue:
            found.note_queue(stands)
