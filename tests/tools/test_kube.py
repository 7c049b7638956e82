"""`licorne bench kube`: its lines, tables and arguments, tested without a control plane."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from licorne_cli.commands import main
from licorne_tools.bench.driver import BenchError, Progress
from licorne_tools.bench.kube import calls, measure, report
from licorne_tools.bench.kube.lines import LINES, SHAPES, TURN, Line, every, lines, turns
from licorne_tools.bench.kube.measure import PRIORITIES, TAINT, Bench, Found
from licorne_tools.kube.api import ApiRefused, Json
from licorne_tools.kube.plane import Plane
from licorne_tools.kube.programs import LOAD, SOURCES
from licorne_tools.kube.schedulers import Scheduler, SchedulerKind

METRICS = """\
# HELP apiserver_request_total Counter of apiserver requests
apiserver_request_total{code="201",resource="pods",subresource="",verb="POST"} 7
apiserver_request_total{code="429",resource="pods",subresource="",verb="POST"} 2
apiserver_request_total{code="201",resource="pods",subresource="binding",verb="POST"} 5
apiserver_request_total{code="504",resource="events",subresource="",verb="POST"} 1e+01
apiserver_request_total{code="200",resource="",subresource="/metrics",verb="GET"} 3
apiserver_request_total_other{code="500",resource="pods",subresource="",verb="POST"} 100
apiserver_flowcontrol_dispatched_requests_total{flow_schema="us",priority_level="exempt"} 12
apiserver_flowcontrol_dispatched_requests_total{flow_schema="us",priority_level="other"} 1
apiserver_flowcontrol_dispatched_requests_total{flow_schema="others",priority_level="exempt"} 40
"""


def found(bound: float, binds: float = 1.0, **changed: float) -> Found:
    """A run in which all pods were bound after this number of seconds."""
    figures = dict.fromkeys((*report.MEASURES.values(), *report.TROUBLES.values()), 0.0)
    return Found({**figures, "bound_seconds": bound, **changed}, {"POST pods/binding": binds})


def results() -> dict[SchedulerKind, list[Found]]:
    """Two runs of each of two schedulers."""
    return {
        SchedulerKind.KUBE: [found(8), found(10)],
        SchedulerKind.LICORNE: [found(6), found(5, latency_p99_ms=12.5)],
    }


LINE = Line("pods", 20, 40)


def test_figures_are_compared_with_kube_scheduler() -> None:
    """Each figure is the median with its spread; a ratio is that of the runs of one turn."""
    table = report.of_figures(LINE, results())
    assert table.headers == ["Measure", "kube-scheduler", "Licorne", "ratio"]
    rows = {heading: cells for heading, *cells in table.rows}
    assert rows["all bound after, s"] == ["9 (8 to 10)", "5.50 (5 to 6)", "0.62 (0.50 to 0.75)"]
    assert rows["99th percentile, ms"] == ["0", "6.25 (0 to 12.5)", "-"]
    assert "pods not bound" not in rows


def test_without_kube_scheduler_there_are_no_ratios() -> None:
    """Without kube-scheduler the column of ratios is left out."""
    alone = {SchedulerKind.OLDER: [found(6)]}
    assert report.of_figures(LINE, alone).headers == ["Measure", "Older core"]


def test_unbound_pods_have_a_row() -> None:
    """The row appears as soon as one run has such pods."""
    troubled = {**results(), SchedulerKind.OLDER: [found(6), found(6, not_bound=3)]}
    rows = {heading: cells for heading, *cells in report.of_figures(LINE, troubled).rows}
    assert rows["pods not bound"][-2] == "1.50 (0 to 3)"


def test_calls_are_sorted_by_frequency() -> None:
    """Calls are medians; a missing call is 0, and rare ones are left out."""
    known = {
        SchedulerKind.KUBE: [Found({}, {"POST pods/binding": 1.0, "PUT leases": 0.001})],
        SchedulerKind.LICORNE: [
            Found({}, {"POST events": number, "POST pods/binding": 1.0}) for number in (2, 4)
        ],
    }
    table = report.of_calls(LINE, known)
    assert table.rows == [["POST events", "0.00", "3.00"], ["POST pods/binding", "1.00", "1.00"]]


def test_metrics_of_the_api_server_are_parsed() -> None:
    """Calls are summed over codes, those without a resource are left out, and users are distinguished."""
    assert calls.requests(METRICS) == {"POST pods": 9, "POST pods/binding": 5, "POST events": 10}
    assert calls.failed(METRICS) == 12
    assert calls.dispatched(METRICS, "us") == 13
    assert calls.requests("") == Counter()


def test_the_order_of_schedulers_is_reversed_with_each_run() -> None:
    """The order is reversed with each run, so that a slower machine affects all alike."""
    first, second = turns(TURN, 1), turns(TURN, 2)
    assert [kind for _, kind in first] == [*TURN]
    assert [kind for number, kind in second if number == 2] == [*reversed(TURN)]


def test_loads_have_the_requested_size() -> None:
    """No two pods are equal, and a Deployment has several possible nodes."""
    assert lines("priority", 50, None, 100) == [Line("priority", 500, 100, 50)]
    assert every(None, None) == [*LINES]
    assert every(4, 8) == [
        *(Line("pods", 4, 8, rate) for rate in (0, 50, 100, 200)),
        *(Line(shape, 4, 8) for shape in SHAPES if shape != "pods"),
    ]
    assert (Line("pods", 1, 1).replicas, Line("pods", 1, 1).zones) == (1, 1)
    assert (Line("pods", 20, 1).replicas, Line("pods", 500, 1).replicas) == (10, 50)


def test_the_load_has_the_expected_options() -> None:
    """The source of the load has the shapes, the taint, the classes, and the given options."""
    source = SOURCES[LOAD]
    folder = source.module / source.package
    texts = {file.name: file.read_text() for file in folder.glob("*.go")}
    shapes = re.findall(r'^\t"([a-z-]+)": +\{', texts["shapes.go"], re.MULTILINE)
    assert shapes == [*SHAPES]
    assert f'"{TAINT}"' in texts["shapes.go"]
    [classes] = re.findall(r"priorities = \[\]string\{(.*)\}", texts["shapes.go"])
    assert re.findall(r'"(.*?)"', classes) == [*PRIORITIES]
    measures = set(re.findall(r'json:"(\w+)"', texts["figures.go"]))
    assert measures >= {"created", "not_bound", "created_seconds", "bound_seconds", "calls"}


class Player:
    """An API server that has no time for the first deletion."""

    def __init__(self, metrics: list[str], there: int = 0) -> None:
        """Use these metrics one after the other, and this number of deletions with remaining objects."""
        self._metrics = iter(metrics)
        self._there = there
        self.deleted: list[str] = []

    async def text(self, path: str) -> str:
        """The next metrics."""
        assert path == "/metrics"
        return next(self._metrics)

    async def get(self, path: str, **query: str) -> Json:
        """A list with an object, or an empty one."""
        del path
        assert query == {"limit": "1"}
        return {"items": [{}] * (self._there > 0)}

    async def request(self, method: str, path: str, item: Json, *, query: dict[str, str]) -> Json:
        """Answer a deletion, the first of which is refused."""
        assert (method, [*query]) == ("DELETE", ["limit"])
        assert item["gracePeriodSeconds"] == 0
        self.deleted.append(path)
        self._there -= 1
        if len(self.deleted) == 1:
            raise ApiRefused(504, "Timeout", "too slow")
        return {}


def plane_of(player: Player, folder: Path) -> Plane:
    """A control plane with these answers; each read of a program's CPU returns a second more."""
    seconds = Counter[str]()

    def cpu_seconds(name: str) -> float:
        seconds[name] += 1
        return float(seconds[name])

    processes = SimpleNamespace(cpu_seconds=cpu_seconds)
    plane = SimpleNamespace(api=player, processes=processes, kubeconfig=folder / "kubeconfig")
    return cast("Plane", plane)


