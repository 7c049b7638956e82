"""The state directory: storage of configurations that survive the server.

::

    lock            held by the server that uses the directory
    state.sqlite    the revisions of all RMs, and their texts; documents such as the budgets

Each write is one transaction: the database has the old or the new state, whenever the process ends.
An RM has a current record of its revisions, and perhaps a prepared record that will replace it.
"""

import os
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import structlog

from licorne_core.values.ids import RmId
from licorne_server.process.folder_lock import LOCK, FolderLock
from licorne_server.process.settings import SettingsError
from licorne_server.store.configurations.revisions import (
    Damaged,
    Revisions,
    decode,
    digest_of,
    encode,
    needed_texts,
    texts_of,
)
from licorne_server.store.coordination.store import Document

log = structlog.get_logger("core.configurations.state_dir")

DATABASE = "state.sqlite"
NEW = "state.sqlite.new"

OURS_ONLY = 0o700

FORMAT = 2
"""The `user_version` of the database."""

BUSY_SECONDS = 5.0
"""Seconds that a write waits for a reader of the database, such as a backup."""

TABLES = (
    """CREATE TABLE records (
        rm_id TEXT NOT NULL, counts INTEGER NOT NULL, record BLOB NOT NULL,
        PRIMARY KEY (rm_id, counts))""",
    """CREATE TABLE texts (
        rm_id TEXT NOT NULL, digest TEXT NOT NULL, text TEXT NOT NULL,
        PRIMARY KEY (rm_id, digest))""",
    f"PRAGMA user_version = {FORMAT}",
)

DOCUMENTS = """CREATE TABLE IF NOT EXISTS documents (
    name TEXT NOT NULL PRIMARY KEY, revision INTEGER NOT NULL, value BLOB NOT NULL)"""
"""Earlier versions of the same format had no documents, and leave them alone."""


