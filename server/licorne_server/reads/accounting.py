"""Accounting: reads the meters of all partitions twice a minute, and sums them by hour."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import structlog

from licorne_core.messages.events.allocations import Owner
from licorne_core.messages.reports import Metered
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import PartitionName
from licorne_core.views import Views
from licorne_server.process.clock import Clock, Periodic
from licorne_server.process.fair import TimeSlices
from licorne_server.process.walking import walked
from licorne_server.reads.resource_hours import HOUR, Hours, Place, Row
from licorne_server.reads.stored_hours import StoredHours
from licorne_server.store.documents.documents import StoreError

log = structlog.get_logger("core.accounting")

FLUSH_SECONDS = 30.0
"""Seconds between two writes: a killed server may lose the usage since the last one."""

FRESH_SECONDS = 1.0
"""Seconds for which a reading of the meters is reused."""

PEER = "accounting"


class Accounting(Periodic):
    """Resource-hours by hour; stored ones survive the server."""

    def __init__(
        self, views: Views, clock: Clock, time_slices: TimeSlices, stored: StoredHours | None
    ) -> None:
        """Start without hours; `start` begins to read meters, in the time slices of readers."""
        super().__init__("accounting", clock, FLUSH_SECONDS)
        self.hours = Hours()
        self._views = views
        self._time_slices = time_slices
        self._stored = stored
        self._seen: dict[PartitionName, dict[Owner, Metered]] = {}
        self._read_at, self._fresh_until = clock.now(), 0.0
        self._hour = int(self._read_at) // HOUR * HOUR
        self._turn = asyncio.Lock()
        self._is_failing = False
        self._is_begun = False
        # Stored hours are not overwritten before they were read.
        self._is_read = stored is None

    async def begin(self) -> None:
        """Read the stored hours, and begin to account. After a failure a later write reads them first."""
        self._is_begun = True
        await self._restore()
        self.start()

    async def end(self) -> None:
        """Account for the last time."""
        await self.stop()
        if self._is_begun:
            await self.flush()

    async def _work(self) -> float:
        await self.flush()
        now = self._clock.now()
        # Also at the end of an hour, so that no usage has to be divided between two.
        return min(now + FLUSH_SECONDS, (now // HOUR + 1) * HOUR)

    async def present(self) -> Hours:
        """All hours, up to a second ago."""
        if self._clock.now() >= self._fresh_until:
            async with self._turn:
                # Callers that have waited reuse the reading of the first one.
                if self._clock.now() >= self._fresh_until:
                    await self._read()
        return self.hours

    async def flush(self) -> None:
        """Add the usage since the last time, and write it."""
        async with self._turn:
            await self._read()
            await self._write()

    async def _read(self) -> None:
        begin, now = self._read_at, self._clock.now()
        await walked(self._steps(begin, now), partial(self._time_slices.slice, PEER))
        self._read_at, self._fresh_until = now, now + FRESH_SECONDS

    def _steps(self, begin: float, now: float) -> Iterator[None]:
        names = self._views.partition_names()
        for gone in self._seen.keys() - set(names):
            del self._seen[gone]
        for name in names:
            yield
            with suppress(NotFound):
                for found in self._views.metered(name, now):
                    if found is None:
                        yield
                    else:
                        self._add(name, found, begin, now)

    def _add(self, name: PartitionName, found: Metered, begin: float, now: float) -> None:
        """Add the usage of an owner since its last reading."""
        seen = self._seen.setdefault(name, {})
        before = seen.get(found.owner)
        seen[found.owner] = found
        if before is None or before.since != found.since:
            row = Row(dict(found.used), found.ended, found.preempted, dict(found.lost))
            begin = max(begin, found.since)
        else:
            row = Row(
                {key: value - before.used.get(key, 0) for key, value in found.used.items()},
                found.ended - before.ended,
                found.preempted - before.preempted,
                {key: value - before.lost.get(key, 0) for key, value in found.lost.items()},
            )
        if not row.is_empty:
            self.hours.spread(min(begin, now), now, Place(name, *found.owner), row)

    async def _restore(self) -> None:
        """Add what was counted meanwhile to the stored hours, unless they cannot be read now."""
        if self._stored is None or self._is_read:
            return
        try:
            hours = await self._stored.read()
        except StoreError as error:
            self._failed(error)
            return
        for hour, rows in self.hours.by_hour.items():
            for place, row in rows.items():
                hours.add(hour, place, row)
        self.hours, self._is_read = hours, True

    async def _write(self) -> None:
        """Write the hours that changed since the last time, up to the present one."""
        await self._restore()
        if self._stored is None or not self._is_read:
            return
        try:
            await self._stored.write(self.hours, self._hour)
        except StoreError as error:
            self._failed(error)
        else:
            self._is_failing = False
            self._hour = int(self._read_at) // HOUR * HOUR

    def _failed(self, error: StoreError) -> None:
        """Log a failure of the store, once until a write succeeds."""
        if not self._is_failing:
            log.error("accounting not stored", error=str(error))
        self._is_failing = True
