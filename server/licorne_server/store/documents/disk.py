"""The state directory: documents that survive the server.

::

    lock            held by the process that uses the directory
    state.sqlite    the documents

Each write is one transaction: the database has the old or the new document, even if the process is killed.
Contents are stored separately from the documents that refer to them, so a prepared content takes effect
without further room.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

import structlog

from licorne_server.process.folder_lock import LOCK, FolderLock
from licorne_server.process.settings import SettingsError
from licorne_server.store.documents.documents import Document

log = structlog.get_logger("core.documents")

DATABASE = "state.sqlite"
NEW = "state.sqlite.new"

OURS_ONLY = 0o700

FORMAT = 3
"""The `user_version` of the database."""

BUSY_SECONDS = 5.0
"""Seconds that a write waits for a reader of the database, such as a backup."""

TABLES = (
    """CREATE TABLE documents (
        name TEXT NOT NULL PRIMARY KEY, revision INTEGER NOT NULL, content INTEGER NOT NULL)""",
    """CREATE TABLE contents (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL, digest TEXT NOT NULL, value BLOB NOT NULL)""",
    "CREATE INDEX contents_by_name ON contents (name)",
    f"PRAGMA user_version = {FORMAT}",
)


class Disk:
    """The documents in one state directory. Methods block on the disk, and are called one at a time.

    They raise OSError if the disk fails, or if the directory was replaced: then the documents are unchanged.
    """

    def __init__(self, path: Path) -> None:
        """Read and write nothing before `open`."""
        self._path = path
        self._file = path / DATABASE
        self._lock = FolderLock(path)
        self._database: sqlite3.Connection | None = None
        # Documents that may have a prepared content in addition to their current content.
        self._prepared: set[str] = set()

    def open(self) -> dict[str, Document]:
        """Create the directory if missing, lock it, and read its documents.

        Unused contents, left by a killed server, are removed.

        Raises:
            SettingsError: the directory is unusable, damaged, or used by another server.
        """
        try:
            self._path.mkdir(OURS_ONLY, parents=True, exist_ok=True)
            was_used = (self._path / LOCK).exists()
            if not self._lock.take():
                raise SettingsError(f"server.state_dir {self._path} cannot be used: another server uses it")
            if not self._file.exists():
                if was_used:
                    log.warning("state is missing: all that was applied is gone", file=str(self._file))
                self._make()
            return self._read()
        except OSError as error:
            self.close()
            raise SettingsError(
                f"server.state_dir {self._path} cannot be used: {error.strerror or error}"
            ) from None
        except SettingsError:
            self.close()
            raise

    def close(self) -> None:
        """Unlock the directory."""
        if self._database is not None:
            self._database.close()
            self._database = None
        self._lock.release()

    def prepare(self, name: str, value: bytes) -> None:
        """Write a content in addition to the current one, so that its later `write` needs hardly any room."""
        with self._transaction() as database:
            _content(database, name, value)
        self._prepared.add(name)

    def discard(self, name: str) -> None:
        """Remove the unused contents of a document."""
        with self._transaction() as database:
            _remove_others(database, name)
        self._prepared.discard(name)

    def write(self, name: str, document: Document | None) -> None:
        """Replace a document; None removes it."""
        with self._transaction() as database:
            if document is None:
                database.execute("DELETE FROM documents WHERE name = ?", (name,))
            else:
                row = (name, document.revision, _content(database, name, document.value))
                database.execute("INSERT OR REPLACE INTO documents VALUES (?, ?, ?)", row)
            if name not in self._prepared:
                _remove_others(database, name)
        if name in self._prepared:
            # The new content is in force. If the disk is full, the former content remains until the next
            # change.
            with suppress(OSError):
                self.discard(name)

    def unusable(self, why: str) -> SettingsError:
        """The error for an unusable database, with the reason."""
        return SettingsError(
            f"{self._file} {why}. Bring back a copy, or remove it: the RMs' registrations are in force then"
        )

    def _make(self) -> None:
        """Create the database, completely or not at all.

        Raises:
            OSError: the database cannot be written.
        """
        new = self._path / NEW
        # SQLite would apply the journal of an earlier database to the new database.
        for file in (NEW, f"{NEW}-journal", f"{DATABASE}-journal"):
            (self._path / file).unlink(missing_ok=True)
        # A database created by SQLite would be readable by other users.
        os.close(os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with _as_os_error(new):
            database = _connect(new)
            try:
                with database:
                    database.execute("BEGIN")
                    for statement in TABLES:
                        database.execute(statement)
            finally:
                database.close()
        new.replace(self._file)
        _flush_folder(self._path)

    def _read(self) -> dict[str, Document]:
        """Open the database; returns its documents.

        Raises:
            OSError: the database cannot be written.
            SettingsError: the database cannot be read, or is damaged.
        """
        try:
            self._database = database = _connect(self._file)
            _check(database)
            found = dict(_documents(database))
            left = [
                name
                for (name,) in database.execute(
                    "SELECT DISTINCT name FROM contents WHERE id NOT IN (SELECT content FROM documents)"
                )
            ]
        except sqlite3.OperationalError as error:
            raise self.unusable(f"cannot be read: {error}") from None
        except (_Damaged, sqlite3.DatabaseError) as error:
            raise self.unusable(f"is damaged: {error}") from None
        for name in left:
            log.warning("half-written document removed", key=name)
            self.discard(name)
        return found

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Run the block as one transaction."""
        self._lock.check()
        if self._database is None:
            raise OSError(f"{self._file} was closed")
        with _as_os_error(self._file), self._database as database:
            database.execute("BEGIN IMMEDIATE")
            yield database


