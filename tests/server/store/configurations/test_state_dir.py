"""The state directory: stored revisions, refusals, and durability."""

import shutil
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from licorne_core.values.ids import RmId
from licorne_server.process.settings import SettingsError
from licorne_server.store.configurations.state_dir import StateDir
from support.server.configuring import A, B, C, text
from support.state import EXTRA, Opened, overwrite, revisions_of

MADE = ["lock", "state.sqlite"]
NAMES = ("rm", "..", "a/../../b", "é" * 128, "A", "a", "x" * 128, "x" * 127 + "y", "nul?*:|", " ")


def test_everything_comes_back(opened: Opened) -> None:
    """Revisions, texts and the RM's own texts are restored, for any rmID."""
    directory, found = opened()
    assert found == []
    kept = [revisions_of(name, A, B, A, said=C, extra=EXTRA) for name in NAMES]
    for revisions in kept:
        directory.write(revisions)
    _, found = opened()
    assert sorted(found, key=repr) == sorted(kept, key=repr)


def test_nothing_leaves_the_directory(folder: Path, opened: Opened) -> None:
    """No rmID leads outside the directory."""
    directory, _ = opened()
    for name in NAMES:
        directory.write(revisions_of(name, A))
    assert sorted(path.name for path in folder.parent.parent.iterdir()) == ["deep"]
    assert sorted(path.name for path in folder.iterdir()) == MADE


def test_only_the_owner_may_read(folder: Path, opened: Opened) -> None:
    """Folders are 0700 and files 0600."""
    directory, _ = opened()
    directory.write(revisions_of("rm", A))
    for path in [folder, *folder.rglob("*")]:
        expected = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == expected, path


def test_second_server_is_refused(folder: Path, opened: Opened) -> None:
    """One server at a time uses the directory."""
    directory, _ = opened()
    with pytest.raises(SettingsError) as refused:
        StateDir(folder).open()
    assert str(refused.value) == f"--state-dir {folder} cannot be used: another server uses it"
    directory.close()
    other = StateDir(folder)
    other.open()
    other.close()


