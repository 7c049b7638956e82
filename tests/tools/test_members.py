"""`licorne bench workers` and `failover` at a tiny size. Nothing here depends on speed."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(1200)
"""Each run starts a dozen processes, which a slow machine needs time for."""


def bench(*arguments: str) -> dict[str, Any]:
    """The JSON of the only line of `licorne bench`."""
    done = subprocess.run(
        [sys.executable, "-m", "licorne_server", "bench", *arguments, "--json"],
        capture_output=True,
        text=True,
        timeout=1190,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [result] = json.loads(done.stdout)
    return dict(result)


@pytest.mark.bench
def test_the_cpu_of_each_worker_is_reported() -> None:
    """Eight RMs get all their allocations; the CPU of both workers and the supervisor is summed."""
    result = bench("workers", "--workers", "2", "--nodes", "4", "--pods", "20")
    assert (result["scenario"], result["workers"], result["pods"]) == ("workers", 2, 20)
    [run] = result["runs"]
    assert run["allocations"] == 8 * 20
    cpu = run["worker_1_cpu_seconds"] + run["worker_2_cpu_seconds"] + run["supervisor_cpu_seconds"]
    assert run["cpu_us_per_allocation"] == pytest.approx(cpu / run["allocations"] * 1e6, rel=0.1)
    assert run["with_a_core_each_per_second"] > 0


@pytest.mark.bench
@pytest.mark.parametrize("store", ["local", pytest.param("etcd", marks=pytest.mark.needs("etcd"))])
def test_an_rm_is_served_after_each_death_of_its_owner(store: str) -> None:
    """Every killed owner is replaced, and the times of each stage are in milliseconds."""
    result = bench("failover", "--store", store, "--kills", "2", "--nodes", "4", "--pods", "20")
    assert result["store"] == store
    [run] = result["runs"]
    assert run["kills"] == 2
    for stage in ("welcome", "replayed", "failover"):
        assert 0 < run[f"{stage}_p50_ms"] <= run[f"{stage}_p99_ms"] <= run[f"{stage}_worst_ms"]


@pytest.mark.slow
def test_a_missing_etcd_is_named(tmp_path: Path) -> None:
    """Without the program etcd the bench of failover over it names the program and its package."""
    done = subprocess.run(
        [sys.executable, "-m", "licorne_server", "bench", "failover", "--store", "etcd"],
        capture_output=True,
        text=True,
        timeout=290,
        check=False,
        env={**os.environ, "PATH": str(tmp_path)},
    )
    assert done.returncode == 2
    assert "the program etcd is needed, and not on the PATH" in done.stderr
    assert "etcd-server" in done.stderr
