"""`licorne bench`: each scenario at a tiny size, and its failures."""

import json
import pstats
import subprocess
import sys
from pathlib import Path

import pytest

from licorne_cli.commands import main
from licorne_tools.bench.driver import BenchError
from licorne_tools.bench.load import Options
from licorne_tools.bench.report import Run
from licorne_tools.bench.scenarios import (
    BARE,
    PREDICATE_DELAYS,
    SCENARIOS,
    SINGLE,
    Scenario,
    ScenarioKind,
    Wire,
)
from support.patience import PATIENCE

SMOKE = "core"
"""The scenario that runs with the fast tests."""
COMMON = {
    "allocations",
    "seconds",
    "allocations_per_second",
    "cpu_us_per_allocation",
    "client_cpu_us_per_allocation",
    "server_core_percent",
    "client_core_percent",
    "peak_rss_mib",
}
CEILING = {"ceiling_per_second", "ceiling_percent"}
BURST = {
    "requests",
    "responses",
    "echo_per_second",
    "echo_cpu_us_per_allocation",
    "echo_client_cpu_us_per_allocation",
    "echo_server_core_percent",
    "echo_client_core_percent",
    "echo_percent",
}
LATENCY = {"latency_p50_ms", "latency_p99_ms", "latency_samples"}
EXTRA = {
    **{name: BURST for name, scenario in SCENARIOS.items() if scenario.kind is ScenarioKind.BURST},
    "latency": LATENCY,
    "wirelatency": LATENCY,
    "wire": {"requests", "responses"},
    "idle": {"waiting", "idle_cpu_percent"},
    "tworms": {
        *(f"{when}_{what}" for when in ("alone", "beside") for what in ("p50_ms", "p99_ms")),
        "alone_samples",
        "beside_samples",
        "p99_slowdown",
    },
    "memory": {"waiting_rss_mib"},
    "predicates": {"checks", "checks_per_allocation", "nodes_per_check", "requests", "responses"},
    "gang": {"gangs", "members_per_second", "confirmations", "requests", "responses"},
    "preempt": {"victims", "victims_seconds", "victims_per_second", "requests", "responses"},
    "notice": {
        "victims",
        "victims_seconds",
        "victims_per_second",
        "requests",
        "responses",
        "notices",
        "quiet_per_second",
        "quiet_percent",
        "quiet_cpu_us_per_allocation",
        "cpu_percent_of_quiet",
    },
    "storm": {"quiet_per_second", "quiet_percent"},
}


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `licorne bench` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "licorne_server", "bench", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name == SMOKE else pytest.mark.bench) for name in SCENARIOS],
)
def test_every_scenario_has_its_measures(name: str) -> None:
    """The JSON on stdout is complete, and progress is printed to stderr."""
    done = bench(name, "--nodes", "20", "--pods", "200", "--seconds", "0.5", "--json")
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    results = printed if name in SINGLE else [printed]
    assert len(results) == (2 if name in SINGLE else 1)
    for result in results:
        assert (result["scenario"], result["nodes"], result["pods"]) == (name, 20, 200)
        [run] = result["runs"]
        ceiling = CEILING if SCENARIOS[name].kind not in BARE else set()
        assert run.keys() == COMMON | ceiling | EXTRA.get(name, set())
        assert result["summary"].keys() == run.keys()
        assert run["allocations"] > 0
        assert all(run[measure] > 0 for measure in COMMON | ceiling)
    assert "run 1 of 1" in done.stderr


@pytest.mark.bench
@pytest.mark.parametrize("name", SCENARIOS)
def test_scenarios_accept_one_item_per_request(name: str) -> None:
    """Requests of any size give the same allocations."""
    done = bench(*(name, "--nodes", "20", "--pods", "200", "--seconds", "0.5"), "--batch", "1", "--json")
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    for result in printed if name in SINGLE else [printed]:
        assert result["batch"] == 1
        assert result["runs"][0]["allocations"] > 0


