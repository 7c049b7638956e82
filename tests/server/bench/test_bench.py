"""Every scenario at a tiny size: a real server process, real streams, all the numbers.

One scenario is tried with the other tests; `make test-bench` tries them all.
"""

import json
import pstats
import subprocess
import sys
from pathlib import Path

import pytest

from licorne_server.__main__ import main
from licorne_server.bench.scenarios import SCENARIOS

SMOKE = "core"
"""The scenario that is tried with the other tests."""
COMMON = {
    "allocations",
    "seconds",
    "allocations_per_second",
    "cpu_us_per_allocation",
    "peak_rss_mib",
    "ceiling_per_second",
    "ceiling_percent",
}
EXTRA = {
    "latency": {"latency_p50_ms", "latency_p99_ms", "latency_samples"},
    "idle": {"waiting", "idle_cpu_percent"},
    "tworms": {
        *(f"{when}_{what}" for when in ("alone", "beside") for what in ("p50_ms", "p99_ms")),
        "alone_samples",
        "beside_samples",
        "p99_slowdown",
    },
    "memory": {"waiting_rss_mib"},
    "predicates": {"checks", "nodes_per_check"},
}


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `licorne bench` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "licorne_server", "bench", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name == SMOKE else pytest.mark.bench) for name in SCENARIOS],
)
def test_every_scenario_measures_what_it_promises(name: str) -> None:
    """The JSON on stdout is whole, and the talk is on stderr."""
    done = bench(name, "--nodes", "20", "--pods", "200", "--seconds", "0.5", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["scenario"], result["nodes"], result["pods"]) == (name, 20, 200)
    [run] = result["runs"]
    assert run.keys() == COMMON | EXTRA.get(name, set())
    assert result["summary"].keys() == run.keys()
    assert run["allocations"] > 0
    assert run["allocations_per_second"] > 0
    assert run["ceiling_per_second"] > 0
    assert "run 1 of 1" in done.stderr


@pytest.mark.bench
def test_runs_are_repeated_and_summed_up() -> None:
    """The table has the least, the middle and the greatest of several runs."""
    done = bench("core", "--nodes", "5", "--pods", "50", "--runs", "2", "--sort", "fair")
    assert done.returncode == 0, done.stderr
    first, header, *rows = done.stdout.splitlines()
    assert first.startswith("core: ")
    assert first.endswith("(50 asks, 5 nodes, fair)")
    assert header.split() == ["MEASURE", "MIN", "MEDIAN", "MAX"]
    assert any(row.startswith("allocations per second ") for row in rows)


@pytest.mark.bench
def test_the_server_can_be_profiled(tmp_path: Path) -> None:
    """The file is one that pstats reads, and the core is in it."""
    file = tmp_path / "server.prof"
    done = bench("core", "--nodes", "5", "--pods", "50", "--profile", str(file))
    assert done.returncode == 0, done.stderr
    profile = pstats.Stats(str(file)).get_stats_profile()
    assert "handle" in profile.func_profiles


@pytest.mark.parametrize("arguments", [("nosuch",), ("shim", "--nodes", "0"), ("shim", "--pods=x")])
def test_nonsense_is_a_usage_error(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is started, and the exit code says so."""
    with pytest.raises(SystemExit) as refused:
        main(["bench", *arguments])
    assert refused.value.code == 1
    assert capsys.readouterr().out == ""
