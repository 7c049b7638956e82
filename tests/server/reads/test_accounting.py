"""Accounting: resource-hours in memory and in files, over hours, restarts and bad days."""

import asyncio
import os
import random
from collections import Counter
from errno import ENOSPC
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from licorne_core.messages.commands import TerminationType
from licorne_server.process.fair import TimeSlices
from licorne_server.reads import accounting_file
from licorne_server.reads.accounting import FLUSH_SECONDS, Accounting
from licorne_server.reads.accounting_file import COLUMNS, AccountingFile
from licorne_server.reads.resource_hours import HOUR, Hours, in_hours
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, release, releases
from support.core.driver import Driver
from support.server.accounted import BEGIN, A, B, row, totals


def loaded(folder: Path) -> tuple[Hours, int | None]:
    """What the files of a folder have."""
    return AccountingFile(folder).read()


def test_the_files_have_every_row(tmp_path: Path) -> None:
    """Hours that are over follow one another, the present one is replaced; names have any characters."""
    file = AccountingFile(tmp_path)
    first = {A: row(1), B: row(2, ended=5, preempted=2, lost=1)}
    file.replace_now(BEGIN, first)
    file.append(BEGIN, first)
    for value in (1, 7):
        file.replace_now(BEGIN + HOUR, {B: row(value)})
    hours, begun = loaded(tmp_path)
    assert begun == BEGIN + HOUR
    assert totals(hours) == {
        (BEGIN, A): {"vcore": 1.0},
        (BEGIN, B): {"vcore": 2.0},
        (BEGIN + HOUR, B): {"vcore": 7.0},
    }
    kept = hours.hour(BEGIN)[B]
    assert (kept.ended, kept.preempted, in_hours(kept.lost)) == (5, 2, {"vcore": 1.0})
    text = (tmp_path / "accounting.csv").read_text()
    assert text.splitlines()[0] == ",".join(COLUMNS)
    assert "2023-11-14T22:00:00Z,rm1,default,root.a,ann,,vcore,1.0,0.0" in text


@pytest.mark.parametrize("left", [0, 1, 40, 10_000])
def test_an_hour_that_was_begun_to_be_appended_counts_once(tmp_path: Path, left: int) -> None:
    """A server may end anywhere between the two files, and in the middle of a line."""
    file, before = AccountingFile(tmp_path), 0
    for n in range(2):
        rows = {A: row(1), B: row(2, ended=1)}
        file.replace_now(BEGIN + n * HOUR, rows)
        before = (tmp_path / "accounting.csv").stat().st_size if n else 0
        file.append(BEGIN + n * HOUR, rows)
    over = tmp_path / "accounting.csv"
    over.write_bytes(over.read_bytes()[: before + left])
    for _ in range(2):
        hours, begun = loaded(tmp_path)
        assert {hour: len(rows) for hour, rows in hours.by_hour.items()} == {BEGIN: 2, BEGIN + HOUR: 2}
        assert hours.hour(BEGIN + HOUR)[B].ended == 1
        assert begun == BEGIN + HOUR
    file.append(BEGIN + HOUR, {A: row(1), B: row(2, ended=1)})
    file.replace_now(BEGIN + 2 * HOUR, {A: row(1)})
    assert sum(value["vcore"] for value in totals(loaded(tmp_path)[0]).values()) == 7.0


def test_bad_lines_are_named_and_left_out(tmp_path: Path) -> None:
    """Everything else counts, whatever stands in the file."""
    good = "2023-11-14T22:00:00Z,rm1,default,root.a,ann,,vcore,1.0,0.0\n"
    bad = (
        "nonsense\n",
        good.replace("1.0", "nan"),
        good.replace("1.0", "1e400"),
        good.replace("22:00", "22:01"),
        good.replace("rm1", "r" * 9_000),
        good.replace("vcore,1.0,0.0", f"#allocations,{10**20},0"),
        good.replace("vcore,1.0,0.0", "#allocations,1,-1"),
        "\n",
    )
    (tmp_path / "accounting.csv").write_text(",".join(COLUMNS) + "\n" + good + "".join(bad) + good)
    with capture_logs() as lines:
        hours, begun = loaded(tmp_path)
    assert (totals(hours), begun) == ({(BEGIN, A): {"vcore": 2.0}}, None)
    assert hours.hour(BEGIN)[A].ended == 0
    assert {line["line"] for line in lines if "line" in line} >= {3, 4, 5, 6}


