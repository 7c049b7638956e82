"""The state directory: stored documents, refusals, and durability."""

import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from licorne_server.process.settings import SettingsError
from licorne_server.store.documents import disk as disks
from licorne_server.store.documents.disk import Disk
from licorne_server.store.documents.documents import Document

MADE = ["lock", "state.sqlite"]
NAMES = ("rm", "..", "a/../../b", "é" * 128, "A", "a", "x" * 128, "x" * 127 + "y", "nul?*:|", " ", "")
SECRET = b"discarded"

Opened = Callable[[], tuple[Disk, dict[str, Document]]]
"""Opens the directory like another process, after the previous one has closed it."""


def one(value: bytes, revision: int = 1) -> Document:
    """A document."""
    return Document(value=value, revision=revision)


A, B, C = one(b"name: a" * 20), one(b"name: b" * 30, 2), one(b"name: c" * 40, 3)


@pytest.fixture
def opened(folder: Path) -> Iterator[Opened]:
    """Opens the directory like a new process, after the previous one has closed it."""
    last: list[Disk] = []

    def open_again() -> tuple[Disk, dict[str, Document]]:
        for disk in last:
            disk.close()
        last.append(Disk(folder))
        return last[-1], last[-1].open()

    yield open_again
    for disk in last:
        disk.close()


def test_documents_survive_a_restart(opened: Opened) -> None:
    """Documents are restored with their revisions, whatever their names and bytes."""
    disk, found = opened()
    assert found == {}
    kept = {name: one(bytes(range(256)) * number, number + 1) for number, name in enumerate(NAMES)}
    for name, document in kept.items():
        disk.write(name, document)
    assert opened()[1] == kept


def test_names_do_not_lead_outside_the_directory(folder: Path, opened: Opened) -> None:
    """No document's name leads outside the directory."""
    disk, _ = opened()
    for name in NAMES:
        disk.write(name, A)
    assert sorted(path.name for path in folder.parent.parent.iterdir()) == ["deep"]
    assert sorted(path.name for path in folder.iterdir()) == MADE


def test_files_are_private_to_their_user(folder: Path, opened: Opened) -> None:
    """Folders are 0700 and files 0600."""
    disk, _ = opened()
    disk.write("rm", A)
    for path in [folder, *folder.rglob("*")]:
        expected = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == expected, path


def test_a_second_server_is_refused(folder: Path, opened: Opened) -> None:
    """One server at a time uses the directory."""
    disk, _ = opened()
    with pytest.raises(SettingsError) as refused:
        Disk(folder).open()
    assert str(refused.value) == f"server.state_dir {folder} cannot be used: another server uses it"
    disk.close()
    other = Disk(folder)
    other.open()
    other.close()


