"""The directory in which configurations outlive the server.

::

    lock                            held by the server that uses the directory
    rms/NAME/revisions              the revisions of an RM
    rms/NAME/texts/DIGEST.yaml      their texts

A file is written beside its place, flushed to the disk, and moved into place in one step. So each
is either the old one or the new one, whenever the process ends.
"""

import fcntl
import os
import shutil
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

import structlog

from licorne_core.config.caps import MAX_BYTES
from licorne_core.ids import RmId
from licorne_server.caps import MAX_EXTRA_BYTES, MAX_EXTRA_ENTRIES
from licorne_server.configurations.record_file import (
    Damaged,
    decode,
    digest_of,
    encode,
    needed_texts,
    texts_of,
)
from licorne_server.configurations.revisions import MAX_REVISIONS, Revisions
from licorne_server.settings import SettingsError

log = structlog.get_logger(__name__)

LOCK = "lock"
INDEX = "revisions"
TEXTS = "texts"
NEW = ".new"
READABLE = 40
"""Characters of an rmID that the name of its folder shows."""

MAX_INDEX_BYTES = MAX_REVISIONS * 32 * 1024
"""No file of revisions is larger: comments and names are bounded."""

MAX_TEXT_FILE_BYTES = max(MAX_BYTES, 6 * MAX_EXTRA_BYTES + 16 * MAX_EXTRA_ENTRIES)
"""No text is larger: JSON takes six bytes for a control character of an extra configuration."""

OURS_ONLY = 0o700


class _NamedFile(Damaged):
    """A file cannot be used; the text names it."""


