"""Writing of journals: replays make the same decisions, and failures end a journal and nothing else."""

import os
import shutil
import stat
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from licorne_core.extensions.budgets.messages import SetBudgetSlices
from licorne_core.extensions.stops.messages import StopApplication
from licorne_core.messages.commands import Command, RegisterRm, RemoveRm, Tick
from licorne_core.messages.effects import Effect, Registered
from licorne_core.scheduler import Scheduler
from licorne_core.values.errors import LicorneError, NotFound
from licorne_core.values.ids import AppId, RmId
from licorne_server.engine.journal.codec import read
from licorne_server.engine.journal.folder import Folder, segments
from licorne_server.engine.journal.records import Digest, Header, Input, JournalState, Record
from licorne_server.engine.journal.writer import MOST_WAITING, JournaledCore, Writer
from support.core.driver import Driver
from support.journal import replayed, scheduler_of
from support.patience import PATIENCE
from support.worlds import World
from support.worlds.playing import Players

RM = RmId("rm-1")
LARGE = 10**9


class Journaled(NamedTuple):
    """A journal that is written during the test."""

    folder: Folder
    writer: Writer
    core: JournaledCore

    @property
    def state(self) -> JournalState:
        """The state of the journal."""
        return self.writer.state

    def read(self) -> list[Record]:
        """Its records."""
        return list(read(self.folder.path))

    def wait_until_written(self, inputs: int) -> None:
        """Wait until the files have this number of inputs."""
        self.wait(lambda: sum(isinstance(one, Input) for one in self.read()) == inputs)

    def wait(self, condition: Callable[[], bool]) -> None:
        """Wait until the writing thread has made the condition true."""
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end
            time.sleep(0.01)


def begin(
    path: Path, scheduler: Scheduler | None = None, most: int = LARGE, segment: int = LARGE
) -> Journaled:
    """Begin a run in a directory."""
    scheduler = scheduler or Scheduler()
    folder = Folder(path, most)
    assert folder.open()
    writer = Writer(folder, JournalState(), segment)
    writer.start(Header(run=folder.run, version="0.1.0", start=1.0, options=scheduler.options))
    return Journaled(folder, writer, JournaledCore(scheduler, writer))


@pytest.mark.parametrize("seed", [3_100_000, 3_100_001])
def test_worlds_are_replayed_to_the_same_decisions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """A random world with several RMs has the same digests in its replay as during writing."""
    players = Players(Driver())
    scheduler = players.driver.scheduler
    handle = scheduler.handle
    inputs: list[tuple[Command, float]] = []

    def noted(command: Command, now: float) -> list[Effect]:
        inputs.append((command, now))
        return handle(command, now)

    monkeypatch.setattr(scheduler, "handle", noted)
    for step in World(seed, 100).steps:
        players.step(step)
    journal = begin(tmp_path, scheduler_of(scheduler.options), segment=1_000)
    for command, now in inputs:
        with suppress(LicorneError):
            journal.core.handle(command, now)
        journal.core.end(now)
    journal.writer.close()
    replay = replayed(journal.read())
    assert (replay.runs, replay.torn, replay.differing) == (1, [], [])
    assert replay.inputs == journal.state.inputs == len(inputs)
    assert replay.digests > len(inputs) > 90


def test_command_that_the_core_refuses_is_replayed(tmp_path: Path) -> None:
    """An input on which the core raises is in the journal, and raises in its replay."""
    journal = begin(tmp_path)
    with pytest.raises(NotFound):
        journal.core.handle(SetBudgetSlices(budget="none", slices={}), 1.0)
    journal.core.end(2.0)
    journal.writer.close()
    replay = replayed(journal.read())
    assert (replay.inputs, replay.digests, replay.differing) == (1, 2, [])


def test_a_run_continues_in_further_files(tmp_path: Path) -> None:
    """A file of the full size is followed by the next one, and the reader reads them all."""
    journal = begin(tmp_path, segment=1)
    for number in range(3):
        journal.core.handle(Tick(decisions=number), number)
        journal.wait_until_written(number + 1)
    journal.writer.close()
    assert [record.command for record in journal.read() if isinstance(record, Input)] == [
        Tick(decisions=number) for number in range(3)
    ]
    # The header already fills the first file.
    assert len(list(tmp_path.glob("000001-*.ljr"))) == 4