WRITES: dict[str, Callable[[StateDir], None]] = {
    "write": lambda directory: directory.write(revisions_of("rm", A, B)),
    "commit": lambda directory: directory.commit(revisions_of("rm", A, B)),
    "discard": lambda directory: directory.discard(RmId("rm")),
    "drop": lambda directory: directory.drop(RmId("rm")),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_directory_made_anew_under_a_server_is_not_written_by_it(
    folder: Path, opened: Opened, write: Callable[[StateDir], None]
) -> None:
    """A server whose directory was replaced refuses to write."""
    first, _ = opened()
    first.write(revisions_of("rm", A))
    shutil.rmtree(folder)
    other = StateDir(folder)
    assert other.open() == []
    kept = revisions_of("rm", C)
    other.write(kept)
    with pytest.raises(OSError, match="was removed or replaced since this server locked it"):
        write(first)
    other.close()
    other = StateDir(folder)
    assert other.open() == [kept]
    other.close()


def test_directory_that_is_gone_is_told_of(folder: Path, opened: Opened) -> None:
    """A removed directory is reported, and not created again."""
    directory, _ = opened()
    shutil.rmtree(folder)
    with pytest.raises(OSError, match=f"{folder} was removed or replaced"):
        directory.write(revisions_of("rm", A))
    assert not folder.exists()


def test_prepared_does_not_count_before_it_is_committed(opened: Opened) -> None:
    """A process that ends before the commit has the former revisions."""
    directory, _ = opened()
    before, after = revisions_of("rm", A), revisions_of("rm", A, B)
    directory.write(before)
    directory.prepare(after)
    assert opened()[1] == [before]
    directory, _ = opened()
    directory.prepare(after)
    directory.commit(after)
    assert opened()[1] == [after]


def test_commit_of_what_is_gone_is_told_of(opened: Opened) -> None:
    """A commit for an evicted RM fails, and stores nothing."""
    directory, _ = opened()
    directory.write(revisions_of("other", A))
    after = revisions_of("rm", A, B)
    directory.prepare(after)
    directory.drop(RmId("rm"))
    with pytest.raises(OSError, match="RM rm was removed meanwhile"):
        directory.commit(after)
    assert opened()[1] == [revisions_of("other", A)]


def rows(folder: Path) -> dict[str, list[tuple[object, ...]]]:
    """All rows of the database, as read by another program."""
    with closing(sqlite3.connect(folder / "state.sqlite")) as database:
        return {
            table: database.execute(f"SELECT * FROM {table}").fetchall() for table in ("records", "texts")
        }


NOTHING: dict[str, list[tuple[object, ...]]] = {"records": [], "texts": []}


def test_first_write_that_was_cut_off_leaves_nothing(folder: Path, opened: Opened) -> None:
    """Uncommitted data is removed at the next start."""
    directory, _ = opened()
    directory.prepare(revisions_of("rm", A))
    assert opened()[1] == []
    assert rows(folder) == NOTHING


def test_texts_that_nothing_needs_go(folder: Path, opened: Opened) -> None:
    """A text is removed with its last revision."""
    directory, _ = opened()
    directory.write(revisions_of("rm", C))
    directory.write(revisions_of("rm", A, B))
    directory.write(revisions_of("other", C))
    assert {text for _, _, text in rows(folder)["texts"]} == {A, B, C}
    directory.drop(RmId("other"))
    assert {text for _, _, text in rows(folder)["texts"]} == {A, B}
    directory.drop(RmId("rm"))
    assert rows(folder) == NOTHING


def test_what_is_discarded_leaves_nothing(folder: Path, opened: Opened) -> None:
    """The text of a refused change is nowhere in the files."""
    directory, _ = opened()
    secret = text("discarded")
    for config in (B, secret):
        directory.prepare(revisions_of("rm", config))
        directory.discard(RmId("rm"))
    assert rows(folder) == NOTHING
    directory.write(revisions_of("rm", A))
    before = rows(folder)
    for config in (B, secret):
        directory.prepare(revisions_of("rm", A, config))
        directory.discard(RmId("rm"))
    assert rows(folder) == before
    files = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert any(b"{name: a}" in data for data in files)
    assert not any(b"discarded" in data for data in files)


def test_copy_made_while_it_is_written_is_whole(folder: Path, opened: Opened, tmp_path: Path) -> None:
    """A backup by SQLite during writes is complete, and usable in another directory."""
    directory, _ = opened()
    kept = revisions_of("rm", A, B)
    directory.write(kept)
    directory.prepare(revisions_of("rm", A, B, C))
    other = tmp_path / "other"
    other.mkdir()
    with (
        closing(sqlite3.connect(folder / "state.sqlite")) as source,
        closing(sqlite3.connect(other / "state.sqlite")) as copy,
    ):
        source.backup(copy)
    directory.commit(revisions_of("rm", A, B, C))
    copied = StateDir(other)
    assert copied.open() == [kept]
    copied.close()


def change_byte(path: Path, old: bytes, new: bytes) -> None:
    """Change a significant byte of a file."""
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new))


SPOILERS: dict[str, Callable[[Path], None]] = {
    "empty": lambda path: overwrite(path, b""),
    "cut off": lambda path: overwrite(path, path.read_bytes()[:-4096]),
    "header": lambda path: change_byte(path, b"SQLite", b"SQLitf"),
    "record": lambda path: change_byte(path, b"number 1", b"number 2"),
    "text": lambda path: change_byte(path, b"{name: a}", b"{name: b}"),
    "garbage": lambda path: overwrite(path, b"\xff\x00" * 100),
    "a folder": lambda path: path.rename(path.with_name("elsewhere")).with_name(path.name).mkdir(),
    "huge": lambda path: overwrite(path, b"#" * (3 * 1024 * 1024)),
}


@pytest.mark.parametrize("spoil", SPOILERS.values(), ids=SPOILERS)
def test_damaged_database_stops_the_start(
    folder: Path, opened: Opened, spoil: Callable[[Path], None]
) -> None:
    """The error of a damaged database names file and remedy, and no data is dropped."""
    directory, _ = opened()
    directory.write(revisions_of("rm", A))
    directory.close()
    file = folder / "state.sqlite"
    spoil(file)
    with pytest.raises(SettingsError) as refused:
        opened()
    assert str(refused.value).startswith(f"{file} ")
    cure = ". Bring back a copy, or remove it: the RMs' registrations are in force then"
    assert str(refused.value).endswith(cure)


