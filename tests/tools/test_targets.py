"""`licorne bench targets`: the tables of all targets, with simulated runs and a simulated Go benchmark."""

import json
import os
import re
from pathlib import Path

import pytest

from licorne_cli.commands import main
from licorne_tools.bench import older_core
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
    *Asks*older*) echo "BenchmarkAsks/x-2 1 2000 asks/s 20 client-µs/ask 200 server-µs/ask" ;;
    *Asks*) echo "BenchmarkAsks/x-2 1 24000 asks/s 5.5 client-µs/ask 40 server-µs/ask" ;;
    *in-process*)
        echo "BenchmarkPods/x-2 1 2.00 s/all 100 µs/pod 100 shim-µs/pod 8000 pods/s 0 server-µs/pod"
        ;;
    *)
        test -x "$LICORNE_BIN" || exit 1
        echo "BenchmarkPods/x-2 1 4.00 s/all 125 µs/pod 50 shim-µs/pod 4000 pods/s 75 server-µs/pod"
        ;;
esac
"""
"""The benchmarks' program, whose second argument is a pattern."""
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
"""A Go that builds that program: ``go test -c -vet=off -o FILE .``"""
BROKEN = """#!/bin/sh
echo no such module
exit 1
"""


@pytest.fixture
def _measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every run of a scenario have the same figures."""

    async def run_once(scenario: Scenario, options: Options) -> Run:
        del scenario
        assert not options.bare
        return RUN

    monkeypatch.setattr("licorne_tools.commands.scenarios.run_once", run_once)


def with_go(folder: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Let this program be found as Go."""
    file = folder / "bin" / "go"
    file.parent.mkdir()
    file.write_text(program)
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{file.parent}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.slow
@pytest.mark.usefixtures("_measured")
def test_the_page_has_a_table_for_each_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The protocol is a column; the older core, measured in turn, has ratios."""
    with_go(tmp_path, monkeypatch, GO.format(benchmark=BENCHMARK))
    assert main(["bench", "targets", "--runs", "2", "--report", str(tmp_path)]) == 0
    text = (tmp_path / "performance.md").read_text()
    assert f"\nlicorne bench targets --runs 2 --report {tmp_path}\n" in text
    assert "| core1 si | 20,000 | 41 | 42 | 10,000 | 2,000 |" in text
    assert "| wire session | 20,000 | 41 | 42 | 10,000 | 2,000 |" in text
    assert "| wirelatency | 0.400 | 1.25 | 41 | 42 |" in text
    assert "| tenants | 20,000 | 41 | 42 |" in text
    for shape in ("core1", "shim", "onebigapp", "manyapps", "tenants"):
        assert f"| {shape} | asks a second | 24,000 | 2,000 | 12.00 |" in text
        assert f"| {shape} | server CPU an ask, µs | 40 | 200 | 0.20 |" in text
    for shape in ("5,000 pods on 50 nodes", "50,000 pods on 5,000 nodes"):
        assert f"| {shape} | pods a second | 4,000 | 8,000 | 0.50 |" in text
        assert f"| {shape} | CPU a pod, µs | 125 | 100 | 1.25 |" in text
        assert f"| {shape} | of it in the server | 75 | 0 | - |" in text
    said = capsys.readouterr().err
    sides = re.findall(r"^(?:core1|.* on 50 nodes), pair \d of 2, (\S+): ", said, re.MULTILINE)
    assert sides == [
        *("licorne", "older", "older", "licorne"),
        *("licorne", "in-process", "in-process", "licorne"),
    ]
    runs = re.findall(r"^(\w+) \(.*, (\w+)\), run (\d)", said, re.MULTILINE)
    assert runs[: len(runs) // 2] == [(name, wire, "1") for name, wire, _ in runs[len(runs) // 2 :]]
    assert [name for name, _, _ in runs][:4] == ["core1", "core1", "wire", "wire"]


@pytest.mark.slow
@pytest.mark.usefixtures("_measured")
def test_json_has_all_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The JSON has an object for each scenario, and one for each shape with both cores."""
    with_go(tmp_path, monkeypatch, GO.format(benchmark=BENCHMARK))
    assert main(["bench", "targets", "--pods", "10000", "--json"]) == 0
    *scenarios, core1, manyapps, tenants, shim = json.loads(capsys.readouterr().out)
    assert [each["scenario"] for each in scenarios][-2:] == ["manyapps", "tenants"]
    assert [each["shape"] for each in (core1, manyapps, tenants)] == ["core1", "manyapps", "tenants"]
    assert (core1["scenario"], core1["pods"], core1["nodes"]) == ("grpc", 10_000, 5000)
    assert core1["older"]["runs"][0]["allocations_per_second"] == 2000
    assert (shim["scenario"], shim["pods"], shim["nodes"]) == ("kubernetes", 5000, 50)
    assert shim["licorne"]["runs"][0]["server_cpu_us_per_pod"] == 75
    assert shim["in-process"]["runs"][0]["cpu_us_per_pod"] == 100