LOADED = """#!/bin/sh
echo '{"pods": 4, "created": 4, "not_bound": 0, "created_seconds": 0.5, "bound_seconds": 2,
       "latency_p50_ms": 1, "calls": {"POST pods": 9, "WATCH pods": 1}}'
"""


def test_a_run_has_the_calls_of_others_and_the_cpu_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The load's own calls are subtracted, and those of the scheduler are found by its user."""
    monkeypatch.setattr(measure, "TAIL_SECONDS", 0)
    program = tmp_path / "load"
    program.write_text(LOADED)
    program.chmod(0o755)
    player = Player(["", METRICS.replace('"us"', f'"{measure.USER}"')])
    plane = plane_of(player, tmp_path)
    scheduler = Scheduler(kind=SchedulerKind.LICORNE, name="yunikorn", programs=("licorne", "shim"))
    bench = Bench(plane=plane, kubeconfig=tmp_path, load=program)
    got = asyncio.run(measure.measured(bench, LINE, scheduler, "load-1", 0.01, Progress()))
    assert got.calls == {"POST pods/binding": 5 / 40, "POST events": 10 / 40}
    assert got.figures["calls_per_pod"] == 13 / 40
    assert got.figures["all_calls_per_pod"] == 15 / 40
    assert got.figures["failed_calls"] == 12
    assert (got.figures["created_per_second"], got.figures["bound_per_second"]) == (8, 20)
    assert (got.figures["scheduler_cpu_seconds"], got.figures["cpu_seconds"]) == (2, 3)
    assert got.figures.keys() >= {*report.MEASURES.values(), *report.TROUBLES.values()} - {
        *("latency_p99_ms", "latency_max_ms", "load_cpu_seconds")
    }