WRITES: dict[str, Callable[[Disk], None]] = {
    "write": lambda disk: disk.write("rm", B),
    "prepare": lambda disk: disk.prepare("rm", B.value),
    "discard": lambda disk: disk.discard("rm"),
    "remove": lambda disk: disk.write("rm", None),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_replaced_directory_is_not_written(
    folder: Path, opened: Opened, write: Callable[[Disk], None]
) -> None:
    """A server whose directory was replaced refuses to write."""
    first, _ = opened()
    first.write("rm", A)
    shutil.rmtree(folder)
    other = Disk(folder)
    assert other.open() == {}
    other.write("rm", C)
    with pytest.raises(OSError, match="was removed or replaced since this server locked it"):
        write(first)
    other.close()
    other = Disk(folder)
    assert other.open() == {"rm": C}
    other.close()


def test_a_removed_directory_is_reported(folder: Path, opened: Opened) -> None:
    """A removed directory is reported, and not created again."""
    disk, _ = opened()
    shutil.rmtree(folder)
    with pytest.raises(OSError, match=f"{folder} was removed or replaced"):
        disk.write("rm", A)
    assert not folder.exists()


def test_a_prepared_document_does_not_count_before_its_write(opened: Opened) -> None:
    """A process that ends before the write keeps the previous document, and the log has the prepared one."""
    disk, _ = opened()
    disk.write("rm", A)
    disk.prepare("rm", B.value)
    with capture_logs() as lines:
        assert opened()[1] == {"rm": A}
    assert [line["event"] for line in lines] == ["half-written document removed"]
    disk, _ = opened()
    disk.prepare("rm", B.value)
    disk.write("rm", B)
    assert opened()[1] == {"rm": B}


def rows(folder: Path) -> dict[str, list[tuple[object, ...]]]:
    """All rows of the database, as read by another program."""
    with closing(sqlite3.connect(folder / "state.sqlite")) as database:
        return {
            table: database.execute(f"SELECT * FROM {table}").fetchall()
            for table in ("documents", "contents")
        }


NOTHING: dict[str, list[tuple[object, ...]]] = {"documents": [], "contents": []}


def test_an_interrupted_first_write_leaves_nothing(folder: Path, opened: Opened) -> None:
    """Prepared content is removed at the next start."""
    disk, _ = opened()
    disk.prepare("rm", A.value)
    assert opened()[1] == {}
    assert rows(folder) == NOTHING


def test_unused_contents_are_removed(folder: Path, opened: Opened) -> None:
    """Content is removed with its document, and when other content replaces it."""
    disk, _ = opened()
    for document in (C, A, B):
        disk.write("rm", document)
    disk.write("other", C)
    assert {row[-1] for row in rows(folder)["contents"]} == {B.value, C.value}
    disk.write("other", None)
    assert [row[-1] for row in rows(folder)["contents"]] == [B.value]
    disk.write("rm", None)
    assert rows(folder) == NOTHING


def test_a_discarded_document_leaves_nothing(folder: Path, opened: Opened) -> None:
    """The text of a discarded document is in none of the files."""
    disk, _ = opened()
    disk.prepare("rm", SECRET * 1000)
    disk.discard("rm")
    assert rows(folder) == NOTHING
    disk.write("rm", A)
    before = rows(folder)
    disk.prepare("rm", SECRET * 1000)
    disk.discard("rm")
    assert rows(folder) == before
    files = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert any(A.value in data for data in files)
    assert not any(SECRET in data for data in files)


def test_a_backup_during_writes_is_complete(folder: Path, opened: Opened, tmp_path: Path) -> None:
    """A backup by SQLite during writes is complete, and usable in another directory."""
    disk, _ = opened()
    disk.write("rm", A)
    disk.prepare("rm", B.value)
    other = tmp_path / "other"
    other.mkdir()
    with (
        closing(sqlite3.connect(folder / "state.sqlite")) as source,
        closing(sqlite3.connect(other / "state.sqlite")) as copy,
    ):
        source.backup(copy)
    disk.write("rm", B)
    copied = Disk(other)
    assert copied.open() == {"rm": A}
    copied.close()


def overwrite(path: Path, content: bytes) -> None:
    """Damage a file."""
    path.write_bytes(content)


def change_byte(path: Path, old: bytes, new: bytes) -> None:
    """Change one byte in a significant place of a file."""
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new))


SPOILERS: dict[str, Callable[[Path], None]] = {
    "empty": lambda path: overwrite(path, b""),
    "cut off": lambda path: overwrite(path, path.read_bytes()[:-4096]),
    "header": lambda path: change_byte(path, b"SQLite", b"SQLitf"),
    "name": lambda path: change_byte(path, b"first", b"other"),
    "content": lambda path: change_byte(path, b"name: a", b"name: b"),
    "garbage": lambda path: overwrite(path, b"\xff\x00" * 100),
    "a folder": lambda path: path.rename(path.with_name("elsewhere")).with_name(path.name).mkdir(),
    "huge": lambda path: overwrite(path, b"#" * (3 * 1024 * 1024)),
}


@pytest.mark.parametrize("spoil", SPOILERS.values(), ids=SPOILERS)
def test_damaged_database_stops_the_start(
    folder: Path, opened: Opened, spoil: Callable[[Path], None]
) -> None:
    """The error of a damaged database names file and remedy, and no data is dropped."""
    disk, _ = opened()
    disk.write("first", A)
    disk.close()
    file = folder / "state.sqlite"
    spoil(file)
    with pytest.raises(SettingsError) as refused:
        opened()
    assert str(refused.value).startswith(f"{file} ")
    cure = ". Bring back a copy, or remove it: the RMs' registrations are in force then"
    assert str(refused.value).endswith(cure)


