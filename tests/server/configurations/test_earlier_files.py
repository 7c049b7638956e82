"""Import of state directories of versions without a database."""

import json
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from licorne_core.values.ids import RmId
from licorne_server.configurations.earlier_files import MARKER
from licorne_server.process.settings import SettingsError
from support.server.configuring import A, B, C
from support.state import EXTRA, Opened, overwrite, revisions_of

FILES = Path(__file__).parents[2] / "data" / "state_of_files"
"""A directory that a version has written that knew no database."""
OF_FILES = [
    revisions_of("a/../../b", A, B, said=A),
    revisions_of("é" * 128, A, B, A, said=C, extra=EXTRA),
]


@pytest.fixture
def of_files(folder: Path) -> Path:
    """A copy of a directory with files."""
    folder.parent.mkdir()
    shutil.copytree(FILES, folder)
    return folder


def test_files_of_earlier_versions_are_taken_over(of_files: Path, opened: Opened) -> None:
    """Files are imported once and removed; later starts have later changes."""
    assert sorted(opened()[1], key=repr) == sorted(OF_FILES, key=repr)
    assert sorted(path.name for path in of_files.iterdir()) == ["lock", "rms", "state.sqlite"]
    assert [path.name for path in (of_files / "rms").iterdir()] == [MARKER]
    directory, found = opened()
    assert sorted(found, key=repr) == sorted(OF_FILES, key=repr)
    directory.drop(RmId("a/../../b"))
    assert opened()[1] == [OF_FILES[1]]


def test_first_files_had_no_extra_configurations(of_files: Path, opened: Opened) -> None:
    """Files without extra configurations are read as with empty ones."""
    [file] = of_files.glob("rms/a____*/revisions")
    document = json.loads(file.read_bytes().partition(b"\n")[2])
    del document["said_extra"]
    for revision in document["revisions"]:
        del revision["extra"]
        del revision["instead_of"]
    body = json.dumps(document).encode()
    file.write_bytes(sha256(body).hexdigest().encode() + b"\n" + body)
    assert sorted(opened()[1], key=repr) == sorted(OF_FILES, key=repr)


def test_files_stay_where_the_database_is_of_no_use(of_files: Path, opened: Opened) -> None:
    """Files are removed only after the database was read."""
    (of_files / "state.sqlite").touch()
    with pytest.raises(SettingsError, match="not of format"):
        opened()
    (of_files / "state.sqlite").unlink()
    assert sorted(opened()[1], key=repr) == sorted(OF_FILES, key=repr)


def test_files_are_taken_over_whole_or_not_at_all(
    of_files: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server killed during the import leaves the files, or both."""
    (of_files / "state.sqlite.new").write_bytes(b"half-written")
    [file] = of_files.glob("rms/a____*/revisions")
    data = file.read_bytes()
    file.write_bytes(data[:-1])
    with pytest.raises(SettingsError, match="not what was written"):
        opened()
    assert not (of_files / "state.sqlite").exists()
    file.write_bytes(data)

    def ends(*_: object) -> None:
        raise OSError("killed")

    with monkeypatch.context() as patched:
        patched.setattr("licorne_server.configurations.state_dir.replace_files", ends)
        with pytest.raises(SettingsError, match="killed"):
            opened()
    assert sorted(opened()[1], key=repr) == sorted(OF_FILES, key=repr)
    assert [path.name for path in (of_files / "rms").iterdir()] == [MARKER]


def test_half_written_files_do_not_count(of_files: Path, opened: Opened) -> None:
    """A folder without an index was not completely written, and is ignored."""
    [file] = of_files.glob("rms/a____*/revisions")
    file.rename(file.with_name("revisions.new"))
    assert opened()[1] == [OF_FILES[1]]


def test_link_in_place_of_a_folder_of_files_is_read(of_files: Path, opened: Opened, tmp_path: Path) -> None:
    """Only the link is removed, not its target."""
    [here] = of_files.glob("rms/a____*")
    elsewhere = tmp_path / "elsewhere"
    here.rename(elsewhere)
    here.symlink_to(elsewhere)
    assert sorted(opened()[1], key=repr) == sorted(OF_FILES, key=repr)
    assert not here.is_symlink()
    assert (elsewhere / "revisions").exists()


FILE_SPOILERS: dict[str, Callable[[Path], None]] = {
    "empty": lambda path: overwrite(path, b""),
    "cut off": lambda path: overwrite(path, path.read_bytes()[:-10]),
    "a bit": lambda path: overwrite(path, path.read_bytes().replace(b"a", b"b", 1)),
    "garbage": lambda path: overwrite(path, b"\xff\x00" * 100),
    "a folder": lambda path: path.rename(path.with_name("elsewhere")).with_name(path.name).mkdir(),
    "huge": lambda path: overwrite(path, b"#" * (3 * 1024 * 1024)),
}
FILE_CASES = [(spoil, name) for spoil in FILE_SPOILERS.values() for name in ("revisions", "texts")]


def gone(path: Path) -> None:
    """Replace the content of a file."""
    path.unlink()


@pytest.mark.parametrize(("spoil", "name"), [*FILE_CASES, (gone, "texts")])
def test_damaged_files_stop_the_start(
    of_files: Path, opened: Opened, spoil: Callable[[Path], None], name: str
) -> None:
    """With a damaged file nothing is imported, and the error names file and remedy."""
    [here] = of_files.glob("rms/a____*")
    file = here / name if name == "revisions" else next((here / name).iterdir())
    spoil(file)
    with pytest.raises(SettingsError) as refused:
        opened()
    assert str(file) in str(refused.value)
    cure = f". Bring back a copy, or remove {here}: the RM's registration is in force then"
    assert str(refused.value).endswith(cure)
    assert not (of_files / "state.sqlite").exists()
