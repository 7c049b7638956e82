"""The builds with which a server can be compared, and the messages about others."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from licorne_cli.commands import main
from licorne_server.process.build_info import PURE
from licorne_tools.bench.installation import HERE, Installation, NotUsable, commit_of, compared
from support.patience import PATIENCE
from support.sources import ROOT, commit, git, older, with_our_sources, write

TINY = ("--nodes", "5", "--pods", "50", "--runs", "2")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with the sources of this one, and no interpreter."""
    return with_our_sources(tmp_path)


@pytest.mark.slow
def test_both_builds_are_measured_in_turn() -> None:
    """The JSON has both builds, all runs and the ratios, and bare servers are left out."""
    licorne = (sys.executable, "-m", "licorne_server")
    done = subprocess.run(
        [*licorne, "bench", "core", *TINY, "--against", sys.executable, "--json"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    for side in ("this", "other"):
        assert result[side]["build"]["python"].startswith("CPython")
        assert len(result[side]["runs"]) == 2
    assert len(result["ratios"]["cpu_us_per_allocation"]["pairs"]) == 2
    assert not [name for name in result["ratios"] if name.startswith(("ceiling", "echo"))]
    said = [line for line in done.stderr.splitlines() if ", pair " in line]
    assert [line.rpartition(":")[0].rpartition(", ")[2] for line in said] == [
        *("this", "other", "other", "this")
    ]


@pytest.mark.bench
def test_a_table_of_scenarios_has_both_builds(capsys: pytest.CaptureFixture[str]) -> None:
    """The lines before a table of several scenarios name both builds."""
    assert main(["bench", "core", "shim", *TINY, "--against", sys.executable]) == 0
    this, other, same, header, *rows = capsys.readouterr().out.splitlines()
    assert (this.split()[0], other.split()[0], same.split()[0]) == ("this:", "other:", "Both")
    assert header.split()[-3:] == ["THIS", "OTHER", "RATIO"]
    assert {row.split()[0] for row in rows} == {"core", "shim"}


def test_grpc_is_this_server_without_the_transport() -> None:
    """The command for `grpc` imports no transport, so that gRPC's own library serves."""
    installation, _ = compared("grpc")
    assert installation == Installation(HERE.python, grpc=True)
    assert "--grpc" in installation.server()


def test_pure_is_this_source_uncompiled() -> None:
    """The build `pure` is the same source, whatever form this process has."""
    installation, build = compared("pure")
    assert installation == Installation(HERE.python, pure=True)
    assert (build.form, build.folder) == (PURE, str(ROOT / "core/licorne_core"))


def test_a_checkout_is_run_by_its_own_interpreter(checkout: Path) -> None:
    """A checkout runs under the interpreter of its .venv, or under this one if it has none."""
    installation, build = compared(str(checkout))
    assert installation == Installation(sys.executable, checkout=checkout)
    assert build.folder == str(checkout / "core/licorne_core")


def test_a_checkout_must_run_its_own_sources(checkout: Path) -> None:
    """An environment that was made for another checkout would measure that one, and is refused."""
    away = write(checkout / "elsewhere/core/licorne_core/__init__.py").parents[2]
    text = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n'
    write(away / ".venv/bin/python", text, mode=0o755)
    with pytest.raises(NotUsable, match="say make install in"):
        compared(str(away))


def test_a_command_selects_its_interpreter(tmp_path: Path) -> None:
    """The interpreter beside a given command is used, even if the command is a link."""
    command = write(tmp_path / "bin/licorne", mode=0o755)
    text = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n'
    python = write(tmp_path / "bin/python", text, mode=0o755)
    (tmp_path / "licorne").symlink_to(command)
    assert compared(str(tmp_path / "licorne"))[0] == Installation(str(python))


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("nosuch", "nosuch is neither a checkout nor a Python nor a licorne command"),
        (os.devnull, "/dev/null is neither a checkout nor a Python nor a licorne command"),
        ("/", "/ is no checkout: it has no core/licorne_core"),
        (__file__, "is no Python, and there is none beside it"),
    ],
)
def test_an_unusable_build_is_refused(what: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is measured, and the message has the problem."""
    assert main(["bench", "core", "--against", what]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("licorne: --against: ")
    assert said in shown.err


@pytest.mark.parametrize(
    ("answer", "shown"),
    [("", "nothing"), ("hello", "hello"), ("[]", "[]"), ("{}", "{}"), ('{"folder": 1}',) * 2],
)
def test_a_program_that_is_no_python_is_refused(
    answer: str, shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program that is no Python may exit successfully; the message has its answer."""
    program = write(tmp_path / "python", f"#!/bin/sh\necho {shlex.quote(answer)}\n", mode=0o755)
    assert main(["bench", "core", *TINY, "--against", str(program)]) == 2
    said = f"{program} is asked which server it has, and answers:\n{shown}\n"
    assert capsys.readouterr().err == f"licorne: --against: {said}"


def test_a_server_that_cannot_be_imported_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message has the end of Python's output."""
    folder = older(tmp_path, "import nothing_of_this_name")
    assert main(["bench", "core", *TINY, "--against", str(folder)]) == 2
    said = capsys.readouterr().err
    assert "cannot import the server:" in said
    assert "No module named 'nothing_of_this_name'" in said


@pytest.mark.slow
def test_a_server_that_does_not_start_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the one of the two servers, and has the end of its log."""
    folder = older(tmp_path, "import sys\ndef main(_):\n    sys.exit('there is no --http')\n")
    assert main(["bench", "core", *TINY, "--against", str(folder)]) == 2
    shown = capsys.readouterr()
    assert "licorne: core, other: the server did not start:\nthere is no --http" in shown.err
    assert shown.out == ""


def test_a_build_has_its_commit(tmp_path: Path) -> None:
    """A plus marks sources with changes since the commit; files without git have none."""
    package = write(tmp_path / "core/licorne_core/__init__.py").parent
    assert commit_of(package) == ""
    git(tmp_path, "init")
    assert commit_of(package) == ""
    known = commit(tmp_path)
    assert commit_of(package) == known
    write(tmp_path / "README.md")
    assert commit_of(package) == known
    write(package / "__init__.py", "changed")
    assert commit_of(package) == f"{known}+"
