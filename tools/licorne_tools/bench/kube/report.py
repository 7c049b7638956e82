"""The figures of all schedulers side by side: tables, JSON, and the section of the page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from licorne_tools.bench.installation import Build
from licorne_tools.bench.kube.lines import SHAPES, Line
from licorne_tools.bench.kube.measure import Found
from licorne_tools.bench.page import HOW, Section, again, measured_on, plain_table
from licorne_tools.bench.page import table as markdown_table
from licorne_tools.bench.report import (
    NOTHING,
    Pairs,
    Spread,
    brief,
    environment,
    rounded,
    runs_as_json,
    times,
)
from licorne_tools.kube.programs import VERSION
from licorne_tools.kube.schedulers import SchedulerKind

TITLE = "Beside kube-scheduler"
NAMES = {
    SchedulerKind.KUBE: "kube-scheduler",
    SchedulerKind.LICORNE: "Licorne",
    SchedulerKind.OLDER: "Older core",
}
BASE = SchedulerKind.KUBE
"""The scheduler with which all others are compared."""
MEASURES = {
    "created a second": "created_per_second",
    "all bound after, s": "bound_seconds",
    "bound a second": "bound_per_second",
    "created to bound, median, ms": "latency_p50_ms",
    "99th percentile, ms": "latency_p99_ms",
    "longest, ms": "latency_max_ms",
    "CPU of the scheduler, s": "scheduler_cpu_seconds",
    "CPU of the API server, s": "api_server_cpu_seconds",
    "CPU of both, s": "cpu_seconds",
    "CPU of the load, s": "load_cpu_seconds",
    "its calls a pod": "calls_per_pod",
    "all calls a pod": "all_calls_per_pod",
    "idle, % of a core": "idle_cpu_percent",
}
REPORTED = {
    "All bound after, s": "bound_seconds",
    "Created to bound, median, ms": "latency_p50_ms",
    "Created to bound, 99th percentile, ms": "latency_p99_ms",
    "CPU of the scheduler, s": "scheduler_cpu_seconds",
    "CPU of the API server, s": "api_server_cpu_seconds",
    "Calls of the scheduler a pod": "calls_per_pod",
    "CPU of the idle scheduler, % of a core": "idle_cpu_percent",
    "Pods not bound": "not_bound",
}
"""The tables of the page, each with one measure of all rows."""
TROUBLES = {"pods not bound": "not_bound", "failed calls": "failed_calls"}
"""Measures that are left out if all their values are 0."""
FEWEST = 0.005
"""Minimum calls per pod of any scheduler; rarer calls are left out."""
HOW_RATIOS = "All were measured in turn on one control plane. A ratio is to kube-scheduler in the same run."

Results = Mapping[SchedulerKind, Sequence[Found]]
"""The runs of a row, by scheduler."""


@dataclass(frozen=True, slots=True)
class TitledTable:
    """A table with its title."""

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]


def tables(line: Line, results: Results) -> list[TitledTable]:
    """The tables of a row: its figures, and its calls by verb and resource."""
    return [of_figures(line, results), of_calls(line, results)]


def of_figures(line: Line, results: Results) -> TitledTable:
    """A row for each measure, with a column for each scheduler and for its ratio to kube-scheduler."""
    known = {**MEASURES, **TROUBLES}
    told = {heading: measure for heading, measure in known.items() if is_told(measure, {line: results})}
    rows = [[heading, *row(results, measure)] for heading, measure in told.items()]
    return TitledTable(line.name, ["Measure", *headers(results)], rows)


def of_measure(heading: str, results: Mapping[Line, Results]) -> TitledTable:
    """A row for each measured load, with the columns of a table of figures."""
    rows = [[line.name, *row(found, REPORTED[heading])] for line, found in results.items()]
    return TitledTable(heading, ["Pods", *headers(next(iter(results.values())))], rows)


def is_told(measure: str, results: Mapping[Line, Results]) -> bool:
    """False for a measure of `TROUBLES` that is 0 everywhere."""
    return measure not in TROUBLES.values() or any(
        found.figures[measure] for line in results.values() for runs in line.values() for found in runs
    )


def headers(results: Results) -> list[str]:
    """The schedulers; a scheduler with a ratio is followed by the ratio."""
    return [name for kind in results for name in (NAMES[kind], *["ratio"][: has_ratio(results, kind)])]


def row(results: Results, measure: str) -> list[str]:
    """The cells of a measure under `headers`."""
    cells = []
    for kind, runs in results.items():
        cells.append(Spread.of(found.figures[measure] for found in runs).quoted(seen))
        if has_ratio(results, kind):
            ratios = Pairs(figures(runs), figures(results[BASE])).ratios(measure)
            cells.append(Spread.of(ratios).quoted(times) if ratios else NOTHING)
    return cells


def has_ratio(results: Results, kind: SchedulerKind) -> bool:
    """True for a scheduler that is compared with kube-scheduler, if the latter was measured."""
    return kind is not BASE and BASE in results


def seen(value: float) -> str:
    """A figure as text, rounded."""
    return brief(rounded(value))


def figures(runs: Sequence[Found]) -> list[dict[str, float]]:
    """The figures of the runs, without their calls."""
    return [found.figures for found in runs]


def of_calls(line: Line, results: Results) -> TitledTable:
    """A row for each verb and resource, the most frequent first: calls per pod, without those of the load."""
    usual = {kind: calls(runs) for kind, runs in results.items()}
    most = {
        name: max(each.get(name, 0.0) for each in usual.values()) for each in usual.values() for name in each
    }
    names = sorted((name for name in most if most[name] >= FEWEST), key=lambda name: (-most[name], name))
    rows = [[name, *(times(each.get(name, 0.0)) for each in usual.values())] for name in names]
    return TitledTable(f"Calls a pod: {line.name}", ["Call", *(NAMES[kind] for kind in results)], rows)


def calls(runs: Sequence[Found]) -> dict[str, float]:
    """The median over the runs of calls per pod, by verb and resource."""
    names = {name for found in runs for name in found.calls}
    return {name: median(found.calls.get(name, 0.0) for found in runs) for name in names}


def as_json(line: Line, results: Results) -> dict[str, Any]:
    """A load as JSON, with the runs of each scheduler in order."""
    return {
        "scenario": "kube",
        "name": line.name,
        "shape": line.shape,
        "nodes": line.nodes,
        "pods": line.pods,
        "rate": line.rate,
        "kubernetes": VERSION,
        **{kind.value: one_as_json(runs) for kind, runs in results.items()},
        "environment": environment(),
    }


def one_as_json(runs: Sequence[Found]) -> dict[str, Any]:
    """The runs of a scheduler, with its calls per pod by verb and resource."""
    return {
        **runs_as_json(figures(runs)),
        "calls": {name: rounded(number) for name, number in sorted(calls(runs).items()) if number >= FEWEST},
    }


def section(results: Mapping[Line, Results], build: Build, command: str) -> Section:
    """The section of the page. `command` repeats the measurement. Only the first load has its calls."""
    shapes = {line.shape: SHAPES[line.shape] for line in results}
    parts = [
        measured_on({f"Licorne, {build.form}": build}),
        f"Kubernetes was {VERSION}, with etcd in memory, and KWOK in place of kubelets.",
        again(build, command),
        plain_table(("Shape", "What"), list(shapes.items())),
        f"{HOW} {HOW_RATIOS} [Measuring](measuring.md#on-kubernetes) explains the figures.",
    ]
    shown = [of_measure(heading, results) for heading in REPORTED if is_told(REPORTED[heading], results)]
    first, found = next(iter(results.items()))
    for each in (*shown, of_calls(first, found)):
        parts += [f"### {each.title}", markdown_table(each.headers, each.rows)]
    return Section(title=TITLE, text="\n\n".join(parts))
