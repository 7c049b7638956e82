"""Accounting: reads the meters of all partitions twice a minute, and sums them by hour.

The hours are stored as documents: one for each day, and one that lists the days. A day is listed before it is
written, and deleted before it is removed from the list: a listed day without a document is empty. Days begin
at midnight UTC.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple, TypeVar

import structlog

from licorne_core.messages.events.allocations import Owner
from licorne_core.messages.reports import Metered
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import PartitionName
from licorne_core.views import Views
from licorne_server.process.clock import Clock, Periodic
from licorne_server.process.fair import TimeSlices, walked
from licorne_server.process.settings import Settings
from licorne_server.reads.resource_hours import HOUR, MOST_DAYS, Hours, HoursOwner, HoursRow
from licorne_server.store.documents.documents import Document, Documents, StoreError
from licorne_server.store.documents.encoding import Count, decode, encode
from licorne_server.store.documents.owned import Damaged, pack, unpack

log = structlog.get_logger("core.accounting")

T = TypeVar("T")

PREFIX = "accounting/"
"""Prefix of the keys of all documents; the number of the worker follows, and then the day."""

AT_ONCE = 8
"""Number of documents that are read at the same time."""

DAY = 24 * HOUR
"""Seconds that a document covers: with a document for each hour, many workers would have too many."""


class StoredHours:
    """The hours of one server, or of one worker."""

    def __init__(self, documents: Documents, worker: int = 0) -> None:
        """Create an object that has read nothing yet; `worker` is 0 for a server that is no worker."""
        self._documents = documents
        self._list = f"{PREFIX}{worker}"
        self._listed: set[int] = set()

    async def read(self) -> Hours:
        """Read all hours; damaged days are logged.

        Raises:
            StoreError: the store does not answer.
        """
        hours = Hours()
        listed = set(await self._decoded(self._list, _days) or ())
        days = sorted(listed)[-MOST_DAYS - 1 :]
        for first in range(0, len(days), AT_ONCE):
            some = days[first : first + AT_ONCE]
            for rows in await asyncio.gather(
                *(self._decoded(self._key(day), partial(_rows, day)) for day in some)
            ):
                for row in rows or ():
                    hours.add(*row)
        self._listed = listed
        return hours

    async def write(self, hours: Hours, since: int) -> None:
        """Write the days with hours from `since` on, and delete dropped ones.

        Raises:
            StoreError: the store does not answer; unwritten days are unchanged.
        """
        wanted = {day_of(hour) for hour in hours.by_hour}
        await self._put_list(self._listed | wanted)
        for day in sorted(day for day in wanted if day + DAY > since):
            rows = {hour: dict(hours.hour(hour)) for hour in range(day, day + DAY, HOUR)}
            content = await asyncio.to_thread(_encoded, rows)
            await self._put(self._key(day), content)
        for day in self._listed - wanted:
            await self._put(self._key(day), None)
        await self._put_list(wanted)

    async def _put_list(self, days: set[int]) -> None:
        if days != self._listed:
            await self._put(self._list, encode(sorted(days)))
            self._listed = days

    async def _put(self, key: str, value: bytes | None) -> None:
        def change(_: Document) -> bytes | None:
            return value

        await self._documents.update(key, change)

    async def _decoded(self, key: str, decode: Callable[[bytes], T]) -> T | None:
        """The decoded content of a document; None if it is missing or damaged."""
        document = await self._documents.read(key)
        if not document.revision:
            return None
        try:
            return await asyncio.to_thread(decode, document.value)
        except (Damaged, ValueError) as error:
            log.error("accounting is damaged", key=key, reason=str(error))
            return None

    def _key(self, day: int) -> str:
        return f"{self._list}/{day}"


async def drop_old(documents: Documents, now: float) -> None:
    """Delete old days of all workers, because removed workers no longer delete their own.

    This is for documents on the disk of this process; after a failure they remain until the next start.
    """
    oldest = day_of(int(now)) - MOST_DAYS * DAY
    found = documents.found(PREFIX)
    days = {key: key.rpartition("/") for key in found if key.count("/") == 2}
    old = [key for key, (_, _, day) in days.items() if int(day) < oldest]
    used = {of for key, (of, _, _) in days.items() if key not in old}
    lists = sorted({days[key][0] for key in old} - used)
    try:
        for key in (*old, *filter(found.__contains__, lists)):
            await documents.compare_and_set(key, None, found[key].revision)
    except StoreError as error:
        log.warning("old accounting not deleted", error=str(error))


def stored_hours_of(settings: Settings, documents: Documents) -> StoredHours | None:
    """The hours in the state directory; None if there is no directory."""
    return None if settings.state_dir is None else StoredHours(documents, settings.worker)


def day_of(hour: int) -> int:
    """The beginning of the day of an hour, in unix seconds."""
    return hour - hour % DAY


def _days(value: bytes) -> list[int]:
    """The days of a list.

    Raises:
        ValueError: the bytes are no such list.
    """
    found = decode(value, list[Count])
    if any(day % DAY for day in found):
        raise ValueError("not all of them are days")
    return found


def _encoded(hours: Mapping[int, Mapping[HoursOwner, HoursRow]]) -> bytes:
    """The document of a day. Each row is encoded as a line, so that other threads can run in between."""
    return pack(b"\n".join(_line(hour, *row) for hour, rows in hours.items() for row in rows.items()))


class _DocumentRow(NamedTuple):
    """A row of a document."""

    hour: Count
    partition: str
    queue: str
    user: str
    group: str
    used: dict[str, int]
    lost: dict[str, int]
    ended: Count
    preempted: Count
    passing: dict[str, int] = {}  # noqa: RUF012 - never changed
    """Missing in a row without usage that passed claims."""


def _line(hour: int, place: HoursOwner, row: HoursRow) -> bytes:
    line = _DocumentRow(hour, *place, row.used, row.lost, row.ended, row.preempted, row.passing)
    return encode(line if row.passing else line[:-1])


def _rows(day: int, value: bytes) -> list[tuple[int, HoursOwner, HoursRow]]:
    """The rows of a day.

    Raises:
        Damaged, ValueError: the bytes are no such rows.
    """
    return [_row(day, line) for line in unpack(value).splitlines()]


def _row(day: int, line: bytes) -> tuple[int, HoursOwner, HoursRow]:
    row = decode(line, _DocumentRow)
    if day_of(row.hour) != day or row.hour % HOUR:
        raise ValueError("an hour of another day")
    place = HoursOwner(row.partition, row.queue, row.user, row.group)
    return row.hour, place, HoursRow(row.used, row.ended, row.preempted, row.lost, dict(row.passing))


def _gained(now: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    return {name: value - before.get(name, 0) for name, value in now.items()}


FLUSH_SECONDS = 30.0
"""Seconds between two writes: a killed server may lose the usage since the last one."""

FRESH_SECONDS = 1.0
"""Seconds for which a reading of the meters is reused."""

PEER = "accounting"


class Accounting(Periodic):
    """Resource-hours by hour; stored hours survive the server."""

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
        # Stored hours are not overwritten before they have been read.
        self._is_read = stored is None

    async def begin(self) -> None:
        """Read the stored hours, and begin to account. If reading fails, a later write tries it again."""
        self._is_begun = True
        await self._restore()
        self.start()

    async def end(self) -> None:
        """Account for the last time, and write the hours."""
        await self.stop()
        if self._is_begun:
            await self.flush()

    async def _work(self) -> float:
        await self.flush()
        now = self._clock.now()
        # Usage is flushed at the end of each hour, so that it need not be divided between two hours.
        return min(now + FLUSH_SECONDS, (now // HOUR + 1) * HOUR)

    async def present(self) -> Hours:
        """All hours, up to a second ago."""
        if self._clock.now() >= self._fresh_until:
            async with self._turn:
                # Callers that have waited reuse the reading of the first caller.
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
            row = HoursRow(
                dict(found.used), found.ended, found.preempted, dict(found.lost), dict(found.passing)
            )
            begin = max(begin, found.since)
        else:
            row = HoursRow(
                _gained(found.used, before.used),
                found.ended - before.ended,
                found.preempted - before.preempted,
                _gained(found.lost, before.lost),
                _gained(found.passing, before.passing),
            )
        if not row.is_empty:
            self.hours.spread(min(begin, now), now, HoursOwner(name, *found.owner), row)

    async def _restore(self) -> None:
        """Add the hours counted meanwhile to the stored hours, unless the latter cannot be read."""
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
        """Write the hours that have changed since the last write, up to the current one."""
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
        """Log a failure of the store, but only the first one until a write succeeds."""
        if not self._is_failing:
            log.error("accounting not stored", error=str(error))
        self._is_failing = True
