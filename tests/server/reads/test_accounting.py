"""Accounting: resource-hours in memory and in documents, over hours, restarts and bad days."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from licorne_core.messages.commands import TerminationType
from licorne_server.process.fair import TimeSlices
from licorne_server.reads.accounting import (
    AT_ONCE,
    DAY,
    FLUSH_SECONDS,
    Accounting,
    StoredHours,
    day_of,
    drop_old,
)
from licorne_server.reads.resource_hours import HOUR, MOST_DAYS, Hours, HoursOwner, HoursRow, in_hours
from licorne_server.store.documents.disk import Disk
from licorne_server.store.documents.documents import Document, Documents, StoreError
from licorne_server.store.documents.kept import Kept
from licorne_server.store.documents.owned import pack
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, release, releases
from support.core.driver import Driver
from support.server.accounted import BEGIN, A, B, row, totals


@asynccontextmanager
async def directory(folder: Path, disk: Disk | None = None) -> AsyncIterator[Kept]:
    """The documents of a server, which is stopped at the end of the block."""
    documents = Kept(disk or Disk(folder))
    documents.open()
    yield documents
    await documents.close()


async def loaded(folder: Path) -> Hours:
    """The rows found by a server that starts."""
    async with directory(folder) as documents:
        return await StoredHours(documents).read()


def hours_of(*rows: tuple[int, HoursOwner, HoursRow]) -> Hours:
    """Hours with these rows."""
    hours = Hours()
    for each in rows:
        hours.add(*each)
    return hours


async def test_all_rows_are_restored(tmp_path: Path) -> None:
    """Hours are restored, for any owners and amounts, those of each worker separately."""
    large = HoursRow({"vcore": 10**30, "é": 0}, 10**6, 1, {"gpu": 1}, {"vcore": 10**29})
    hours = hours_of(
        (BEGIN, A, row(1)), (BEGIN, B, row(2, ended=5, preempted=2, lost=1)), (BEGIN + HOUR, A, large)
    )
    async with directory(tmp_path) as documents:
        await StoredHours(documents).write(hours, 0)
        await StoredHours(documents, 1).write(hours_of((BEGIN, B, row(7))), 0)
    assert (await loaded(tmp_path)).by_hour == hours.by_hour
    async with directory(tmp_path) as documents:
        assert totals(await StoredHours(documents, 1).read()) == {(BEGIN, B): {"vcore": 7.0}}


async def test_only_unfinished_days_are_rewritten(tmp_path: Path) -> None:
    """A past day is not rewritten; one beyond the retention is deleted on the disk, too."""
    hours = hours_of((BEGIN, A, row(1)), (BEGIN + DAY, A, row(2)))
    async with directory(tmp_path) as documents:
        stored = StoredHours(documents)
        await stored.write(hours, 0)
        before = documents.get(f"accounting/0/{day_of(BEGIN)}")
        hours.add(BEGIN + DAY, A, row(1))
        await stored.write(hours, BEGIN + DAY)
        assert documents.get(f"accounting/0/{day_of(BEGIN)}") == before
        late = BEGIN + 1000 * 24 * HOUR
        hours.add(late, A, row(1))
        await stored.write(hours, late)
        assert set(documents.found("accounting/")) == {"accounting/0", f"accounting/0/{day_of(late)}"}
    assert list((await loaded(tmp_path)).by_hour) == [late]


class DyingDisk(Disk):
    """A disk that accepts a number of writes and refuses later ones."""

    left = 0

    def write(self, name: str, document: Document | None) -> None:
        """Write, or refuse."""
        if not self.left:
            raise OSError("no room")
        self.left -= 1
        super().write(name, document)


@pytest.mark.parametrize("writes", range(6))
async def test_a_crash_between_two_writes_counts_nothing_twice(tmp_path: Path, writes: int) -> None:
    """After a crash each hour has the old or the new value, and the next server continues from it."""
    old = hours_of((BEGIN, A, row(1)), (BEGIN + DAY, A, row(2)))
    new = hours_of((BEGIN + DAY, A, row(3)), (BEGIN + 2 * DAY, A, row(4)))
    disk = DyingDisk(tmp_path)
    async with directory(tmp_path, disk) as documents:
        disk.left = 10
        stored = StoredHours(documents)
        await stored.write(old, 0)
        disk.left = writes
        with suppress(StoreError):
            await stored.write(new, BEGIN + DAY)
    for hour, rows in (await loaded(tmp_path)).by_hour.items():
        assert rows in (old.hour(hour), new.hour(hour))
    async with directory(tmp_path) as documents:
        stored = StoredHours(documents)
        hours = await stored.read()
        assert set(hours.by_hour) >= {BEGIN + DAY}
        await stored.write(new, 0)
        assert len(documents.found("accounting/")) == 3
    assert (await loaded(tmp_path)).by_hour == new.by_hour


def line(items: str) -> bytes:
    """A document of one line."""
    return pack(f"[{items}]".encode())


async def test_a_damaged_day_is_named_and_left_out(tmp_path: Path) -> None:
    """All other days count, whatever the contents of its document."""
    good = hours_of(*[(BEGIN + number * DAY, A, row(1)) for number in range(7)])
    bad = (
        b"nonsense",
        pack(b"[]"),
        line(f'{BEGIN + DAY * 2}, "p", "q", "u", "g", {{"vcore": true}}, {{}}, 0, 0'),
        line(f'{BEGIN + DAY * 3}, "p", "q", "u", "g", {{"vcore": 1.5}}, {{}}, 0, 0'),
        line(f'{BEGIN + DAY * 4}, "p", "q", 3, "g", {{}}, {{}}, 0, 0'),
        line(f'{BEGIN}, "p", "q", "u", "g", {{}}, {{}}, 0, 0'),
    )
    async with directory(tmp_path) as documents:
        await StoredHours(documents).write(good, 0)
        for number, value in enumerate(bad):
            key = f"accounting/0/{day_of(BEGIN + number * DAY)}"
            await documents.compare_and_set(key, value, documents.get(key).revision)
    with capture_logs() as lines:
        hours = await loaded(tmp_path)
    assert totals(hours) == {(BEGIN + len(bad) * DAY, A): {"vcore": 1.0}}
    assert [line["event"] for line in lines] == ["accounting is damaged"] * len(bad)


class Played:
    """A core with random allocations, whose usage is integrated as well, and a clock that the test moves."""

    def __init__(self, seed: int, begin: float, documents: Documents | None = None) -> None:
        """Begin at a time in Unix seconds."""
        self.draw = random.Random(seed)
        self.driver = Driver()
        self.driver.now = begin
        stored = None if documents is None else StoredHours(documents)
        self.accounting = Accounting(self.driver.views, self, TimeSlices(lambda: False), stored)
        self.plain: Counter[tuple[int, str]] = Counter()
        self.running: dict[str, tuple[str, int]] = {}
        self.kept: dict[str, int] = {}
        self.ended = 0
        leaves = "[{name: a}, {name: b, resources: {guaranteed: {vcore: 8m}}}]"
        self.driver.do(
            register(config(leaves)),
            nodes(node("n1", vcore=1000)),
            apps(app("root.a", "root.a", user="ann"), app("root.b", "root.b", user="bob")),
        )

    def keep_alive(self) -> None:
        """Place an endless allocation in each application, which would complete without any."""
        for queue in ("root.a", "root.b"):
            self.kept[queue] = 1
            self.driver.do(asks(ask(queue, "kept", vcore=1)))

    def now(self) -> float:
        """The time, as of a `Clock`."""
        return self.driver.now

    async def wait(self, until: float | None, event: asyncio.Event) -> None:
        """Never return, because the test flushes."""
        await event.wait()

    def integrated(self, seconds: float) -> None:
        """Let time pass within an hour, and integrate the usage."""
        for queue, size in (*self.running.values(), *self.kept.items()):
            self.plain[int(self.driver.now) // HOUR * HOUR, queue] += size * round(seconds * 1e6)
        self.driver.now += seconds

    async def pass_time(self, seconds: float) -> None:
        """Advance the time; a flush follows the end of each hour, as on the server."""
        end = self.driver.now + seconds
        while self.driver.now < end:
            boundary = (self.driver.now // HOUR + 1) * HOUR
            self.integrated(min(end, boundary) - self.driver.now)
            if self.driver.now == boundary:
                await self.accounting.flush()

    async def act(self) -> None:
        """Allocate, end an allocation, let time pass or flush."""
        queue, kind = self.draw.choice(["root.a", "root.b"]), self.draw.random()
        if kind < 0.3 and self.running:
            key = self.draw.choice(list(self.running))
            queue, _ = self.running.pop(key)
            self.ended += 1
            self.driver.do(releases(release(queue, key)))
        elif kind < 0.6:
            key, size = f"k{self.draw.random()}", self.draw.randint(1, 9)
            self.running[key] = (queue, size)
            self.driver.do(asks(ask(queue, key, vcore=size)))
        elif kind < 0.9:
            await self.pass_time(self.draw.choice([0.25, 7, 1800, 9000]))
        else:
            await self.accounting.flush()


def by_queue(hours: Hours) -> Counter[tuple[int, str]]:
    """The usage by hour and leaf, in amounts times microseconds."""
    found: Counter[tuple[int, str]] = Counter()
    for hour, rows in hours.by_hour.items():
        for place, one in rows.items():
            found[hour, place.queue] += one.used.get("vcore", 0)
    return +found


async def test_accounting_is_a_plain_integration(tmp_path: Path) -> None:
    """Over hours and several runs of a server the usage of each queue in each hour is exact."""
    whole: Counter[tuple[int, str]] = Counter()
    ended, begin = 0, BEGIN + 1234.5
    for seed in range(4):
        async with directory(tmp_path) as documents:
            played = Played(seed, begin, documents)
            await played.accounting.begin()
            played.keep_alive()
            for _ in range(60):
                await played.act()
            await played.accounting.end()
        whole += played.plain
        ended += played.ended
        begin = played.driver.now + 100
        assert by_queue(played.accounting.hours) == whole
    hours = await loaded(tmp_path)
    assert len(by_queue(hours)) > 20
    assert by_queue(hours) == whole
    assert sum(row.ended for rows in hours.by_hour.values() for row in rows.values()) == ended


async def test_a_killed_server_loses_what_was_not_flushed(tmp_path: Path) -> None:
    """A killed server loses the usage since its last flush, and nothing else."""
    async with directory(tmp_path) as documents:
        played = Played(1, BEGIN + 60.0, documents)
        await played.accounting.begin()
        played.driver.do(asks(ask("root.a", "k", vcore=10)))
        await played.pass_time(100)
        await played.accounting.flush()
        await played.pass_time(FLUSH_SECONDS)
        await played.accounting.stop()
    found = await loaded(tmp_path)
    assert in_hours(found.hour(BEGIN)[A].used) == {"vcore": pytest.approx(10 * 100 / HOUR)}


async def test_preempted_work_counts_as_lost() -> None:
    """All usage of a preempted allocation counts as lost, and the allocation as ended."""
    played = Played(1, BEGIN + 60.0)
    driver = played.driver
    driver.do(asks(*[ask("root.a", f"k{n}", vcore=500, policy="s") for n in range(2)]))
    await played.pass_time(1700)
    driver.do(asks(ask("root.b", "wants", vcore=8, policy="o")))
    driver.wait(100)
    [victim] = driver.views.preemptions(driver.views.resolve("[rm1]default"))
    why = TerminationType.PREEMPTED_BY_SCHEDULER
    driver.do(releases(release("root.a", victim.key, why=why)))
    row = (await played.accounting.present()).hour(BEGIN)[A]
    assert (row.ended, row.preempted) == (1, 1)
    assert in_hours(row.lost) == {"vcore": pytest.approx(500 * 1800 / HOUR)}


async def test_a_refusing_disk_is_logged_once(tmp_path: Path) -> None:
    """Accounting continues in memory, and everything is written once the disk works."""
    disk = DyingDisk(tmp_path)
    async with directory(tmp_path, disk) as documents:
        played = Played(1, BEGIN + 60.0, documents)
        await played.accounting.end()
        assert not documents.found("")
        with capture_logs() as lines:
            await played.accounting.begin()
            played.driver.do(asks(ask("root.a", "k", vcore=10)))
            for writes in (0, 0, 1):
                disk.left = writes
                await played.pass_time(HOUR / 2)
                await played.accounting.flush()
        assert [line["event"] for line in lines] == ["accounting not stored"]
        disk.left = 100
        await played.accounting.end()
    assert (await loaded(tmp_path)).by_hour == played.accounting.hours.by_hour


class Slow(Kept):
    """Documents whose first reads fail, and whose later reads are slow."""

    failures, reads, most = 0, 0, 0

    async def read(self, key: str) -> Document:
        """Fail, or answer after other tasks had their turns."""
        if self.failures:
            self.failures -= 1
            raise StoreError(f"no answer about {key}")
        self.reads += 1
        self.most = max(self.most, self.reads)
        await asyncio.sleep(0)
        self.reads -= 1
        return await super().read(key)


async def test_hours_that_cannot_be_read_at_the_start_are_read_later() -> None:
    """Hours that cannot be read at the start are not overwritten; later ones are added to them."""
    documents = Slow()
    old = hours_of(*[(BEGIN - number * DAY, A, row(1)) for number in range(3 * AT_ONCE)])
    await StoredHours(documents).write(old, 0)
    documents.failures = 2
    before, played = dict(documents.found("")), Played(1, BEGIN + 60.0, documents)
    with capture_logs() as lines:
        await played.accounting.begin()
        played.keep_alive()
        await played.pass_time(100)
        await played.accounting.flush()
        assert documents.found("") == before
        await played.pass_time(100)
        await played.accounting.end()
    assert [line["event"] for line in lines] == ["accounting not stored"]
    assert by_queue(played.accounting.hours) == by_queue(old) + played.plain
    assert (await StoredHours(documents).read()).by_hour == played.accounting.hours.by_hour
    assert 1 < documents.most <= AT_ONCE


async def test_hours_of_a_removed_worker_end_with_the_retention() -> None:
    """A day is deleted after the retention whoever wrote it, and the list with the last day."""
    documents, late = Kept(), BEGIN + 2 * DAY
    await StoredHours(documents, 1).write(hours_of((BEGIN, A, row(1)), (late, A, row(1))), 0)
    await StoredHours(documents, 2).write(hours_of((BEGIN, A, row(1))), 0)
    await drop_old(documents, BEGIN + MOST_DAYS * DAY)
    assert len(documents.found("accounting/")) == 5
    await drop_old(documents, BEGIN + (MOST_DAYS + 1) * DAY)
    assert documents.found("accounting/").keys() == {"accounting/1", f"accounting/1/{day_of(late)}"}