def test_a_failed_load_ends_the_run(tmp_path: Path) -> None:
    """The output of the load is on stderr."""
    program = tmp_path / "load"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    bench = Bench(plane=plane_of(Player([]), tmp_path), kubeconfig=tmp_path, load=program)
    with pytest.raises(BenchError, match="the load has failed"):
        asyncio.run(measure.loaded(bench, LINE, "some", "load-1"))


def test_created_objects_are_deleted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A busy API server is called again, and owners are deleted before their objects."""
    monkeypatch.setattr(measure, "POLL_SECONDS", 0)
    player = Player([], there=len(measure.MADE) + 1)
    asyncio.run(measure.clean(plane_of(player, tmp_path)))
    assert player.deleted == [*measure.MADE, *measure.MADE]


class Runs:
    """Played runs in place of a control plane."""

    def __init__(self, failing: int = 0) -> None:
        """Let the run of this number fail."""
        self.made: list[tuple[Line, SchedulerKind]] = []
        self._failing = failing

    @asynccontextmanager
    async def prepared(self, line: Line, progress: Progress) -> AsyncIterator[object]:
        """Prepare nothing."""
        del line, progress
        yield None

    async def one_run(
        self,
        bench: Bench,
        line: Line,
        kind: SchedulerKind,
        name: str,
        idle_seconds: float,
        progress: Progress,
    ) -> Found:
        """Return a run of one second with kube-scheduler, and of two with others."""
        del bench, name, idle_seconds, progress
        self.made.append((line, kind))
        if len(self.made) == self._failing:
            raise BenchError("no luck")
        return found(1 if kind is SchedulerKind.KUBE else 2)


def play(monkeypatch: pytest.MonkeyPatch, runs: Runs) -> None:
    """Measure these runs."""
    monkeypatch.setattr("licorne_tools.commands.kube.check", lambda: None)
    monkeypatch.setattr("licorne_tools.commands.kube.prepared", runs.prepared)
    monkeypatch.setattr("licorne_tools.commands.kube.one_run", runs.one_run)


def test_all_schedulers_are_measured_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each run is printed as it ends; the report has the tables, and the command that repeats it."""
    runs = Runs()
    play(monkeypatch, runs)
    (tmp_path / "performance.md").write_text("# Performance\n\nBy hand.\n")
    options = ["--nodes", "4", "--pods", "8", "--rate", "50", "--runs", "2", "--report", str(tmp_path)]
    assert main(["bench", "kube", *options]) == 0
    assert [kind for _, kind in runs.made] == [*TURN, *reversed(TURN)]
    shown = capsys.readouterr()
    assert "pods, 8 at 50 a second, 4 nodes, run 2 of 2, Licorne: bound after 2.0 s" in shown.err
    text = (tmp_path / "performance.md").read_text()
    assert text.startswith("# Performance\n\nBy hand.\n\n## Beside kube-scheduler\n")
    assert "\nlicorne bench kube --nodes 4 --pods 8 --rate 50 --runs 2 --report " in text
    assert (
        "\n### All bound after, s\n\n| Pods | kube-scheduler | Licorne | ratio | Older core | ratio |\n"
        in text
    )
    assert "\n| pods, 8 at 50 a second, 4 nodes | 1 | 2 | 2.00 | 2 | 2.00 |\n" in text
    assert "\n| POST pods/binding | 1.00 | 1.00 | 1.00 |\n" in text
    assert "not bound" not in text


def test_json_has_all_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON has an object for each line, with the runs and calls of each scheduler."""
    play(monkeypatch, Runs())
    words = ["--shape", "all", "--only", "licorne,kube", "--nodes", "4", "--pods", "8", "--json"]
    assert main(["bench", "kube", *words]) == 0
    first, *others = json.loads(capsys.readouterr().out)
    assert (first["shape"], first["nodes"], first["pods"], first["rate"]) == ("pods", 4, 8, 0)
    assert first["licorne"]["summary"]["bound_seconds"]["median"] == 2
    assert first["kube"]["calls"] == {"POST pods/binding": 1}
    assert "older" not in first
    assert [each["shape"] for each in others][-6:] == [shape for shape in SHAPES if shape != "pods"]


def test_a_failed_run_keeps_the_other_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other lines are printed, and no page is written."""
    play(monkeypatch, Runs(failing=2))
    assert main(["bench", "kube", "--shape", "all", "--nodes", "4", "--report", str(tmp_path / "new")]) == 2
    shown = capsys.readouterr()
    assert "run 1 of 3, Licorne: no luck" in shown.err
    assert "pods, 1,000 at 50 a second, 4 nodes" in shown.out
    assert "pods, flood of 2,000, 4 nodes" not in shown.out
    assert not (tmp_path / "new").exists()


def test_missing_programs_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without Go or etcd the message names the missing program, and its source."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["bench", "kube"]) == 2
    assert "needs Go 1.26 or newer and etcd" in capsys.readouterr().err
