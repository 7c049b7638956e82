"""`licorne bench targets`: the tables of all targets, with runs and a Go benchmark that are played here."""

import json
import os
import re
from pathlib import Path

import pytest

from licorne_cli.commands import main
from licorne_tools.bench import kubernetes
from licorne_tools.bench.driver import BenchError
from licorne_tools.bench.load import Options
from licorne_tools.bench.report import Run, Side
from licorne_tools.bench.scenarios import Scenario

RUN = {
    "allocations_per_second": 20_000.0,
    "cpu_us_per_allocation": 41.0,
    "client_cpu_us_per_allocation": 42.0,
    "requests": 10_000.0,
    "responses": 2_000.0,
    "latency_p50_ms": 0.4,
    "latency_p99_ms": 1.25,
}

BENCHMARK = """#!/bin/sh
case "$2" in
    *in-process*) echo "BenchmarkPods/x-2 1 2.00 s/all 100 shim-µs/pod 8000 pods/s" ;;
    *)
        test -x "$LICORNE_BIN" || exit 1
        echo "BenchmarkPods/x-2 1 4.00 s/all 50 shim-µs/pod 4000 pods/s 75 server-µs/pod"
        ;;
esac
"""
"""The shim's benchmark, which takes a pattern as its second argument."""
SILENT = """#!/bin/sh
echo PASS
"""
GO = """#!/bin/sh
shift 4
cat > "$1" <<'END'
{benchmark}
END
chmod +x "$1"
"""
"""Go, which builds that: ``go test -c -vet=off -o FILE .``"""
BROKEN = """#!/bin/sh
echo no such module
exit 1
"""


@pytest.fixture
def _measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run of a scenario has the same figures."""

    async def run_once(scenario: Scenario, options: Options) -> Run:
        del scenario
        assert not options.bare
        return RUN

    monkeypatch.setattr("licorne_tools.commands.scenarios.run_once", run_once)


def with_go(folder: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Have this program found as Go."""
    file = folder / "bin" / "go"
    file.parent.mkdir()
    file.write_text(program)
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{file.parent}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.usefixtures("_measured")
def test_the_page_has_a_table_for_each_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One command writes all; wire and older core stand beside, and only what ran in turn has ratios."""
    with_go(tmp_path, monkeypatch, GO.format(benchmark=BENCHMARK))
    assert main(["bench", "targets", "--runs", "2", "--report", str(tmp_path)]) == 0
    text = (tmp_path / "performance.md").read_text()
    assert f"\nlicorne bench targets --runs 2 --report {tmp_path}\n" in text
    assert "| core1 si | 20,000 | 41 | 42 | 10,000 | 2,000 | 9,700 |" in text
    assert "| wire session | 20,000 | 41 | 42 | 10,000 | 2,000 | - |" in text
    assert "| wirelatency | 0.400 | 1.25 | 41 | 42 |" in text
    assert "| tenants | 20,000 | 41 | 42 | 1,500 |" in text
    for shape in ("5,000 pods on 50 nodes", "50,000 pods on 5,000 nodes"):
        assert f"| {shape} | pods a second | 4,000 | 8,000 | 0.50 |" in text
        assert f"| {shape} | CPU a pod, µs | 125 | 100 | 1.25 |" in text
        assert f"| {shape} | of it in the server | 75 | 0 | - |" in text
    said = capsys.readouterr().err
    sides = re.findall(r"on 50 nodes, pair \d of 2, (\S+): ", said)
    assert sides == ["licorne", "in-process", "in-process", "licorne"]
    runs = re.findall(r"^(\w+) \(.*, (\w+)\), run (\d)", said, re.MULTILINE)
    assert runs[: len(runs) // 2] == [(name, wire, "1") for name, wire, _ in runs[len(runs) // 2 :]]
    assert [name for name, _, _ in runs][:4] == ["core1", "core1", "wire", "wire"]


@pytest.mark.usefixtures("_measured")
def test_data_have_all_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An object for each scenario, and one for each shape with both cores."""
    with_go(tmp_path, monkeypatch, GO.format(benchmark=BENCHMARK))
    assert main(["bench", "targets", "--pods", "5000", "--json"]) == 0
    *scenarios, shim = json.loads(capsys.readouterr().out)
    assert [each["scenario"] for each in scenarios][-2:] == ["manyapps", "tenants"]
    assert (shim["scenario"], shim["pods"], shim["nodes"]) == ("kubernetes", 5000, 50)
    assert shim["licorne"]["runs"][0]["server_cpu_us_per_pod"] == 75
    assert shim["in-process"]["runs"][0]["cpu_us_per_pod"] == 100


@pytest.mark.usefixtures("_measured")
def test_without_go_all_but_the_shim_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command says what is left out, and the page has the rest."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["bench", "targets", "--report", str(tmp_path)]) == 0
    assert "its benchmark needs Go" in capsys.readouterr().err
    text = (tmp_path / "performance.md").read_text()
    assert "### Batches" in text
    assert "Kubernetes' shim" not in text


@pytest.mark.usefixtures("_measured")
@pytest.mark.parametrize(
    ("program", "why"),
    [(BROKEN, "no such module"), (GO.format(benchmark=SILENT), "has no figures:\nPASS")],
)
def test_a_failure_of_the_shim_does_not_lose_the_rest(
    program: str,
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What was measured is printed, the last lines of the benchmark too, and no page is written."""
    with_go(tmp_path, monkeypatch, program)
    assert main(["bench", "targets", "--report", str(tmp_path / "new")]) == 2
    shown = capsys.readouterr()
    assert why in shown.err
    assert "onebigapp" in shown.out
    assert not (tmp_path / "new").exists()


def test_a_benchmark_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its server ends with it, which would keep the output open."""
    monkeypatch.setattr(kubernetes, "RUN_SECONDS", 0.5)
    program = tmp_path / "benchmark"
    program.write_text("#!/bin/sh\nsleep 1000 &\nwait\n")
    program.chmod(0o755)
    with pytest.raises(BenchError, match="did not end"):
        kubernetes.bound(program, kubernetes.SHAPES[0], Side.THIS)


def test_the_benchmark_of_the_shim_has_what_is_looked_for() -> None:
    """Its source names the units, the cores and the shapes."""
    source = (kubernetes.MODULE / "bench_test.go").read_text()
    cores = (kubernetes.MODULE / "backend_test.go").read_text()
    assert all(f'"{unit}"' in source for unit in kubernetes.UNITS)
    assert all(f'"{core}"' in cores for core in kubernetes.CORES.values())
    found = re.findall(r"\{(\d+), (\d+), (\d+)\},", source)
    shapes = [kubernetes.Shape(5 * int(apps) * int(pods), int(nodes)) for nodes, apps, pods in found]
    assert shapes == [*kubernetes.SHAPES]


@pytest.mark.bench
def test_all_targets_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """A figure in every cell, whatever the size. The shim's benchmark has no such small shape."""
    assert main(["bench", "targets", "--nodes", "5", "--pods", "50", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    names = [each["scenario"] for each in found]
    assert names == [
        *("core1", "core1", "wire", "wire", "latency", "wirelatency"),
        *("shim", "onebigapp", "manyapps", "tenants"),
    ]
