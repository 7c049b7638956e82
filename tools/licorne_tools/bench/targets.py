"""The performance targets and their measurements, compared with the bare wire and the older core."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from licorne_server.process.settings import AUTO, served_by
from licorne_tools.bench.installation import Build
from licorne_tools.bench.older_core import ASKS, PODS, Benchmark, Shape
from licorne_tools.bench.page import HOW, Measured, Section, again, measured_on, names, shapes
from licorne_tools.bench.page import table as markdown_table
from licorne_tools.bench.report import NOTHING, Pairs, Run, Spread, times
from licorne_tools.bench.scenarios import Scenario

TITLE = "Targets"

COSTS = {
    "Server CPU, µs": "cpu_us_per_allocation",
    "Client CPU, µs": "client_cpu_us_per_allocation",
}
RATES = {"Allocations/s": "allocations_per_second", **COSTS}
MESSAGES = {**RATES, "Requests": "requests", "Responses": "responses"}
LATENCIES = {"Median, ms": "latency_p50_ms", "99th percentile, ms": "latency_p99_ms", **COSTS}
"""Columns of tables, with their measures. A cost is per allocation."""


@dataclass(frozen=True, slots=True)
class Target:
    """A target as text, and the scenarios and columns of its table."""

    title: str
    about: str
    scenarios: Sequence[str]
    columns: Mapping[str, str]


TARGETS = (
    Target(
        "One ask a message",
        "`wire` has the same requests, and an echo answers each of them with an allocation: that is what "
        "gRPC itself costs. The server puts several allocations into one response, and so has fewer to send.",
        ("core1", "wire"),
        MESSAGES,
    ),
    Target(
        "A lone ask",
        "Target: at most 0.5 ms in the median, and 1.5 ms in the 99th percentile. In `wirelatency` an echo "
        "answers each ask and each release. The server also reports the state of the application, which "
        "changes twice: four messages for each ask instead of two.",
        ("latency", "wirelatency"),
        LATENCIES,
    ),
    Target(
        "Batches",
        "The RM is in Python, as in all tables above. The target is a ratio to the older core, which is "
        "measured with an RM in Go.",
        ("shim", "onebigapp", "manyapps", "tenants"),
        RATES,
    ),
)


@dataclass(frozen=True, slots=True)
class OlderCoreComparison:
    """A comparison with the older core as text, and the columns and measures of its table."""

    benchmark: Benchmark
    title: str
    about: str
    columns: Sequence[str]
    measures: Mapping[str, str]


IN_TURN = "Both cores were measured in turn. A ratio is that of the two runs of a pair."
COMPARISONS = (
    OlderCoreComparison(
        ASKS,
        "Beside the older core, over gRPC",
        "Target: 5 times the asks a second of the older core with one ask a message, which is `core1`; 12 "
        "times in `shim`, its best shape; 30 times in the others. Either core has a process of its own, and "
        f"the same RM, in Go. {IN_TURN}",
        ("Scenario", "Licorne", "Older core"),
        {
            "asks a second": "allocations_per_second",
            "server CPU an ask, µs": "cpu_us_per_allocation",
        },
    ),
    OlderCoreComparison(
        PODS,
        "Kubernetes' shim",
        "Target: 1.5 times the pods a second of the in-process core with 50 nodes, and twice with 5,000. It "
        "is the benchmark of the published shim, with its predicates; Kubernetes is simulated in its "
        f"process. {IN_TURN}",
        ("Shape", "Licorne", "In-process core"),
        {
            "pods a second": "pods_per_second",
            "seconds until all are bound": "seconds",
            "CPU a pod, µs": "cpu_us_per_pod",
            "of it in the shim's process": "shim_cpu_us_per_pod",
            "of it in the server": "server_cpu_us_per_pod",
        },
    ),
)


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A table with its title and its subject."""

    title: str
    about: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]


def tables(results: Mapping[Scenario, Sequence[Run]], compared: Mapping[Shape, Pairs]) -> list[TargetTable]:
    """The tables of all targets that were measured."""
    found = []
    for target in TARGETS:
        own = {scenario: runs for scenario, runs in results.items() if scenario.name in target.scenarios}
        if own:
            found.append(of_target(target, own))
    for comparison in COMPARISONS:
        both = {shape: pairs for shape, pairs in compared.items() if shape.benchmark is comparison.benchmark}
        if both:
            found.append(of_comparison(comparison, both))
    return found


def of_target(target: Target, results: Mapping[Scenario, Sequence[Run]]) -> TargetTable:
    """The table of a target, with a row for each scenario."""
    rows = []
    for label, runs in zip(names(results), results.values(), strict=True):
        cells = [Spread.of(run[measure] for run in runs).quoted() for measure in target.columns.values()]
        rows.append([label, *cells])
    return TargetTable(target.title, target.about, ["Scenario", *target.columns], rows)


def of_comparison(comparison: OlderCoreComparison, results: Mapping[Shape, Pairs]) -> TargetTable:
    """The table of both cores, with a row for each shape and measure."""
    rows = []
    for shape, pairs in results.items():
        for heading, measure in comparison.measures.items():
            this, other, ratio = pairs.spreads(measure)
            quoted = NOTHING if ratio is None else ratio.quoted(times)
            rows.append([shape.title, heading, this.quoted(), other.quoted(), quoted])
    label, *cores = comparison.columns
    return TargetTable(comparison.title, comparison.about, [label, "Measure", *cores, "Ratio"], rows)


def section(
    results: Mapping[Scenario, Sequence[Run]], compared: Mapping[Shape, Pairs], build: Build, command: str
) -> Section:
    """The section of the page. `command` repeats the measurement."""
    labelled = zip(names(results), results.items(), strict=True)
    measured = {label: Measured(scenario, [runs]) for label, (scenario, runs) in labelled}
    parts = [
        measured_on({build.form: build}),
        again(build, command),
        shapes(measured),
        HOW,
        f"gRPC was served by the [transport](installing.md#the-transport) `{served_by(AUTO)}`.",
    ]
    for each in tables(results, compared):
        parts += [f"### {each.title}", each.about, markdown_table(each.headers, each.rows)]
    return Section(title=TITLE, text="\n\n".join(parts))