class StateDir:
    """Configurations in one state directory. Methods wait for the disk."""

    def __init__(self, path: Path) -> None:
        """Nothing is read or written before `open`."""
        self._path = path
        self._file = path / DATABASE
        self._lock = FolderLock(path)
        self._database: sqlite3.Connection | None = None

    def open(self) -> list[Revisions]:
        """Create the directory if missing, lock it, and read its revisions.

        Prepared records of a killed server are removed.

        Raises:
            SettingsError: the directory is unusable or damaged, or another server uses it.
        """
        try:
            self._path.mkdir(OURS_ONLY, parents=True, exist_ok=True)
            was_used = (self._path / LOCK).exists()
            self._take_lock()
            if not self._file.exists():
                if was_used:
                    log.warning("state is missing: all that was applied is gone", file=str(self._file))
                self._make()
            return self._read()
        except OSError as error:
            self.close()
            raise SettingsError(f"--state-dir {self._path} cannot be used: {error}") from None
        except SettingsError:
            self.close()
            raise

    def close(self) -> None:
        """Unlock the directory."""
        if self._database is not None:
            self._database.close()
            self._database = None
        self._lock.release()

    def prepare(self, revisions: Revisions) -> None:
        """Write the new record besides the current one; `commit` needs hardly more room on the disk.

        Raises:
            OSError: the record cannot be written; the current one stays.
        """
        with self._transaction() as database:
            _prepare(database, revisions)

    def commit(self, revisions: Revisions) -> None:
        """Make the prepared record the current one, and remove unreferenced texts.

        Raises:
            OSError: the change cannot be written; the current record stays.
        """
        with self._transaction() as database:
            _commit(database, revisions.rm_id)
        # The new record is current. Texts that cannot be removed on a full disk go with the next change.
        with suppress(OSError), self._transaction() as database:
            _remove_others(database, revisions.rm_id, texts_of(revisions))

    def write(self, revisions: Revisions) -> None:
        """Prepare and commit."""
        self.prepare(revisions)
        self.commit(revisions)

    def discard(self, rm_id: RmId) -> None:
        """Delete the prepared record."""
        with self._transaction() as database:
            database.execute("DELETE FROM records WHERE rm_id = ? AND NOT counts", (rm_id,))
            left = database.execute("SELECT record FROM records WHERE rm_id = ?", (rm_id,))
            needed = {digest for (record,) in left for digest in needed_texts(record)}
            _remove_others(database, rm_id, needed)

    def drop(self, rm_id: RmId) -> None:
        """Remove all records of an RM."""
        with self._transaction() as database:
            database.execute("DELETE FROM records WHERE rm_id = ?", (rm_id,))
            database.execute("DELETE FROM texts WHERE rm_id = ?", (rm_id,))

    def document(self, key: str) -> Document:
        """A document that is no RM's; one with revision 0 if there is none.

        Raises:
            OSError: the database cannot be read.
        """
        with self._transaction() as database:
            database.execute(DOCUMENTS)
            rows = database.execute("SELECT value, revision FROM documents WHERE name = ?", (key,))
            found = [Document(value=bytes(value), revision=revision) for value, revision in rows]
        return found[0] if found else Document()

    def documents(self) -> dict[str, Document]:
        """All documents that are no RM's.

        Raises:
            OSError: the database cannot be read.
        """
        with self._transaction() as database:
            database.execute(DOCUMENTS)
            rows = database.execute("SELECT name, CAST(value AS BLOB), revision FROM documents")
            return {name: Document(value=value, revision=int(revision)) for name, value, revision in rows}

    def write_document(self, key: str, document: Document | None) -> None:
        """Replace a document; None removes it.

        Raises:
            OSError: the change cannot be written; the former document stays.
        """
        with self._transaction() as database:
            database.execute(DOCUMENTS)
            if document is None:
                database.execute("DELETE FROM documents WHERE name = ?", (key,))
                return
            row = (key, document.revision, document.value)
            database.execute("INSERT OR REPLACE INTO documents VALUES (?, ?, ?)", row)

    def _take_lock(self) -> None:
        if not self._lock.take():
            raise SettingsError(f"--state-dir {self._path} cannot be used: another server uses it")

    def _make(self) -> None:
        """Create the database whole or not at all.

        Raises:
            OSError: it cannot be written.
        """
        new = self._path / NEW
        # SQLite would apply the journal of an earlier database to the new one.
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

    def _read(self) -> list[Revisions]:
        """Open the database; returns the current revisions.

        Raises:
            OSError: the database cannot be written.
            SettingsError: the database cannot be read, or is damaged.
        """
        try:
            self._database = database = _connect(self._file)
            _check(database)
            rows = database.execute("SELECT rm_id, counts, CAST(record AS BLOB) FROM records ORDER BY rm_id")
            records = rows.fetchall()
            found = [_decoded(database, rm_id, record) for rm_id, counts, record in records if counts]
        except sqlite3.OperationalError as error:
            raise self._unusable(f"cannot be read: {error}") from None
        except (Damaged, sqlite3.DatabaseError) as error:
            raise self._unusable(f"is damaged: {error}") from None
        for rm_id in [rm_id for rm_id, counts, _ in records if not counts]:
            log.warning("half-written revisions removed", rm_id=rm_id)
            self.discard(rm_id)
        return found

    def _unusable(self, why: str) -> SettingsError:
        return SettingsError(
            f"{self._file} {why}. Bring back a copy, or remove it: the RMs' registrations are in force then"
        )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Run the block as one transaction.

        Raises:
            OSError: the database cannot be written, or the directory was replaced.
        """
        self._lock.check()
        assert self._database is not None
        with _as_os_error(self._file), self._database as database:
            database.execute("BEGIN IMMEDIATE")
            yield database


def _connect(file: Path) -> sqlite3.Connection:
    """A connection for one thread at a time. Transactions are durable once they have ended."""
    database = sqlite3.connect(file, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    # Transactions are synced with the folder, and removed data is overwritten.
    database.execute("PRAGMA synchronous = EXTRA")
    database.execute("PRAGMA secure_delete = ON")
    return database


def _check(database: sqlite3.Connection) -> None:
    """Check the integrity of the tables.

    Raises:
        Damaged: the tables are damaged, or of another version.
        sqlite3.Error: the tables cannot be read.
    """
    [(version,)] = database.execute("PRAGMA user_version")
    if version != FORMAT:
        raise Damaged(f"it is not of format {FORMAT}: another version has written it")
    [(found,)] = database.execute("PRAGMA integrity_check(1)")
    if found != "ok":
        raise Damaged(found)


def _decoded(database: sqlite3.Connection, rm_id: str, record: bytes) -> Revisions:
    """Revisions of an RM. Digests are checked, as SQLite does not detect all damage of a row.

    Raises:
        Damaged: the record or a text has changed.
        sqlite3.Error: the database cannot be read.
    """
    rows = database.execute("SELECT digest, CAST(text AS TEXT) FROM texts WHERE rm_id = ?", (rm_id,))
    texts: dict[str, str] = dict(rows.fetchall())
    try:
        revisions = decode(record, texts)
    except Damaged as error:
        raise Damaged(f"of RM {rm_id}, {error}") from None
    for digest, text in texts.items():
        if digest_of(text.encode()) != digest:
            raise Damaged(f"a text of RM {rm_id} is not what was written: {digest}")
    if revisions.rm_id != rm_id:
        raise Damaged(f"what it has of RM {rm_id} belongs to RM {revisions.rm_id}")
    return revisions


def _prepare(database: sqlite3.Connection, revisions: Revisions) -> None:
    rm_id = revisions.rm_id
    database.executemany(
        "INSERT OR IGNORE INTO texts VALUES (?, ?, ?)",
        [(rm_id, digest, text) for digest, text in texts_of(revisions).items()],
    )
    database.execute("INSERT OR REPLACE INTO records VALUES (?, FALSE, ?)", (rm_id, encode(revisions)))


def _commit(database: sqlite3.Connection, rm_id: RmId) -> None:
    database.execute("DELETE FROM records WHERE rm_id = ? AND counts", (rm_id,))
    done = database.execute("UPDATE records SET counts = TRUE WHERE rm_id = ?", (rm_id,))
    if done.rowcount != 1:
        raise OSError(f"the prepared configuration of RM {rm_id} was removed meanwhile")


def _remove_others(database: sqlite3.Connection, rm_id: RmId, needed: Collection[str]) -> None:
    """Remove the texts of an RM that are not in `needed`."""
    rows = database.execute("SELECT digest FROM texts WHERE rm_id = ?", (rm_id,)).fetchall()
    others = [(rm_id, digest) for (digest,) in rows if digest not in needed]
    database.executemany("DELETE FROM texts WHERE rm_id = ? AND digest = ?", others)


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