@pytest.mark.bench
def test_bursts_run_over_a_session() -> None:
    """The result names the protocol."""
    done = bench("core", "--nodes", "5", "--pods", "50", "--wire", "session", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["wire"] == "session"
    assert result["runs"][0]["allocations"] == 50


@pytest.mark.bench
def test_every_placeholder_is_replaced() -> None:
    """Placeholders and real allocations are counted, with one confirmation for each pair."""
    done = bench("gang", "--nodes", "5", "--pods", "100", "--json")
    assert done.returncode == 0, done.stderr
    [run] = json.loads(done.stdout)["runs"]
    assert (run["gangs"], run["confirmations"], run["allocations"]) == (2, 100, 200)
    assert run["allocations_per_second"] == pytest.approx(2 * run["members_per_second"], rel=0.01)


@pytest.mark.bench
def test_every_preempting_ask_gets_its_victims() -> None:
    """No more allocations are stopped than needed, with as many asks as nodes."""
    done = bench("preempt", "--nodes", "20", "--pods", "20", "--json")
    assert done.returncode == 0, done.stderr
    [run] = json.loads(done.stdout)["runs"]
    assert (run["victims"], run["allocations"]) == (40, 20)


@pytest.mark.bench
def test_both_protocols_are_in_one_table() -> None:
    """Each protocol has a line, beside the echo."""
    done = bench("core1", "--nodes", "5", "--pods", "50")
    assert done.returncode == 0, done.stderr
    header, *rows = done.stdout.splitlines()
    assert "OF ECHO %" in header
    assert [row.split()[:5] for row in rows] == [
        ["core1", wire, "1", "50", "5"] for wire in ("si", "session")
    ]


@pytest.mark.bench
def test_the_table_of_predicates_has_all_variants() -> None:
    """A named shape is run with and without tags, with answers at once and late."""
    done = bench("predicates", "--table", "--nodes", "5", "--pods", "100", "--json")
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert [(result["tagged"], result["answer_after_seconds"]) for result in results] == [
        (tagged, delay) for tagged in (True, False) for delay in PREDICATE_DELAYS
    ]
    for result in results:
        [run] = result["runs"]
        assert (run["allocations"], result["pods"], result["nodes"]) == (100, 100, 5)
        assert run["checks"] > 0
        assert result["refused_percent"] == 0


@pytest.mark.bench
def test_a_run_without_accepted_nodes_fails() -> None:
    """If every node is refused the command fails with this reason."""
    done = bench("predicates", "--nodes", "5", "--pods", "50", "--refuse", "100")
    assert done.returncode == 2
    assert "the RM refuses 100 % of the nodes: that is all 5" in done.stderr


@pytest.mark.bench
def test_several_runs_are_summarized() -> None:
    """The table has the minimum, the median and the maximum of several runs."""
    done = bench("core", "--nodes", "5", "--pods", "50", "--runs", "2", "--sort", "fair")
    assert done.returncode == 0, done.stderr
    first, header, *rows = done.stdout.splitlines()
    assert first.startswith("core: ")
    assert first.endswith("(50 asks, 5 nodes, fair, 1,000 a request, si)")
    assert header.split() == ["MEASURE", "MIN", "MEDIAN", "MAX"]
    assert any(row.startswith("allocations per second ") for row in rows)


@pytest.mark.bench
def test_a_profile_of_the_server_is_written(tmp_path: Path) -> None:
    """The file can be read by pstats, and includes the core."""
    file = tmp_path / "server.prof"
    done = bench("core", "--nodes", "5", "--pods", "50", "--profile", str(file))
    assert done.returncode == 0, done.stderr
    profile = pstats.Stats(str(file)).get_stats_profile()
    assert "handle" in profile.func_profiles


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_failure_keeps_earlier_results(
    options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Results are printed as usual, and the exit code is that of the failure."""

    async def run_once(scenario: Scenario, _: Options) -> Run:
        if scenario.wire is Wire.SESSION:
            raise BenchError("the session ended")
        return {"allocations_per_second": 1234.0}

    monkeypatch.setattr("licorne_tools.commands.scenarios.run_once", run_once)
    assert main(["bench", "core1", *options]) == 2
    shown = capsys.readouterr()
    assert "licorne: the session ended\n" in shown.err
    if options:
        [result] = json.loads(shown.out)
        assert result["wire"] == "si"
    else:
        _, line = shown.out.splitlines()
        assert line.split() == ["core1", "si", "1", "10,000", "5,000", "1,234"]
