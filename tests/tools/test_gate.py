"""The gate of CI: its comparison, its repetitions, and runs without a comparison."""

from itertools import repeat
from pathlib import Path
from shutil import rmtree

import pytest

from licorne_tools.bench import gate
from licorne_tools.bench.scenarios import SCENARIOS
from support.sources import commit, git, older, with_our_sources, write

TINY = SCENARIOS["shim"].scaled(nodes=5, pods=50)


@pytest.mark.parametrize(
    ("ratios", "late", "looks", "good"),
    [
        # A good first series suffices, whatever a single pair shows.
        ([1.0, 2.0, 1.25], False, 3, True),
        # A bad series is followed by a second one, and all pairs count.
        ([1.3, 1.3, 1.0, *repeat(1.0, 97)], False, 9, True),
        ([*repeat(1.26, 100)], False, 9, False),
        # A series ends early if it takes too long, but not before its least number of pairs.
        ([*repeat(1.26, 100)], True, 6, False),
        ([1.3, 1.3, 1.3, *repeat(1.0, 97)], True, 6, True),
    ],
)
def test_a_bad_series_is_repeated(ratios: list[float], late: bool, looks: int, good: bool) -> None:
    """After a bad series and a second one, the median of all pairs is judged."""
    found = gate.enough(ratios, late=lambda: late)
    assert found == ratios[:looks]
    assert gate.good(found) is good


def test_the_base_is_the_first_parent(tmp_path: Path) -> None:
    """The base of a merge is the commit of the target branch."""
    commit(tmp_path)
    git(tmp_path, "switch", "--create", "branch")
    write(tmp_path / "theirs")
    commit(tmp_path)
    git(tmp_path, "switch", "main")
    write(tmp_path / "ours")
    first = commit(tmp_path)
    git(tmp_path, "merge", "--no-ff", "--message=x", "branch")
    assert gate.parent_of(tmp_path) == first


def test_a_commit_is_checked_out_temporarily(tmp_path: Path) -> None:
    """The folder has the files of the commit, and is removed afterwards."""
    write(tmp_path / "file", "before")
    first = commit(tmp_path)
    write(tmp_path / "file", "now")
    commit(tmp_path)
    with gate.exported(tmp_path, first) as folder:
        assert (folder / "file").read_text() == "before"
    assert not folder.exists()
    assert len(git(tmp_path, "worktree", "list").splitlines()) == 1


def test_a_first_commit_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The output for a first commit says that nothing was compared."""
    commit(tmp_path)
    assert gate.run(tmp_path, TINY) == 0
    assert capsys.readouterr().out == (
        "gate: passed, as there is nothing to compare: there is no commit before this one\n"
    )


def test_a_shallow_clone_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A shallow clone, which lacks the base, passes with a message."""
    whole, clone = tmp_path / "whole", tmp_path / "clone"
    whole.mkdir()
    commit(whole)
    commit(whole)
    git(tmp_path, "clone", "--quiet", "--depth=1", whole.as_uri(), str(clone))
    assert gate.run(clone, TINY) == 0
    assert capsys.readouterr().out == (
        "gate: passed, as there is nothing to compare: this clone is shallow, without the commit before\n"
    )


def test_a_folder_without_a_repository_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The text is that of git."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setenv("LC_ALL", "C")
    assert gate.run(tmp_path, TINY) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("gate: failed: git rev-list: ")
    assert "not a git repository" in shown


def test_a_commit_that_cannot_be_checked_out_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The base is known, but its files are lost."""
    write(tmp_path / "file", "before")
    commit(tmp_path)
    lost = git(tmp_path, "rev-parse", "HEAD:file")
    write(tmp_path / "file", "now")
    commit(tmp_path)
    (tmp_path / ".git/objects" / lost[:2] / lost[2:]).unlink()
    assert gate.run(tmp_path, TINY) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("gate: failed: git worktree: ")
    assert lost in shown


def test_a_gate_without_git_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing was compared, so nothing passes."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gate.run(tmp_path, TINY) == 1
    assert capsys.readouterr().out.startswith("gate: failed: git cannot be run: ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import nothing_of_this_name", "No module named 'nothing_of_this_name'"),
        ("import sys\ndef main(_):\n    sys.exit('no such flag')\n", "no such flag"),
    ],
)
def test_a_base_that_cannot_be_started_passes(
    program: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The output has the reason why nothing was compared."""
    before_and_now(tmp_path, before=program)
    assert gate.run(tmp_path, TINY) == 0
    shown = capsys.readouterr().out
    assert "gate: passed, as there is nothing to compare: " in shown
    assert said in shown


def before_and_now(folder: Path, *, before: str) -> None:
    """A repository with a commit of such a server, followed by one of this source."""
    older(folder, before)
    commit(folder)
    for name in ("core", "server"):
        rmtree(folder / name)
    with_our_sources(folder)
    commit(folder)


def test_a_source_that_cannot_be_started_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The gate fails if this source does not start, whatever the base does."""
    with_our_sources(tmp_path)
    commit(tmp_path)
    commit(tmp_path)
    for name in ("core", "server", "clients"):
        (tmp_path / name).unlink()
    older(tmp_path, "import nothing_of_this_name")
    assert gate.run(tmp_path, TINY) == 1
    assert "gate: failed: " in capsys.readouterr().out


@pytest.mark.bench
def test_each_pair_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each pair of runs is printed, with both builds, and the exit code is that of the verdict."""
    with_our_sources(tmp_path)
    first = commit(tmp_path)
    commit(tmp_path)
    code = gate.run(tmp_path, TINY)
    compared, this, before, *pairs, verdict = capsys.readouterr().out.splitlines()
    assert compared.startswith("gate: CPU per allocation, shim: ")
    assert ("this:" in this, "before:" in before, ", pure, " in this) == (True, True, True)
    assert len(pairs) >= gate.FIRST
    assert f" times that of {first} in {len(pairs)} pairs" in verdict
    assert verdict.startswith("gate: passed: " if code == 0 else "gate: failed: ")