@pytest.mark.slow
@pytest.mark.usefixtures("_measured")
def test_without_go_the_older_core_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names the part left out, and the page has the others."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["bench", "targets", "--report", str(tmp_path)]) == 0
    assert "its benchmarks need Go" in capsys.readouterr().err
    text = (tmp_path / "performance.md").read_text()
    assert "### Batches" in text
    assert "Kubernetes' shim" not in text
    assert "Beside the older core" not in text


@pytest.mark.slow
@pytest.mark.usefixtures("_measured")
@pytest.mark.parametrize(
    ("program", "why"),
    [(BROKEN, "no such module"), (GO.format(benchmark=SILENT), "has no figures:\nPASS")],
)
def test_a_failed_benchmark_keeps_other_results(
    program: str,
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The measurements are printed with the last lines of the benchmark, and no page is written."""
    with_go(tmp_path, monkeypatch, program)
    assert main(["bench", "targets", "--report", str(tmp_path / "new")]) == 2
    shown = capsys.readouterr()
    assert why in shown.err
    assert "onebigapp" in shown.out
    assert not (tmp_path / "new").exists()


def test_a_benchmark_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server of a benchmark, which would keep the output open, ends with it."""
    monkeypatch.setattr(older_core, "RUN_SECONDS", 0.5)
    program = tmp_path / "benchmark"
    program.write_text("#!/bin/sh\nsleep 1000 &\nwait\n")
    program.chmod(0o755)
    with pytest.raises(BenchError, match="did not end"):
        older_core.benchmarked(program, older_core.SHAPES[0], Side.THIS)


def test_the_go_benchmarks_have_the_expected_shapes() -> None:
    """Their sources have the units, the cores and the shapes, which are those of the scenarios."""
    asks, pods, backends = (
        (older_core.MODULE / name).read_text()
        for name in ("asks_test.go", "bench_test.go", "backend_test.go")
    )
    for benchmark, source, cores in ((older_core.ASKS, asks, asks), (older_core.PODS, pods, backends)):
        assert f"func {benchmark.name}(" in source
        assert all(f'"{unit}"' in source for unit in benchmark.measures)
        assert all(f'{{"{core}", ' in cores for core in benchmark.cores.values())
    found = re.findall(r"\{(\d+), (\d+), (\d+)\},", pods)
    assert [(5 * int(apps) * int(count), int(nodes)) for nodes, apps, count in found] == [
        *older_core.POD_SIZES
    ]
    shapes = re.findall(r'^\t\{"(\w+)", (\d+), (\d+), (\d+), (\d+), (\d+)\},', asks, re.MULTILINE)
    assert [(name, *map(int, sizes)) for name, *sizes in shapes] == [
        (each.name, each.queues, each.apps, each.asks, each.nodes, each.batch)
        for each in older_core.ASK_SCENARIOS
    ]


@pytest.mark.bench
def test_all_targets_have_figures(capsys: pytest.CaptureFixture[str]) -> None:
    """Every cell has a figure, whatever the size. The shim's benchmark has no such small shape."""
    assert main(["bench", "targets", "--nodes", "5", "--pods", "50", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    names = [each["scenario"] for each in found]
    assert names == [
        *("core1", "core1", "wire", "wire", "latency", "wirelatency"),
        *("shim", "onebigapp", "manyapps", "tenants"),
    ]
