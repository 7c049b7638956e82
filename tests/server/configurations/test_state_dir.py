"""The state directory: what it keeps, what it refuses, and what it never does."""

import json
import resource
import shutil
import stat
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from licorne_core.config import load
from licorne_core.ids import RmId
from licorne_server.configurations.revisions import Revisions, Source, extra_text
from licorne_server.configurations.state_dir import StateDir
from licorne_server.settings import SettingsError
from support.configuring import A, B, C


def revisions_of(rm_id: str, *configs: str, said: str = "", extra: str = "") -> Revisions:
    """Revisions with these texts."""
    revisions = Revisions(rm_id=RmId(rm_id))
    for number, config in enumerate(configs, start=1):
        revisions = revisions.adding(
            load(config),
            Source.OPERATOR,
            time=number,
            by="ann — é",
            comment=f"number {number}",
            extra=extra,
            instead_of=number - 1 if extra else 0,
        )
    return revisions.saying(said, extra)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the state directory is; it is not there yet."""
    return tmp_path / "deep" / "state"


@pytest.fixture
def opened(folder: Path) -> Iterator[Callable[[], tuple[StateDir, list[Revisions]]]]:
    """Opens the directory as another process would, after the former one has left it."""
    last: list[StateDir] = []

    def open_again() -> tuple[StateDir, list[Revisions]]:
        for directory in last:
            directory.close()
        last.append(StateDir(folder))
        return last[-1], last[-1].open()

    yield open_again
    for directory in last:
        directory.close()


Opened = Callable[[], tuple[StateDir, list[Revisions]]]
NAMES = ("rm", "..", "a/../../b", "é" * 128, "A", "a", "x" * 128, "x" * 127 + "y", "nul?*:|", " ")


def test_everything_comes_back(opened: Opened) -> None:
    """Revisions, texts and what the RM said are what they were, for any name an RM may have."""
    directory, found = opened()
    assert found == []
    extra = extra_text({"event.trackingEnabled": "false", "é": "\0"})
    kept = [revisions_of(name, A, B, A, said=C, extra=extra) for name in NAMES]
    for revisions in kept:
        directory.write(revisions)
    _, found = opened()
    assert sorted(found, key=repr) == sorted(kept, key=repr)


def test_nothing_leaves_the_directory(folder: Path, opened: Opened) -> None:
    """No name of an RM leads elsewhere."""
    directory, _ = opened()
    for name in NAMES:
        directory.write(revisions_of(name, A))
    assert sorted(path.name for path in folder.parent.parent.iterdir()) == ["deep"]
    assert sorted(path.name for path in folder.iterdir()) == ["lock", "rms"]
    assert len(list((folder / "rms").iterdir())) == len(NAMES)


def test_only_the_owner_may_read(folder: Path, opened: Opened) -> None:
    """Folders are 0700 and files 0600."""
    directory, _ = opened()
    directory.write(revisions_of("rm", A))
    for path in [folder, *folder.rglob("*")]:
        expected = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == expected, path


def test_second_server_is_refused(folder: Path, opened: Opened) -> None:
    """One server has the directory for itself; after it others may have it."""
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
    """It is another server's, which has made and locked it; the first one is told so."""
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
    """Nothing is made where it was."""
    directory, _ = opened()
    shutil.rmtree(folder)
    with pytest.raises(OSError, match=f"{folder} was removed or replaced"):
        directory.write(revisions_of("rm", A))
    assert not folder.exists()


@pytest.mark.parametrize("cut_off", [False, True])
def test_link_in_place_of_a_folder_is_forgotten_as_a_folder_is(
    folder: Path, opened: Opened, tmp_path: Path, cut_off: bool
) -> None:
    """Also where the server ended between the index and the rest; nothing else behind it goes."""
    directory, _ = opened()
    directory.write(revisions_of("rm", A))
    [here] = (folder / "rms").iterdir()
    elsewhere = tmp_path / "elsewhere"
    here.rename(elsewhere)
    (elsewhere / "notes").write_text("mine")
    here.symlink_to(elsewhere)
    if cut_off:
        (elsewhere / "revisions").unlink()
    else:
        directory.drop(RmId("rm"))
    assert opened()[1] == []
    assert list((folder / "rms").iterdir()) == []
    assert [path.name for path in elsewhere.rglob("*")] == ["notes", "texts"]


def test_prepared_does_not_count_before_it_is_committed(opened: Opened) -> None:
    """A process that ends between the two has the former revisions."""
    directory, _ = opened()
    before, after = revisions_of("rm", A), revisions_of("rm", A, B)
    directory.write(before)
    directory.prepare(after)
    assert opened()[1] == [before]
    directory, _ = opened()
    directory.prepare(after)
    directory.commit(after)
    assert opened()[1] == [after]


def test_first_write_that_was_cut_off_leaves_nothing(folder: Path, opened: Opened) -> None:
    """What was never committed is cleaned away at the next start."""
    directory, _ = opened()
    directory.prepare(revisions_of("rm", A))
    assert opened()[1] == []
    assert list((folder / "rms").iterdir()) == []