SQL_SPOILERS = {
    "DELETE FROM contents": "the content of 'rm' is missing",
    "UPDATE contents SET value = 'x'": "'rm' is not what was written",
    "UPDATE documents SET name = 'two'": "'two' is not what was written",
    "UPDATE documents SET name = 'two'; UPDATE contents SET name = 'two'": "'two' is not what was written",
    "PRAGMA user_version = 4": "it is not of format 3: another version has written it",
}


@pytest.mark.parametrize(("spoil", "why"), SQL_SPOILERS.items(), ids=SQL_SPOILERS)
def test_a_changed_database_stops_the_start(folder: Path, opened: Opened, spoil: str, why: str) -> None:
    """The error names the data that has changed."""
    disk, _ = opened()
    disk.write("rm", A)
    with closing(sqlite3.connect(folder / "state.sqlite")) as database:
        database.executescript(spoil)
    with pytest.raises(SettingsError, match=why):
        opened()


def test_removed_database_leaves_nothing_behind(folder: Path, opened: Opened) -> None:
    """A removed database is reported in the log, and a new one ignores its journal."""
    disk, _ = opened()
    disk.write("rm", A)
    with closing(sqlite3.connect(folder / "state.sqlite", isolation_level=None)) as database:
        database.execute("PRAGMA cache_size = 1")
        database.execute("PRAGMA cache_spill = 1")
        database.execute("BEGIN EXCLUSIVE")
        database.execute("DELETE FROM documents")
        database.executemany(
            "INSERT INTO contents (name, digest, value) VALUES ('rm', ?, ?)",
            [(str(n), "x" * 5000) for n in range(50)],
        )
        journal = (folder / "state.sqlite-journal").read_bytes()
        assert journal.startswith(bytes.fromhex("d9d505f920a163d7"))
    disk.close()
    (folder / "state.sqlite").unlink()
    (folder / "state.sqlite-journal").write_bytes(journal)
    with capture_logs() as lines:
        assert opened()[1] == {}
    [line] = lines
    assert (line["log_level"], line["file"]) == ("warning", str(folder / "state.sqlite"))
    assert line["event"] == "state is missing: all that was applied is gone"
    disk, _ = opened()
    disk.write("rm", B)
    assert opened()[1] == {"rm": B}


def test_an_endless_reader_is_reported(folder: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write during a read without end is refused with the reason; later ones succeed."""
    monkeypatch.setattr(disks, "BUSY_SECONDS", 0.0)
    disk, _ = opened()
    disk.write("rm", A)
    with closing(sqlite3.connect(folder / "state.sqlite", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM documents").fetchall()
        with pytest.raises(OSError, match=r"state\.sqlite: database is locked"):
            disk.write("rm", B)
    disk.write("rm", C)
    assert opened()[1] == {"rm": C}


def test_a_removed_database_is_reported(folder: Path, opened: Opened) -> None:
    """Nothing is written into a removed database."""
    disk, _ = opened()
    disk.write("rm", A)
    (folder / "state.sqlite").unlink()
    with pytest.raises(OSError, match=r"state\.sqlite: attempt to write a readonly database"):
        disk.write("rm", B)


def test_a_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    """A file in place of the directory is refused."""
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(SettingsError, match=f"server.state_dir {file} cannot be used: File exists"):
        Disk(file).open()


def test_a_full_disk_keeps_stored_documents(
    folder: Path, opened: Opened, full_disk: Callable[[int], Any]
) -> None:
    """A failed write raises, and leaves stored data unchanged."""
    disk, _ = opened()
    disk.write("rm", A)
    large = one(bytes(range(256)) * 100, 2)
    size = (folder / "state.sqlite").stat().st_size
    for room in (0, 100, len(large.value), size, size + len(large.value) // 2):
        with full_disk(room), pytest.raises(OSError):  # noqa: PT011
            disk.prepare("rm", large.value)
    assert opened()[1] == {"rm": A}


def test_a_prepared_document_needs_no_more_room(
    folder: Path, opened: Opened, full_disk: Callable[[int], Any]
) -> None:
    """A disk that is full since the preparation of a document still accepts its write."""
    disk, _ = opened()
    large = one(bytes(range(256)) * 100, 2)
    disk.prepare("rm", large.value)
    with full_disk((folder / "state.sqlite").stat().st_size):
        disk.write("rm", large)
    assert opened()[1] == {"rm": large}
