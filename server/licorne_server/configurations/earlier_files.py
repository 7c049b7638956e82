"""Migration of state directories of earlier versions, which had files instead of a database.

The files are imported once and then removed. A marker of a later format replaces them: earlier
versions refuse the marker, so they do not start without the imported revisions.
"""

import json
import shutil
from pathlib import Path

from licorne_core.config.caps import MAX_BYTES
from licorne_server.configurations.revisions import (
    MAX_REVISIONS,
    Damaged,
    Revisions,
    decode,
    digest_of,
    needed_texts,
)
from licorne_server.process.settings import SettingsError
from licorne_server.wire.caps import MAX_EXTRA_BYTES, MAX_EXTRA_ENTRIES

MARKER = "moved-into-the-database"
OURS_ONLY = 0o700

MAX_INDEX_BYTES = MAX_REVISIONS * 32 * 1024
"""Bytes of a file of revisions, at most: comments and names are bounded."""

MAX_TEXT_FILE_BYTES = max(MAX_BYTES, 6 * MAX_EXTRA_BYTES + 16 * MAX_EXTRA_ENTRIES)
"""Bytes of a text, at most: JSON takes six bytes for a control character of an extra configuration."""


class _NamedFile(Damaged):
    """An unusable file, which the text names."""


def read_files(rms: Path) -> list[Revisions]:
    """Revisions in the folder of all RMs, without half-written revisions.

    Raises:
        OSError: the folder cannot be read.
        SettingsError: a file is damaged.
    """
    return [_read(folder) for folder in sorted(_folders(rms)) if (folder / "revisions").exists()]


def has_marker(rms: Path) -> bool:
    """True if a database has been read here, after which the marker was made."""
    return (rms / MARKER / "revisions").exists()


def replace_files(rms: Path, format_now: int) -> None:
    """Replace the files by the marker, once. Targets of links are not removed."""
    marker = rms / MARKER / "revisions"
    if has_marker(rms):
        return
    for folder in _folders(rms):
        if folder.is_symlink():
            folder.unlink()
        else:
            shutil.rmtree(folder)
    for folder in (rms, marker.parent):
        folder.mkdir(OURS_ONLY, exist_ok=True)
    marker.touch(0o600)
    body = json.dumps({"format": format_now}).encode()
    marker.write_bytes(digest_of(body).encode() + b"\n" + body)


def _folders(rms: Path) -> list[Path]:
    if not rms.is_dir():
        return []
    return [path for path in rms.iterdir() if path.is_dir() and path.name != MARKER]


def _read(folder: Path) -> Revisions:
    """Revisions in the folder of an RM.

    Raises:
        SettingsError: a file is damaged.
    """
    index = folder / "revisions"
    try:
        record = _content(index, MAX_INDEX_BYTES)
        texts = {digest: _text(folder, digest) for digest in needed_texts(record)}
        return decode(record, texts)
    except Damaged as error:
        what = error if isinstance(error, _NamedFile) else f"{index} is damaged: {error}"
        raise SettingsError(
            f"{what}. Bring back a copy, or remove {folder}: the RM's registration is in force then"
        ) from None


def _content(file: Path, most: int) -> bytes:
    """The content of a file.

    Raises:
        _NamedFile: the file cannot be read, or is too large.
    """
    try:
        with file.open("rb") as stream:
            data = stream.read(most + 1)
    except OSError as error:
        raise _NamedFile(f"cannot read {file}: {error.strerror}") from None
    if len(data) > most:
        raise _NamedFile(f"{file} is damaged: it is larger than {most} bytes")
    return data


def _text(folder: Path, digest: str) -> str:
    file = folder / "texts" / f"{digest}.yaml"
    data = _content(file, MAX_TEXT_FILE_BYTES)
    if digest_of(data) != digest:
        raise _NamedFile(f"{file} is damaged: it is not what was written")
    return data.decode()