class _Damaged(Exception):
    """The content of the database differs from what was written; the text names the damage."""


def _connect(file: Path) -> sqlite3.Connection:
    """A connection for use by one thread at a time. Transactions are durable when they end."""
    database = sqlite3.connect(file, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    # Transactions are synced together with the folder, and removed data is overwritten.
    database.execute("PRAGMA synchronous = EXTRA")
    database.execute("PRAGMA secure_delete = ON")
    return database


def _check(database: sqlite3.Connection) -> None:
    """Check the integrity of the tables.

    Raises:
        _Damaged: the tables are damaged, or of another version.
        sqlite3.Error: the tables cannot be read.
    """
    [(version,)] = database.execute("PRAGMA user_version")
    if version != FORMAT:
        raise _Damaged(f"it is not of format {FORMAT}: another version has written it")
    [(found,)] = database.execute("PRAGMA integrity_check(1)")
    if found != "ok":
        raise _Damaged(found)


def _documents(database: sqlite3.Connection) -> Iterator[tuple[str, Document]]:
    """All documents. Digests are checked, as SQLite does not detect all damage of a row.

    Raises:
        _Damaged: a document differs from what was written.
        sqlite3.Error: the database cannot be read.
    """
    rows = database.execute(
        """SELECT documents.name, revision, contents.name, digest, CAST(value AS BLOB)
           FROM documents LEFT JOIN contents ON content = id ORDER BY documents.name"""
    )
    for name, revision, of, digest, value in rows:
        if of is None:
            raise _Damaged(f"the content of {name!r} is missing")
        if (of, digest) != (name, _digest(name, value)):
            raise _Damaged(f"{name!r} is not what was written")
        yield name, Document(value=value, revision=int(revision))


def _content(database: sqlite3.Connection, name: str, value: bytes) -> int:
    """The id of a content, which is written now unless it was prepared."""
    digest = _digest(name, value)
    for (found,) in database.execute(
        "SELECT id FROM contents WHERE name = ? AND digest = ? ORDER BY id DESC", (name, digest)
    ):
        return int(found)
    row = database.execute(
        "INSERT INTO contents (name, digest, value) VALUES (?, ?, ?)", (name, digest, value)
    )
    assert row.lastrowid is not None
    return row.lastrowid


def _remove_others(database: sqlite3.Connection, name: str) -> None:
    """Remove the unused contents of a document."""
    database.execute(
        "DELETE FROM contents WHERE name = ? AND id NOT IN (SELECT content FROM documents WHERE name = ?)",
        (name, name),
    )


def _digest(name: str, value: bytes) -> str:
    """SHA-256 of a document, in lower-case hex."""
    return sha256(name.encode() + b"\0" + value).hexdigest()


@contextmanager
def _as_os_error(file: Path) -> Iterator[None]:
    """Convert SQLite's errors on a file to OSError."""
    try:
        yield
    except sqlite3.Error as error:
        raise OSError(f"{file}: {error}") from None


def _flush_folder(folder: Path) -> None:
    """Make renames in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
