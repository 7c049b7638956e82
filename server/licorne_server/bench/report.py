"""The numbers of all runs, as a table or as JSON."""

import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from statistics import median
from typing import Any

from licorne_server.bench.scenarios import Scenario

HEADERS = ("MEASURE", "MIN", "MEDIAN", "MAX")
Run = dict[str, float]


def summary(runs: Sequence[Run]) -> dict[str, dict[str, float]]:
    """Least, middle and greatest of every measure."""
    columns = {name: [run[name] for run in runs] for name in runs[0]}
    return {
        name: {"min": min(values), "median": median(values), "max": max(values)}
        for name, values in columns.items()
    }


def environment() -> dict[str, Any]:
    """What the numbers depend on."""
    return {
        "python": platform.python_version(),
        "grpcio": version("grpcio"),
        "protobuf": version("protobuf"),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
    }


def as_json(scenario: Scenario, runs: Sequence[Run]) -> dict[str, Any]:
    """Everything, rounded to what can be told from noise; the runs by rising rate."""
    ordered = sorted(runs, key=lambda run: run["allocations_per_second"])
    return {
        "scenario": scenario.name,
        "about": scenario.about,
        "nodes": scenario.nodes,
        "pods": scenario.pods,
        "sort": scenario.sort,
        "runs": [{name: rounded(value) for name, value in run.items()} for run in ordered],
        "summary": {
            name: {key: rounded(value) for key, value in values.items()}
            for name, values in summary(runs).items()
        },
        "environment": environment(),
    }


def rounded(value: float) -> float:
    """Four significant digits at least, whole numbers from a thousand on."""
    return round(value) if value >= 1000 or value == int(value) else round(value, 3)


def as_rows(runs: Sequence[Run]) -> list[tuple[str, ...]]:
    """The lines of the table."""
    return [
        (name.replace("_", " "), *(readable(values[key]) for key in ("min", "median", "max")))
        for name, values in summary(runs).items()
    ]


def readable(value: float) -> str:
    """With separators when large, with decimals when small."""
    return f"{rounded(value):,}"
