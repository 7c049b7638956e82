"""Events sent to the RM itself over its session, on request (spec § 12.1.1).

They are read from the log like those of any subscriber. They go into the outbox only while it is
nearly empty, so that decisions do not wait behind them, and no RM is held because of its events.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from licorne_server.events.log import EventLog, EventLogs
from licorne_server.events.watch import Over, Overtaken, Watch
from licorne_server.fair import TimeSlices
from licorne_server.rms.rm import Rm, Session
from licorne_server.wire.events import record_of_session, session_events
from licorne_server.wire.responses import Kind, Payload

log = structlog.get_logger("core.event_feed")

FEED_SECONDS = 2.0
"""Seconds that events gather between two messages, unless they fill one."""

FEED_BYTES = 64 * 1024


@asynccontextmanager
async def feeding(rm: Rm, session: Session, logs: EventLogs, time_slices: TimeSlices) -> AsyncIterator[None]:
    """Send events to the RM inside the block, if its session wants them."""
    if not session.callbacks.events:
        yield
        return
    feed = Feed(rm, session, logs.get(rm.rm_id), time_slices)
    task = asyncio.create_task(feed.run(), name=f"events of {rm.rm_id}")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("no more events for the RM", rm_id=rm.rm_id, exc_info=error)


class Feed:
    """Reads the log for one session, on from the event that its last stream came to."""

    def __init__(self, rm: Rm, session: Session, events: EventLog, time_slices: TimeSlices) -> None:
        """Read for a session that was opened or resumed just now."""
        self._rm = rm
        self._is_current = rm.registration_guard()
        self._session = session
        self._events = events
        self._watch = Watch(events, session.next_event, time_slices, f"RM {rm.rm_id}")
        self._sent_at = -FEED_SECONDS

    async def run(self) -> None:
        """Send events until the log ends."""
        with self._events.reading():
            await self._tell_all()

    async def _tell_all(self) -> None:
        while True:
            try:
                await self._due()
                size = self._events.settings.event_request_capacity
                batch = await self._watch.next(record_of_session, size, FEED_BYTES)
            except Overtaken as error:
                self._watch.next_id = error.next_id
                continue
            except Over:
                return
            data = session_events(batch.first_id, batch.data)
            await self._put(Payload(Kind.SESSION, "events", data, batch.events))
            self._session.next_event = self._watch.next_id

    async def _due(self) -> None:
        """Wait for an event, and then until there are enough for a full message or it is time.

        Raises:
            Over: no event will come any more.
        """
        await self._watch.arrival()
        try:
            async with asyncio.timeout_at(self._sent_at + FEED_SECONDS):
                while self._watch.waiting < self._events.settings.event_request_capacity:
                    await self._events.news()
        except TimeoutError:
            pass

    async def _put(self, payload: Payload) -> None:
        """Put a message into the outbox, as soon as there is room in it."""
        while self._is_current():
            if self._rm.outbox.offer(payload):
                self._sent_at = asyncio.get_running_loop().time()
                return
            await asyncio.sleep(FEED_SECONDS)