def test_texts_that_nothing_needs_go(folder: Path, opened: Opened) -> None:
    """A text goes with the last revision that has it, and one that was discarded too."""
    directory, _ = opened()
    directory.prepare(revisions_of("rm", C))
    directory.discard(RmId("rm"))
    directory.write(revisions_of("rm", A, B))
    texts = {path.read_text() for path in folder.glob("rms/*/texts/*")}
    assert texts == {A, B}
    directory.drop(RmId("rm"))
    assert list((folder / "rms").iterdir()) == []


def test_what_is_discarded_leaves_nothing(folder: Path, opened: Opened) -> None:
    """A change that was refused has its text nowhere, however many of them come."""
    directory, _ = opened()
    for config in (B, C):
        directory.prepare(revisions_of("rm", config))
        directory.discard(RmId("rm"))
    assert list((folder / "rms").iterdir()) == []
    directory.write(revisions_of("rm", A))
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for config in (B, C):
        directory.prepare(revisions_of("rm", A, config))
        directory.discard(RmId("rm"))
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_files_of_earlier_versions_are_read(folder: Path, opened: Opened) -> None:
    """They have no extra configurations."""
    directory, _ = opened()
    kept = revisions_of("rm", A, B)
    directory.write(kept)
    [file] = folder.glob("rms/*/revisions")
    document = json.loads(file.read_bytes().partition(b"\n")[2])
    del document["said_extra"]
    for revision in document["revisions"]:
        del revision["extra"]
        del revision["instead_of"]
    body = json.dumps(document).encode()
    file.write_bytes(sha256(body).hexdigest().encode() + b"\n" + body)
    assert opened()[1] == [kept]


def overwrite(path: Path, content: bytes) -> None:
    """Spoil a file."""
    path.write_bytes(content)


SPOILERS: dict[str, Callable[[Path], None]] = {
    "empty": lambda path: overwrite(path, b""),
    "cut off": lambda path: overwrite(path, path.read_bytes()[:-10]),
    "a bit": lambda path: overwrite(path, path.read_bytes().replace(b"a", b"b", 1)),
    "garbage": lambda path: overwrite(path, b"\xff\x00" * 100),
    "a folder": lambda path: path.rename(path.with_name("elsewhere")).with_name(path.name).mkdir(),
    "huge": lambda path: overwrite(path, b"#" * (3 * 1024 * 1024)),
}


@pytest.mark.parametrize("pattern", ["rms/*/revisions", "rms/*/texts/*"])
@pytest.mark.parametrize("spoil", SPOILERS.values(), ids=SPOILERS)
def test_damaged_files_stop_the_start(
    folder: Path, opened: Opened, pattern: str, spoil: Callable[[Path], None]
) -> None:
    """Nothing is dropped in silence: the error names the file."""
    directory, _ = opened()
    directory.write(revisions_of("rm", A))
    [file] = folder.glob(pattern)
    spoil(file)
    with pytest.raises(SettingsError) as refused:
        opened()
    assert str(file) in str(refused.value)
    cure = f". Bring back a copy, or remove {next((folder / 'rms').iterdir())}: the RM's "
    assert cure in str(refused.value)


def test_missing_text_stops_the_start(folder: Path, opened: Opened) -> None:
    """So does a text that is gone."""
    directory, _ = opened()
    directory.write(revisions_of("rm", A))
    [file] = folder.glob("rms/*/texts/*")
    file.unlink()
    with pytest.raises(SettingsError) as refused:
        opened()
    assert str(refused.value) == (
        f"cannot read {file}: No such file or directory. Bring back a copy, or remove "
        f"{file.parent.parent}: the RM's registration is in force then"
    )


def test_folder_of_another_rm_stops_the_start(folder: Path, opened: Opened) -> None:
    """A folder that was copied under another name is not taken for that RM's."""
    directory, _ = opened()
    directory.write(revisions_of("one", A))
    [here] = (folder / "rms").iterdir()
    here.rename(here.with_name("two-" + "0" * 32))
    with pytest.raises(SettingsError, match="belongs to RM one"):
        opened()


def test_place_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    """A file in its place is told of."""
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(SettingsError, match=f"--state-dir {file} cannot be used: "):
        StateDir(file).open()


@pytest.fixture
def full_disk() -> Iterator[Callable[[int], None]]:
    """Lets no file grow beyond so many bytes, as if the disk were full there."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))

    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_full_disk_leaves_what_was_kept(opened: Opened, full_disk: Callable[[int], None]) -> None:
    """A write that fails half-way raises, and changes nothing that was kept."""
    directory, _ = opened()
    before = revisions_of("rm", A)
    directory.write(before)
    for size in (0, 100, len(B) - 1, len(B) + 10):
        full_disk(size)
        with pytest.raises(OSError):  # noqa: PT011
            directory.prepare(revisions_of("rm", A, B))
    full_disk(resource.RLIM_INFINITY)
    assert opened()[1] == [before]
