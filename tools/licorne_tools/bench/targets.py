"""The targets of speed: what is measured for each, beside the bare wire and the older core.

The older core is measured in turn where that can be: with Kubernetes' shim, in whose process it runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from licorne_server.transport import AUTO, served_by
from licorne_tools.bench.installation import Build
from licorne_tools.bench.kubernetes import Shape
from licorne_tools.bench.page import HOW, Measured, Section, again, measured_on, names, shapes
from licorne_tools.bench.page import table as markdown_table
from licorne_tools.bench.report import NOTHING, Pairs, Run, Spread, brief, times
from licorne_tools.bench.scenarios import Scenario

TITLE = "Targets"

COSTS = {
    "Server CPU, µs": "cpu_us_per_allocation",
    "Client CPU, µs": "client_cpu_us_per_allocation",
}
RATES = {"Allocations/s": "allocations_per_second", **COSTS}
MESSAGES = {**RATES, "Requests": "requests", "Responses": "responses"}
LATENCIES = {"Median, ms": "latency_p50_ms", "99th percentile, ms": "latency_p99_ms", **COSTS}
"""Columns of tables, and the measures in them. A cost is that of an allocation."""

OLDER = {"shim": 10_270, "onebigapp": 4_200, "manyapps": 1_900, "tenants": 1_500, "core1": 9_700}
"""Allocations a second of the older core over gRPC, on another day."""
OLDER_COLUMN = "Older core, allocations/s"
OLDER_NOTE = (
    "The figures of the older Go core over gRPC are those of another day, and say what a target refers to. "
    "A ratio is given only where both were measured in turn."
)


@dataclass(frozen=True, slots=True)
class Target:
    """A target in words, and the scenarios and columns of its table."""

    title: str
    about: str
    scenarios: Sequence[str]
    columns: Mapping[str, str]


TARGETS = (
    Target(
        "One ask a message",
        "Target: twice the rate of the older core, and five times with a compiled transport. `wire` has the "
        "same requests, and an echo answers each of them with an allocation: that is what gRPC itself costs. "
        "The server puts several allocations into one response, and so has fewer to send.",
        ("core1", "wire"),
        MESSAGES,
    ),
    Target(
        "A lone ask",
        "Target: at most 0.5 ms in the median, and 1.5 ms in the 99th percentile. In `wirelatency` an echo "
        "answers each ask and each release. The server tells the state of the application too, which changes "
        "twice: that is four messages for each ask instead of two.",
        ("latency", "wirelatency"),
        LATENCIES,
    ),
    Target(
        "Batches",
        "Target: 12 times the rate of the older core in `shim`, its best shape, and 30 times in the others.",
        ("shim", "onebigapp", "manyapps", "tenants"),
        RATES,
    ),
)

SHIM_TITLE = "Kubernetes' shim"
SHIM_ABOUT = (
    "Target: 1.5 times the pods a second of the in-process core with 50 nodes, and twice with 5,000. It is "
    "the benchmark of the published shim, with its predicates; Kubernetes is simulated in its process. "
    "Both cores were measured in turn. A ratio is that of the two runs of a pair."
)
SHIM_MEASURES = {
    "pods a second": "pods_per_second",
    "seconds until all are bound": "seconds",
    "CPU a pod, µs": "cpu_us_per_pod",
    "of it in the shim's process": "shim_cpu_us_per_pod",
    "of it in the server": "server_cpu_us_per_pod",
}
SHIM_HEADERS = ("Shape", "Measure", "Licorne", "In-process core", "Ratio")


@dataclass(frozen=True, slots=True)
class Table:
    """A table with its title, and what it is about."""

    title: str
    about: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]


def tables(results: Mapping[Scenario, Sequence[Run]], shim: Mapping[Shape, Pairs]) -> list[Table]:
    """The tables of all targets that were measured."""
    found = []
    for target in TARGETS:
        own = {scenario: runs for scenario, runs in results.items() if scenario.name in target.scenarios}
        if own:
            found.append(of_target(target, own))
    if shim:
        rows = [row for shape, pairs in shim.items() for row in shim_rows(shape, pairs)]
        found.append(Table(SHIM_TITLE, SHIM_ABOUT, SHIM_HEADERS, rows))
    return found


def of_target(target: Target, results: Mapping[Scenario, Sequence[Run]]) -> Table:
    """The table of a target, a line for each scenario."""
    has_older = any(name in OLDER for name in target.scenarios)
    rows = []
    for label, (scenario, runs) in zip(names(results), results.items(), strict=True):
        cells = [Spread.of(run[measure] for run in runs).quoted() for measure in target.columns.values()]
        older = OLDER.get(scenario.name)
        last = [NOTHING if older is None else brief(older)] if has_older else []
        rows.append([label, *cells, *last])
    headers = ["Scenario", *target.columns, *([OLDER_COLUMN] if has_older else [])]
    return Table(target.title, target.about, headers, rows)


def shim_rows(shape: Shape, pairs: Pairs) -> list[list[str]]:
    """The lines of a shape, one for each measure."""
    rows = []
    for heading, measure in SHIM_MEASURES.items():
        this, other, ratio = pairs.spreads(measure)
        quoted = NOTHING if ratio is None else ratio.quoted(times)
        rows.append([str(shape), heading, this.quoted(), other.quoted(), quoted])
    return rows


def section(
    results: Mapping[Scenario, Sequence[Run]], shim: Mapping[Shape, Pairs], build: Build, command: str
) -> Section:
    """The section of the page. `command` repeats the measurement."""
    labelled = zip(names(results), results.items(), strict=True)
    measured = {label: Measured(scenario, [runs]) for label, (scenario, runs) in labelled}
    parts = [
        measured_on({build.form: build}),
        again(build, command),
        shapes(measured),
        HOW,
        f"gRPC was served by the transport `{served_by(AUTO)}` ([serving](serving.md)).",
        OLDER_NOTE,
    ]
    for each in tables(results, shim):
        parts += [f"### {each.title}", each.about, markdown_table(each.headers, each.rows)]
    return Section(title=TITLE, text="\n\n".join(parts))
