"""How `licorne bench` ends: what is printed when it is stopped, or when nobody reads any more."""

import json
import os
import sys
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from licorne_cli.commands import main
from licorne_tools.bench.driver import BenchError
from licorne_tools.bench.growth.measure import Point
from licorne_tools.bench.isolation.latency import NEIGHBOUR
from licorne_tools.bench.load import Options
from licorne_tools.bench.report import Run
from licorne_tools.bench.scenarios import Scenario
from licorne_tools.commands.isolation import COLUMNS

RUN = {"allocations_per_second": 1000.0, "cpu_us_per_allocation": 10.0, "peak_rss_mib": 70.0}
BESIDE = {**dict.fromkeys(COLUMNS[NEIGHBOUR].values(), 1.0), "p99_ratio": 1.0}
ATTACK = ("neighbour", "--attack", "ping")
ANY_BENCH = [("core",), ("core", "--against", "pure"), ("growth",), ATTACK]


def play(monkeypatch: pytest.MonkeyPatch, events: Iterator[BaseException | None]) -> None:
    """Measure nothing: each run takes the next event, and fails if that is an exception."""

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
    """Nothing ever fails."""
    while True:
        yield None


@pytest.mark.parametrize("arguments", ANY_BENCH)
def test_a_closed_pipe_is_no_failure(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever has read enough may go: nothing is said of it."""
    play(monkeypatch, forever())
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        assert main(["bench", *arguments]) == 0
    assert "Broken" not in capsys.readouterr().err


@pytest.mark.parametrize("arguments", ANY_BENCH)
def test_it_can_be_stopped(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says so in a line, and no more is begun."""
    play(monkeypatch, iter([KeyboardInterrupt()]))
    assert main(["bench", *arguments]) == 130
    shown = capsys.readouterr()
    assert shown.err.endswith("stopped\n")
    assert shown.out == ""


def test_it_can_be_stopped_while_it_looks_at_both_servers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is measured."""

    def compared(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("licorne_tools.commands.against.compared", compared)
    assert main(["bench", "core", "--against", "pure"]) == 130
    assert capsys.readouterr().err == "stopped\n"


@pytest.mark.parametrize("arguments", [("core",), ATTACK])
@pytest.mark.parametrize(("end", "code"), [(BenchError("it is over"), 2), (KeyboardInterrupt(), 130)])
def test_finished_runs_are_kept(
    arguments: tuple[str, ...],
    end: BaseException,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Those of a scenario that is cut off too."""
    play(monkeypatch, iter([None, None, end]))
    assert main(["bench", *arguments, "--runs", "3", "--json"]) == code
    found = json.loads(capsys.readouterr().out)
    [result] = found if isinstance(found, list) else [found]
    assert len(result["runs"]) == 2