SQL_SPOILERS = {
    "DELETE FROM texts": "something is missing or wrong",
    "UPDATE texts SET text = 'x'": "a text of RM rm is not what was written",
    "UPDATE records SET record = 'x'": "of RM rm, it is not what was written",
    "UPDATE records SET rm_id = 'two'; UPDATE texts SET rm_id = 'two'": "belongs to RM rm",
    "PRAGMA user_version = 3": "it is not of format 2: another version has written it",
}


@pytest.mark.parametrize(("spoil", "why"), SQL_SPOILERS.items(), ids=SQL_SPOILERS)
def test_database_that_was_changed_stops_the_start(
    folder: Path, opened: Opened, spoil: str, why: str
) -> None:
    """The error names the data that has changed."""
    directory, _ = opened()
    directory.write(revisions_of("rm", A))
    with closing(sqlite3.connect(folder / "state.sqlite")) as database:
        database.executescript(spoil)
    with pytest.raises(SettingsError, match=why):
        opened()


def test_removed_database_leaves_nothing_behind(folder: Path, opened: Opened) -> None:
    """A removed database is missed in the log, and a new one ignores its journal."""
    directory, _ = opened()
    directory.write(revisions_of("rm", A))
    with closing(sqlite3.connect(folder / "state.sqlite", isolation_level=None)) as database:
        database.execute("PRAGMA cache_size = 1")
        database.execute("PRAGMA cache_spill = 1")
        database.execute("BEGIN EXCLUSIVE")
        database.execute("DELETE FROM records")
        database.executemany(
            "INSERT INTO texts VALUES ('rm', ?, ?)", [(str(n), "x" * 5000) for n in range(50)]
        )
        journal = (folder / "state.sqlite-journal").read_bytes()
        assert journal.startswith(bytes.fromhex("d9d505f920a163d7"))
    directory.close()
    (folder / "state.sqlite").unlink()
    (folder / "state.sqlite-journal").write_bytes(journal)
    with capture_logs() as lines:
        assert opened()[1] == []
    [line] = lines
    assert (line["log_level"], line["file"]) == ("warning", str(folder / "state.sqlite"))
    assert line["event"] == "state is missing: all that was applied is gone"
    directory, _ = opened()
    directory.write(revisions_of("rm", B))
    assert opened()[1] == [revisions_of("rm", B)]


def test_reader_that_does_not_end_is_told_of(
    folder: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change during a long read is refused with the reason; later ones are written."""
    monkeypatch.setattr("licorne_server.store.configurations.state_dir.BUSY_SECONDS", 0.0)
    directory, _ = opened()
    directory.write(revisions_of("rm", A))
    with closing(sqlite3.connect(folder / "state.sqlite", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM records").fetchall()
        with pytest.raises(OSError, match=r"state\.sqlite: database is locked"):
            directory.write(revisions_of("rm", A, B))
    directory.write(revisions_of("rm", A, C))
    assert opened()[1] == [revisions_of("rm", A, C)]


def test_database_that_was_removed_is_told_of(folder: Path, opened: Opened) -> None:
    """Nothing is written into a removed database."""
    directory, _ = opened()
    directory.write(revisions_of("rm", A))
    (folder / "state.sqlite").unlink()
    with pytest.raises(OSError, match=r"state\.sqlite: attempt to write a readonly database"):
        directory.write(revisions_of("rm", B))


def test_place_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    """A file in place of the directory is refused."""
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(SettingsError, match=f"--state-dir {file} cannot be used: "):
        StateDir(file).open()


def test_full_disk_leaves_what_was_kept(opened: Opened, full_disk: Callable[[int], Any]) -> None:
    """A failed write raises, and leaves stored data unchanged."""
    directory, _ = opened()
    before = revisions_of("rm", A)
    directory.write(before)
    for size in (0, 100, len(B) - 1, len(B) + 10):
        with full_disk(size), pytest.raises(OSError):  # noqa: PT011
            directory.prepare(revisions_of("rm", A, B))
    assert opened()[1] == [before]
