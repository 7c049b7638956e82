"""Progress and end of `licorne bench`: its line of progress, and its output when it is stopped."""

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from typing import Any

import pytest

from licorne_cli.commands import main
from licorne_tools.bench.driver import BenchError, Progress
from licorne_tools.bench.growth.measure import Point
from licorne_tools.bench.isolation.latency import NEIGHBOUR
from licorne_tools.bench.load import Options
from licorne_tools.bench.report import Run
from licorne_tools.bench.runs import run_once
from licorne_tools.bench.scenarios import SCENARIOS, Scenario
from licorne_tools.commands.isolation import COLUMNS
from support.patience import PATIENCE

RUN = {"allocations_per_second": 1000.0, "cpu_us_per_allocation": 10.0, "peak_rss_mib": 70.0}
BESIDE = {**dict.fromkeys(COLUMNS[NEIGHBOUR].values(), 1.0), "p99_ratio": 1.0}
ATTACK = ("neighbour", "--attack", "ping")
ANY_BENCH = [("core",), ("core", "--against", "pure"), ("growth",), ATTACK]


def play(monkeypatch: pytest.MonkeyPatch, events: Iterator[BaseException | None]) -> None:
    """Replace measurements: each run takes the next event, and raises it if it is an exception."""

    def happen() -> None:
        event = next(events)
        if event is not None:
            raise event

    async def run_once(_: Scenario, __: Options) -> Run:
        happen()
        return RUN

    def measured(_: str, size: int) -> Point:
        happen()
        return Point(size=size, rounds=3, allocations=10, us_per_allocation=10.0, asks=10, us_per_ask=3.0)

    def alone(work: Coroutine[Any, Any, Run]) -> Run:
        work.close()
        happen()
        return BESIDE

    monkeypatch.setattr("licorne_tools.commands.scenarios.run_once", run_once)
    monkeypatch.setattr("licorne_tools.bench.growth.measure.measured", measured)
    monkeypatch.setattr("licorne_tools.commands.isolation.alone", alone)


def forever() -> Iterator[None]:
    """Never fail."""
    while True:
        yield None


@pytest.mark.slow
@pytest.mark.parametrize("arguments", ANY_BENCH)
def test_a_closed_pipe_is_no_failure(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """When the reader closes the pipe, the command ends without a message."""
    play(monkeypatch, forever())
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        assert main(["bench", *arguments]) == 0
    assert "Broken" not in capsys.readouterr().err


@pytest.mark.parametrize("arguments", ANY_BENCH)
def test_a_stopped_bench_prints_a_line(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a stop nothing more is begun."""
    play(monkeypatch, iter([KeyboardInterrupt()]))
    assert main(["bench", *arguments]) == 130
    shown = capsys.readouterr()
    assert shown.err.endswith("stopped\n")
    assert shown.out == ""


def test_a_bench_can_be_stopped_before_it_measures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stop during the preparation of both servers ends the command."""

    def compared(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("licorne_tools.commands.scenarios.compared", compared)
    assert main(["bench", "core", "--against", "pure"]) == 130
    assert capsys.readouterr().err == "stopped\n"


@pytest.mark.parametrize("arguments", [("core",), ATTACK])
@pytest.mark.parametrize(("end", "code"), [(BenchError("it is over"), 2), (KeyboardInterrupt(), 130)])
def test_finished_runs_are_printed_after_a_stop(
    arguments: tuple[str, ...],
    end: BaseException,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The output includes finished runs of a scenario that is cut off."""
    play(monkeypatch, iter([None, None, end]))
    assert main(["bench", *arguments, "--runs", "3", "--json"]) == code
    found = json.loads(capsys.readouterr().out)
    [result] = found if isinstance(found, list) else [found]
    assert len(result["runs"]) == 2


LICORNE = (sys.executable, "-m", "licorne_server")
TINY = ("--nodes", "5", "--seconds", "0.2")
CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def on_terminal(*arguments: str) -> str:
    """The printable output of `licorne bench` with a terminal as stderr."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    with subprocess.Popen(
        [*LICORNE, "bench", *arguments, *TINY],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env=environment,
    ) as process:
        os.close(theirs)
        written = b""
        with suppress(OSError):  # The other end is closed when the process has ended.
            while part := os.read(ours, 4096):
                written += part
        os.close(ours)
        assert process.wait() == 0
    return CONTROL.sub("", written.decode())


def test_a_line_has_the_progress_of_its_step() -> None:
    """The line has the scenario, its step, its progress, and its duration so far."""
    progress = Progress()
    progress.begin("core, run 1 of 3")
    assert re.fullmatch(r"core, run 1 of 3: \d+ s", str(progress))
    progress.step("placing", of=10_000)
    progress.advance(1_999)
    progress.advance()
    assert re.fullmatch(r"core, run 1 of 3: placing, 2,000 of 10,000, \d+ s", str(progress))
    progress.step("asking beside a flood")
    progress.advance(7)
    assert re.fullmatch(r"core, run 1 of 3: asking beside a flood, 7, \d+ s", str(progress))


@pytest.mark.slow
def test_a_terminal_shows_progress() -> None:
    """The line is printed before any measurement, and permanent lines are complete."""
    shown = on_terminal("core", "--pods", "50")
    assert shown.index("licorne bench: ") < shown.index(" allocations/s")
    assert re.search(r"core \(fifo, 1,000 a request, si\), run 1 of 1: [\d,]+ allocations/s", shown)


@pytest.mark.bench
@pytest.mark.parametrize("arguments", [("neighbour", "--attack", "ping"), ("manyrms", "--rms=2")])
def test_a_terminal_shows_the_progress_of_isolation(arguments: tuple[str, ...]) -> None:
    """These scenarios have the same line of progress."""
    assert f"{arguments[0]} " in on_terminal(*arguments)


class Steps(Progress):
    """Records the steps and their sizes."""

    def __init__(self) -> None:
        """Start without steps."""
        self.seen: dict[str, list[int]] = {}
        super().__init__()

    def step(self, name: str, of: int = 0) -> None:
        """Add a step; each has the number of all its parts, and then those done."""
        self.seen[name] = self._parts = [of]
        super().step(name, of)

    def advance(self, by: int = 1) -> None:
        """Add this number of parts."""
        self._parts.append(by)
        super().advance(by)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "step"),
    [
        pytest.param(name, step, marks=() if name == "core" else pytest.mark.bench)
        for name, step in {
            "core": "placing",
            "blocked": "placing",
            "latency": "asking",
            "idle": "placing",
            "tworms": "asking alone",
            "memory": "placing",
            "predicates": "placing",
            "gang": "placing",
            "preempt": "placing",
            "notice": "placing",
            "storm": "placing",
        }.items()
    ],
)
async def test_every_part_of_a_run_is_counted(name: str, step: str) -> None:
    """In the longest step of a run every part counts, up to the announced number."""
    steps = Steps()
    scenario = SCENARIOS[name].scaled(nodes=5, pods=50)
    await run_once(scenario, Options(idle_seconds=0.1, bare=False, progress=steps))
    total, *parts = steps.seen[step]
    assert sum(parts) == total > 0


@pytest.mark.slow
def test_a_file_has_permanent_lines_only() -> None:
    """Without a terminal no line is rewritten."""
    done = subprocess.run(
        [*LICORNE, "bench", "core", "--pods", "50", *TINY],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert "starting the server" not in done.stderr
    assert CONTROL.search(done.stderr) is None
    assert len(done.stderr.splitlines()) == 2
