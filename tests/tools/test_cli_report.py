"""`licorne bench --report`: its output, and failures."""

import sys
from pathlib import Path

import pytest

from licorne_cli.commands import main
from licorne_cli.failures import UsageError
from licorne_tools.bench.driver import BenchError
from licorne_tools.bench.growth.measure import Point
from licorne_tools.bench.load import Options
from licorne_tools.bench.report import Run
from licorne_tools.bench.scenarios import Scenario, Wire
from licorne_tools.commands.report import need_matplotlib

TINY = ("--nodes", "5", "--pods", "50")
RUN = {"allocations_per_second": 1000.0, "cpu_us_per_allocation": 10.0, "peak_rss_mib": 70.0}


ANY_BENCH = [("core", *TINY), ("core", *TINY, "--against", "pure"), ("growth",)]
"""All benches that can have a report."""


def faked(monkeypatch: pytest.MonkeyPatch, *, fails: bool = False) -> None:
    """Replace the measurements; with `fails` the session ends."""

    async def run_once(scenario: Scenario, _: Options) -> Run:
        if fails and scenario.wire is Wire.SESSION:
            raise BenchError("the session ended")
        return RUN

    def measured(_: str, size: int) -> Point:
        return Point(size=size, rounds=3, allocations=10, us_per_allocation=10.0, asks=10, us_per_ask=3.0)

    monkeypatch.setattr("licorne_tools.commands.scenarios.run_once", run_once)
    monkeypatch.setattr("licorne_tools.bench.growth.measure.measured", measured)


@pytest.mark.slow
def test_a_report_is_written_beside_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report has the command that repeats it, with the number of runs."""
    faked(monkeypatch)
    folder = tmp_path / "new"
    assert main(["bench", "core1", "shim", *TINY, "--report", str(folder)]) == 0
    shown = capsys.readouterr()
    assert "core1" in shown.out
    assert f"written: {folder / 'performance.md'}\n" in shown.err
    command = f"licorne bench core1 shim --nodes 5 --pods 50 --runs 3 --report {folder}"
    assert command in (folder / "performance.md").read_text()
    assert [path.name for path in folder.iterdir()] == ["performance.md"]
    assert ".svg" not in (folder / "performance.md").read_text()


@pytest.mark.slow
def test_a_report_is_written_only_if_all_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old report remains if a scenario fails."""
    faked(monkeypatch, fails=True)
    assert main(["bench", "core1", "--report", str(tmp_path / "new")]) == 2
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("arguments", ANY_BENCH)
@pytest.mark.parametrize("where", ["file", "file/below"])
def test_an_unwritable_folder_is_refused_at_once(
    arguments: tuple[str, ...],
    where: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nothing is measured, and the message names the folder."""
    monkeypatch.setattr("licorne_tools.commands.scenarios.run_once", None)
    monkeypatch.setattr("licorne_tools.bench.growth.measure.measured", None)
    (tmp_path / "file").touch()
    folder = tmp_path / where
    assert main(["bench", *arguments, "--report", str(folder)]) == 1
    said = f"licorne: --report: cannot write into {folder}: Not a directory\n"
    assert capsys.readouterr().err == said


@pytest.mark.slow
@pytest.mark.parametrize("arguments", ANY_BENCH)
def test_a_page_that_cannot_be_written_is_reported(
    arguments: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The measurements are printed, and the exit code is that of the failure."""
    faked(monkeypatch)
    (tmp_path / "performance.md").mkdir()
    assert main(["bench", *arguments, "--report", str(tmp_path)]) == 2
    shown = capsys.readouterr()
    assert arguments[0] in shown.out
    assert "licorne: --report: [Errno " in shown.err
    assert str(tmp_path / "performance.md") in shown.err


@pytest.mark.bench
def test_a_report_of_two_servers_has_ratios(tmp_path: Path) -> None:
    """The report has pictures of both servers, and of the pairs."""
    options = ("--runs", "1", "--against", sys.executable, "--report", str(tmp_path), "--pictures")
    assert main(["bench", "core", *TINY, *options]) == 0
    assert "### Ratios of the pairs, this by other" in (tmp_path / "performance.md").read_text()
    assert len([*tmp_path.glob("*.svg")]) == 3


def test_pictures_need_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without matplotlib the message has the installation command, before anything is measured."""
    need_matplotlib()
    monkeypatch.setattr("licorne_tools.commands.report.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"which `make install` installs"):
        need_matplotlib()
    assert main(["bench", "core", "--report", "nowhere", "--pictures"]) == 1