def test_each_file_is_on_the_disk_before_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A completed file survives a failure of the machine, including the last one of a run."""
    folder, synced = Folder(tmp_path, LARGE), list[str]()
    monkeypatch.setattr(
        os, "fdatasync", lambda file: synced.append(Path(f"/proc/self/fd/{file}").readlink().name)
    )
    assert folder.open()
    folder.begin(b"first")
    folder.begin(b"second")
    assert synced == ["000001-0001.ljr"]
    folder.end_file()
    assert synced == ["000001-0001.ljr", "000001-0002.ljr"]
    folder.close()


def test_files_of_earlier_runs_count(tmp_path: Path) -> None:
    """A journal that is opened again counts the bytes of earlier runs in all their files."""
    for text in (b"first", b"second one"):
        folder = Folder(tmp_path, LARGE)
        assert folder.open()
        for _ in range(3):
            folder.begin(text)
        folder.end_file()
        folder.close()
    folder = Folder(tmp_path, LARGE)
    assert folder.open()
    assert folder.size == sum(path.stat().st_size for path in tmp_path.glob("*.ljr")) == 45
    folder.close()


def test_numbers_may_grow_longer(tmp_path: Path) -> None:
    """A file whose number has nine digits is followed by one that the reader finds as well."""
    (tmp_path / "999999999-0001.ljr").touch()
    folder = Folder(tmp_path, LARGE)
    assert folder.open()
    folder.begin(b"start")
    folder.close()
    assert [found.run for found in segments(tmp_path)] == [10**9 - 1, 10**9]


def test_files_are_private_to_their_user(tmp_path: Path) -> None:
    """Other users can read neither a journal nor its directory."""
    journal = begin(tmp_path / "journal")
    journal.writer.close()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "journal").iterdir()}
    assert modes == {"lock": 0o600, "000001-0001.ljr": 0o600}
    assert stat.S_IMODE((tmp_path / "journal").stat().st_mode) == 0o700


def test_one_server_writes_at_a_time(tmp_path: Path) -> None:
    """A directory in use is refused until the other server has closed its journal."""
    first, second = begin(tmp_path), Folder(tmp_path, LARGE)
    assert not second.open()
    first.writer.close()
    assert second.open()
    assert second.run == 2
    second.close()


# Failures that end a journal. In each test the core continues.


def goes_on(journal: Journaled) -> None:
    """Check that the core decides as before, and that nothing more is recorded."""
    inputs = journal.state.inputs
    registered, *_ = journal.core.handle(RegisterRm(rm_id=RmId("late")), 99.0)
    assert isinstance(registered, Registered)
    journal.core.handle(Tick(), 99.0)
    assert journal.state.inputs == inputs
    assert not journal.core._notes.waiting


def test_the_oldest_runs_are_removed_for_room(tmp_path: Path) -> None:
    """The oldest runs are removed completely when the journal has reached its size."""
    for _ in range(3):
        begin(tmp_path).writer.close()
    size = sum(path.stat().st_size for path in tmp_path.glob("*.ljr")) // 3
    journal = begin(tmp_path, most=3 * size + 100)
    assert sorted({record.run for record in journal.read() if isinstance(record, Header)}) == [2, 3, 4]
    journal.writer.close()
    assert journal.state.problem == ""


def test_a_full_run_stops_the_journal(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A run is never shortened at its beginning: the journal stops, warns, and remains readable."""
    journal = begin(tmp_path, most=4_000)
    number = 0
    while not journal.state.problem:
        number += 1
        journal.core.handle(RemoveRm(rm_id=RmId(sha256(str(number).encode()).hexdigest())), number)
    journal.writer.close()
    assert journal.state.problem == "a run has reached the size of the journal, 4000 bytes"
    assert sum(path.stat().st_size for path in tmp_path.glob("*.ljr")) <= 4_000
    replay = replayed(journal.read())
    assert (replay.torn, replay.differing) == ([], [])
    goes_on(journal)


def test_full_disk_stops_the_journal(tmp_path: Path, full_disk: Callable[[int], Any]) -> None:
    """A disk that is full within a record stops the journal, which ends with the previous record."""
    journal = begin(tmp_path)
    journal.core.handle(Tick(), 1.0)
    journal.wait_until_written(1)
    with full_disk(journal.state.size + 10):
        journal.core.handle(Tick(decisions=7), 1.1)
        journal.wait(lambda: bool(journal.state.problem))
        journal.writer.close()
    assert journal.state.problem == "File too large"
    assert [type(record) for record in journal.read()] == [Header, Digest, Input]
    goes_on(journal)


def test_removed_directory_stops_the_journal(tmp_path: Path) -> None:
    """A directory that was removed is not created again."""
    journal = begin(tmp_path / "journal")
    shutil.rmtree(tmp_path / "journal")
    journal.core.handle(Tick(), 1.0)
    journal.wait(lambda: bool(journal.state.problem))
    journal.writer.close()
    assert "was removed or replaced" in journal.state.problem
    assert not (tmp_path / "journal").exists()
    goes_on(journal)


def test_disk_that_is_too_slow_stops_the_journal(tmp_path: Path) -> None:
    """Data that waits for the disk is bounded, and dropped when the journal stops."""
    folder = Folder(tmp_path, LARGE)
    writer = Writer(folder, JournalState())
    piece = bytes(MOST_WAITING // 4)
    alone = sys.getrefcount(piece)
    for _ in range(4):
        writer.put(piece)
        assert writer.state.problem == ""
    writer.put(piece)
    assert writer.state.problem == f"the disk is too slow: more than {MOST_WAITING} bytes wait for it"
    assert sys.getrefcount(piece) == alone


def test_command_that_cannot_be_written_stops_the_journal(tmp_path: Path) -> None:
    """Text that is not valid UTF-8 stops the journal, and the core still receives the command."""
    journal = begin(tmp_path)
    journal.core.handle(StopApplication(rm_id=RM, partition="", app_id=AppId("app"), reason="\ud800"), 1.0)
    journal.wait(lambda: bool(journal.state.problem))
    assert journal.state.problem.startswith("a command cannot be written: 'utf-8' codec")
    journal.writer.close()
    goes_on(journal)