def test_the_file_is_cut_by_whole_hours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond its bytes or its days the oldest hours go, and the newest stay."""
    monkeypatch.setattr(accounting_file, "MOST_BYTES", 2_000)
    file = AccountingFile(tmp_path)
    for n in range(40):
        file.append(BEGIN + n * HOUR, {A: row(n), B: row(1)})
        assert (tmp_path / "accounting.csv").stat().st_size <= 2_300
    hours, _ = loaded(tmp_path)
    kept = list(hours.by_hour)
    assert kept == list(range(kept[0], BEGIN + 40 * HOUR, HOUR))
    assert all(len(rows) == 2 for rows in hours.by_hour.values())
    assert 5 < len(kept) < 40
    file.append(BEGIN + 1000 * 24 * HOUR, {A: row(1)})
    assert list(loaded(tmp_path)[0].by_hour) == [BEGIN + 1000 * 24 * HOUR]


class Played:
    """A core with random allocations under a clock moved by hand, and a plain integration of them."""

    def __init__(self, seed: int, begin: float, folder: Path | None = None) -> None:
        """Begin at a time."""
        self.draw = random.Random(seed)
        self.driver = Driver()
        self.driver.now = begin
        file = None if folder is None else AccountingFile(folder)
        self.accounting = Accounting(self.driver.views, self, TimeSlices(lambda: False), file)
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
        """Have an allocation in each application that never ends: without any it would complete."""
        for queue in ("root.a", "root.b"):
            self.kept[queue] = 1
            self.driver.do(asks(ask(queue, "kept", vcore=1)))

    def now(self) -> float:
        """The time, as of a `Clock`."""
        return self.driver.now

    async def wait(self, until: float | None, event: asyncio.Event) -> None:
        """Never return: the test flushes by hand."""
        await event.wait()

    def integrated(self, seconds: float) -> None:
        """Let time pass within an hour, and integrate plainly."""
        for queue, size in (*self.running.values(), *self.kept.items()):
            self.plain[int(self.driver.now) // HOUR * HOUR, queue] += size * round(seconds * 1e6)
        self.driver.now += seconds

    async def pass_time(self, seconds: float) -> None:
        """Let time pass; a flush comes with the end of each hour, as on the server."""
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
    """What was used by hour and leaf, in amounts times microseconds."""
    found: Counter[tuple[int, str]] = Counter()
    for hour, rows in hours.by_hour.items():
        for place, one in rows.items():
            found[hour, place.queue] += one.used.get("vcore", 0)
    return +found


async def test_accounting_is_a_plain_integration(tmp_path: Path) -> None:
    """Over hours and two runs of a server each hour of each queue is exact, and so is each end."""
    whole: Counter[tuple[int, str]] = Counter()
    ended, begin = 0, BEGIN + 1234.5
    for seed in range(4):
        played = Played(seed, begin, tmp_path)
        await played.accounting.begin()
        played.keep_alive()
        for _ in range(60):
            await played.act()
        await played.accounting.end()
        whole += played.plain
        ended += played.ended
        begin = played.driver.now + 100
        if not seed:
            assert by_queue(played.accounting.hours) == whole
    hours, _ = loaded(tmp_path)
    found = by_queue(hours)
    assert len(found) > 20
    assert found.keys() == whole.keys()
    assert all(abs(value - found[place]) < 100 for place, value in whole.items()), "rounded in the file"
    assert sum(row.ended for rows in hours.by_hour.values() for row in rows.values()) == ended


async def test_a_killed_server_loses_what_was_not_flushed(tmp_path: Path) -> None:
    """What a server had written stays: it loses the time since its last flush, and nothing else."""
    played = Played(1, BEGIN + 60.0, tmp_path)
    await played.accounting.begin()
    played.driver.do(asks(ask("root.a", "k", vcore=10)))
    await played.pass_time(100)
    await played.accounting.flush()
    await played.pass_time(FLUSH_SECONDS)
    await played.accounting.stop()
    assert in_hours(loaded(tmp_path)[0].hour(BEGIN)[A].used) == {"vcore": pytest.approx(10 * 100 / HOUR)}


async def test_preempted_work_counts_as_lost() -> None:
    """An allocation that was preempted counts as one that ended, with all that it had used."""
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


async def test_a_disk_that_refuses_is_told_once(tmp_path: Path) -> None:
    """Accounting goes on in memory, and is written once the disk takes it; another server's file is safe."""
    played = Played(1, BEGIN + 60.0, tmp_path / "missing")
    await played.accounting.end()
    with capture_logs() as lines:
        await played.accounting.begin()
        played.driver.do(asks(ask("root.a", "k", vcore=10)))
        for _ in range(2):
            await played.pass_time(100)
            await played.accounting.flush()
    assert [line["event"] for line in lines] == ["accounting not written"]
    (tmp_path / "missing").mkdir()
    await played.accounting.end()
    assert in_hours(loaded(tmp_path / "missing")[0].hour(BEGIN)[A].used) == {
        "vcore": pytest.approx(2000 / HOUR)
    }


async def test_a_full_disk_counts_no_hour_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever part of an hour the disk took, the hour is appended once, and the hours behind it too."""
    played = Played(1, BEGIN + 60.0, tmp_path)
    await played.accounting.begin()
    played.driver.do(asks(ask("root.a", "k", vcore=10)))
    await played.pass_time(100)
    await played.accounting.stop()
    refused = iter((True, False, True, False))

    def fsync(_: int) -> None:
        over = tmp_path / "accounting.csv"
        if over.exists() and over.stat().st_size and next(refused, False):
            raise OSError(ENOSPC, "no room")

    await played.accounting.flush()
    await played.pass_time(HOUR)
    monkeypatch.setattr(os, "fsync", fsync)
    for _ in range(5):
        await played.accounting.flush()
        await played.pass_time(HOUR)
    await played.accounting.flush()
    found = {hour: in_hours(rows[A].used)["vcore"] for hour, rows in loaded(tmp_path)[0].by_hour.items()}
    kept = {hour: in_hours(rows[A].used)["vcore"] for hour, rows in played.accounting.hours.by_hour.items()}
    assert found == pytest.approx(kept)
    lines = (tmp_path / "accounting.csv").read_text().splitlines()
    assert len(lines) == len(set(lines)) == len(kept)


async def test_a_file_that_cannot_be_shortened_is_appended_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hour is in the file, so that only the log tells of it."""
    monkeypatch.setattr(accounting_file, "MOST_BYTES", 10)
    (tmp_path / "accounting.new").mkdir()
    file = AccountingFile(tmp_path)
    with capture_logs() as lines:
        file.append(BEGIN, {A: row(1)})
    assert [line["event"] for line in lines] == ["accounting not shortened"]
    assert totals(loaded(tmp_path)[0]) == {(BEGIN, A): {"vcore": 1.0}}