class StateDir:
    """The files of one state directory. Its methods wait for the disk."""

    def __init__(self, path: Path) -> None:
        """Nothing is read or written before `open`."""
        self._path = path
        self._rms = path / "rms"
        self._lock = -1

    def open(self) -> list[Revisions]:
        """Make the directory if it is not there, lock it, and read all that is in it.

        What a server that was killed has left half-written is removed.

        Raises:
            SettingsError: it cannot be used, another server uses it, or a file is damaged.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            for folder in (self._path, self._rms):
                folder.mkdir(OURS_ONLY, exist_ok=True)
            self._take_lock()
            folders = sorted(folder for folder in self._rms.iterdir() if folder.is_dir())
            found = [self._read(folder) for folder in folders]
        except OSError as error:
            self.close()
            raise SettingsError(f"--state-dir {self._path} cannot be used: {error}") from None
        return [revisions for revisions in found if revisions is not None]

    def close(self) -> None:
        """Leave the directory to other servers."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def prepare(self, revisions: Revisions) -> None:
        """Write everything beside its place; `commit` needs no more room on the disk."""
        self._check_locked()
        folder = self._folder(revisions.rm_id)
        texts = folder / TEXTS
        if not texts.is_dir():
            for needed in (folder, texts):
                needed.mkdir(OURS_ONLY, exist_ok=True)
            _flush_folder(self._rms)
        for digest, text in texts_of(revisions).items():
            file = _text_file(folder, digest)
            if not file.exists():
                _write_new(file, text.encode())
                _put_in_place(file)
        _flush_folder(texts)
        _write_new(folder / INDEX, encode(revisions))

    def commit(self, revisions: Revisions) -> None:
        """Let what was prepared count, and remove texts that nothing needs any more."""
        self._check_locked()
        folder = self._folder(revisions.rm_id)
        _put_in_place(folder / INDEX)
        _flush_folder(folder)
        _remove_others(folder, texts_of(revisions))

    def write(self, revisions: Revisions) -> None:
        """Both in one."""
        self.prepare(revisions)
        self.commit(revisions)

    def discard(self, rm_id: RmId) -> None:
        """What was prepared does not count: nothing of it is left."""
        self._check_locked()
        folder = self._folder(rm_id)
        index = folder / INDEX
        _beside(index).unlink(missing_ok=True)
        if index.exists():
            _remove_others(folder, needed_texts(_read(index, MAX_INDEX_BYTES)))
        elif folder.is_dir():
            _remove(folder)

    def drop(self, rm_id: RmId) -> None:
        """Remove all of an RM."""
        self._check_locked()
        folder = self._folder(rm_id)
        if folder.is_dir():
            # Without its index the folder counts as never written, however far this comes.
            (folder / INDEX).unlink(missing_ok=True)
            _flush_folder(folder)
            _remove(folder)

    def _take_lock(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._lock = os.open(self._path / LOCK, flags, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise SettingsError(
                f"--state-dir {self._path} cannot be used: another server uses it"
            ) from None
        self._check_locked()

    def _check_locked(self) -> None:
        """Refuse a directory that is not the one that was locked, as another server may have it.

        Raises:
            OSError: it was removed or replaced; nothing of it may be written.
        """
        try:
            is_ours = os.path.samestat(os.fstat(self._lock), os.lstat(self._path / LOCK))
        except FileNotFoundError:
            is_ours = False
        if not is_ours:
            raise OSError(
                f"{self._path} was removed or replaced since this server locked it, and may belong "
                "to another one now: put it back, or restart this server"
            )

    def _folder(self, rm_id: RmId) -> Path:
        """The folder of an RM. No rmID leads out of the directory, and no two to one folder."""
        readable = "".join(
            character if character.isascii() and character.isalnum() else "_"
            for character in rm_id[:READABLE]
        )
        return self._rms / f"{readable}-{sha256(rm_id.encode(errors='replace')).hexdigest()[:32]}"

    def _read(self, folder: Path) -> Revisions | None:
        """The revisions in a folder; None if it was never written to its end.

        Raises:
            SettingsError: a file is damaged.
        """
        index = folder / INDEX
        _beside(index).unlink(missing_ok=True)
        if not index.exists():
            log.warning("half-written revisions removed", folder=str(folder))
            _remove(folder)
            return None
        try:
            data = _read(index, MAX_INDEX_BYTES)
            needed = needed_texts(data)
            texts = {digest: _read_text(_text_file(folder, digest), digest) for digest in needed}
            revisions = decode(data, texts)
            if self._folder(revisions.rm_id) != folder:
                raise Damaged(f"it belongs to RM {revisions.rm_id}, whose folder is another one")
        except Damaged as error:
            what = error if isinstance(error, _NamedFile) else f"{index} is damaged: {error}"
            raise SettingsError(
                f"{what}. Bring back a copy, or remove {folder}: the RM's registration is in "
                "force then"
            ) from None
        _remove_others(folder, needed)
        return revisions


def _text_file(folder: Path, digest: str) -> Path:
    return folder / TEXTS / f"{digest}.yaml"


def _read(file: Path, most: int) -> bytes:
    """The content of a file.

    Raises:
        _NamedFile: it cannot be read, or is too large.
    """
    try:
        with file.open("rb") as stream:
            data = stream.read(most + 1)
    except OSError as error:
        raise _NamedFile(f"cannot read {file}: {error.strerror}") from None
    if len(data) > most:
        raise _NamedFile(f"{file} is damaged: it is larger than {most} bytes")
    return data


def _read_text(file: Path, digest: str) -> str:
    data = _read(file, MAX_TEXT_FILE_BYTES)
    if digest_of(data) != digest:
        raise _NamedFile(f"{file} is damaged: it is not what was written")
    return data.decode()


def _remove(folder: Path) -> None:
    """Remove an RM's folder.

    Where an operator has put a link in its place, only the link goes, and the texts behind it.
    """
    if not folder.is_symlink():
        shutil.rmtree(folder)
        return
    if (folder / TEXTS).is_dir():
        _remove_others(folder, ())
    folder.unlink()


def _beside(file: Path) -> Path:
    return file.with_name(file.name + NEW)


def _write_new(file: Path, data: bytes) -> None:
    """Write what is to be the file beside its place, down to the disk."""
    beside = _beside(file)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        with os.fdopen(os.open(beside, flags, 0o600), "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _put_in_place(file: Path) -> None:
    _beside(file).replace(file)


def _flush_folder(folder: Path) -> None:
    """Let what was moved, made or removed in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_others(folder: Path, needed: Iterable[str]) -> None:
    """Remove the texts that are not needed."""
    keep = {_text_file(folder, digest) for digest in needed}
    for file in (folder / TEXTS).iterdir():
        if file not in keep:
            file.unlink(missing_ok=True)
