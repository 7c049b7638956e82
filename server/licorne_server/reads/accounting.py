"""Accounting: reads the meters of all partitions twice a minute, and keeps the sums of each hour."""

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
from licorne_server.process.settings import Settings
from licorne_server.process.walking import walked
from licorne_server.reads.accounting_file import AccountingFile
from licorne_server.reads.resource_hours import HOUR, Hours, Place, Row

log = structlog.get_logger("core.accounting")

FLUSH_SECONDS = 30.0
"""Seconds between two writes: what a server that is killed may lose."""

FRESH_SECONDS = 1.0
"""Seconds for which what was read is good enough for a reader."""

PEER = "accounting"


class Accounting(Periodic):
    """Resource-hours by hour; with a file they survive the server."""

    def __init__(
        self, views: Views, clock: Clock, time_slices: TimeSlices, file: AccountingFile | None
    ) -> None:
        """Start without hours; `start` begins to read meters, in the time slices of readers."""
        super().__init__("accounting", clock, FLUSH_SECONDS)
        self.hours = Hours()
        self._views = views
        self._time_slices = time_slices
        self._file = file
        self._seen: dict[PartitionName, dict[Owner, Metered]] = {}
        self._read_at, self._fresh_until = clock.now(), 0.0
        self._hour = int(self._read_at) // HOUR * HOUR
        self._turn = asyncio.Lock()
        self._is_failing = False
        # Nothing is written into a directory that may be of another server.
        self._is_begun = False

    async def begin(self) -> None:
        """Read what was kept, and begin to account."""
        if self._file is not None:
            try:
                self.hours, begun = await asyncio.to_thread(self._file.read)
            except OSError as error:
                self._failed(error)
                self._file = None
            else:
                self._hour = begun or self._hour
        self._is_begun = True
        self.start()

    async def end(self) -> None:
        """Account for the last time."""
        await self.stop()
        if self._is_begun:
            await self.flush()

    async def _work(self) -> float:
        await self.flush()
        now = self._clock.now()
        # At the end of an hour, so that nothing has to be divided between two.
        return min(now + FLUSH_SECONDS, (now // HOUR + 1) * HOUR)

    async def present(self) -> Hours:
        """All hours, up to a second ago."""
        if self._clock.now() >= self._fresh_until:
            async with self._turn:
                # Those who have waited take what the first one read.
                if self._clock.now() >= self._fresh_until:
                    await self._read()
        return self.hours

    async def flush(self) -> None:
        """Add what was used since the last time, and write it."""
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
        """Add what an owner has used since it was read last."""
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

    async def _write(self) -> None:
        """Write the present hour, and those that are over since the last time behind the others."""
        if self._file is None:
            return
        present = int(self._read_at) // HOUR * HOUR
        try:
            for hour in [hour for hour in self.hours.by_hour if self._hour <= hour < present]:
                rows = dict(self.hours.hour(hour))
                await asyncio.to_thread(self._file.replace_now, hour, rows)
                await asyncio.to_thread(self._file.append, hour, rows)
                self._hour = hour + HOUR
            self._hour = present
            await asyncio.to_thread(self._file.replace_now, present, dict(self.hours.hour(present)))
        except OSError as error:
            self._failed(error)
        else:
            self._is_failing = False

    def _failed(self, error: OSError) -> None:
        """Note a refusal of the disk, once until it is over."""
        if not self._is_failing:
            log.error("accounting not written", error=str(error))
        self._is_failing = True


def accounting_of(settings: Settings, views: Views, clock: Clock, time_slices: TimeSlices) -> Accounting:
    """The accounting of a server, in its state directory if it has one."""
    folder = settings.state_dir
    file = None if folder is None else AccountingFile(folder, settings.worker)
    return Accounting(views, clock, time_slices, file)
