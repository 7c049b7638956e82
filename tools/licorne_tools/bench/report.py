"""The numbers of all runs, as a table or as JSON; each with its spread.

Two installations are measured in turn, so that what changes on the machine meets both alike. A
ratio is this one's figure by the other's.
"""

import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from importlib.metadata import version
from math import floor, log10
from statistics import median
from typing import Any

from licorne_tools.bench.installation import Build, this_build
from licorne_tools.bench.scenarios import Kind, Scenario

SIGNIFICANT = 3


@dataclass(frozen=True, slots=True)
class Spread:
    """Of one measure over all runs."""

    min: float
    median: float
    max: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread":
        """That of some values, at least one."""
        known = sorted(values)
        return cls(known[0], median(known), known[-1])

    def quoted(self, shown: Callable[[float], str] | None = None) -> str:
        """``29.4 (28.9 to 30.1)``; the middle alone where all look the same, as of a single run."""
        least, middle, greatest = map(shown or brief, (self.min, self.median, self.max))
        return middle if least == greatest else f"{middle} ({least} to {greatest})"


def brief(value: float) -> str:
    """Three significant digits, and more of whole numbers: ``29.4``, ``1,234``, ``0.144``."""
    if value == int(value):
        return f"{int(value):,}"
    decimals = max(0, SIGNIFICANT - 1 - floor(log10(abs(value))))
    return f"{value:,.{decimals}f}"


def times(ratio: float) -> str:
    """A ratio: ``1.80``."""
    return f"{ratio:.2f}"


HEADERS = ("MEASURE", "MIN", "MEDIAN", "MAX")
NOTHING = "-"
Run = dict[str, float]
Result = tuple[Scenario, Sequence[Run]]
OVERVIEW = {
    "ALLOCATIONS/S": "allocations_per_second",
    "CPU US": "cpu_us_per_allocation",
    "SERVER %": "server_core_percent",
    "CLIENT %": "client_core_percent",
    "REQUESTS": "requests",
    "RESPONSES": "responses",
    "CHECKS/ALLOCATION": "checks_per_allocation",
    "P50 MS": "latency_p50_ms",
    "P99 MS": "latency_p99_ms",
    "VICTIMS/S": "victims_per_second",
    "OF QUIET %": "quiet_percent",
    "ECHO/S": "echo_per_second",
    "ECHO CPU US": "echo_cpu_us_per_allocation",
    "OF ECHO %": "echo_percent",
    "RSS MIB": "peak_rss_mib",
}
"""The columns of a table with several scenarios, and the measures in them."""


def summary(runs: Sequence[Run]) -> dict[str, Spread]:
    """Least, middle and greatest of every measure."""
    return {name: Spread.of(run[name] for run in runs) for name in runs[0]}


def environment() -> dict[str, Any]:
    """What the numbers depend on."""
    return {
        "build": asdict(this_build()),
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
        **scenario_as_json(scenario),
        **runs_as_json(ordered),
        "environment": environment(),
    }


def scenario_as_json(scenario: Scenario) -> dict[str, Any]:
    """What is measured, and how the shape is run."""
    return {
        "scenario": scenario.name,
        "about": scenario.about,
        "nodes": scenario.nodes,
        "pods": scenario.pods,
        **settings(scenario),
    }


def runs_as_json(runs: Sequence[Run]) -> dict[str, Any]:
    """The runs in this order, and each measure over all of them."""
    return {
        "runs": [{name: rounded(value) for name, value in run.items()} for run in runs],
        "summary": {name: spread_as_json(spread) for name, spread in summary(runs).items()},
    }


def spread_as_json(spread: Spread) -> dict[str, float]:
    """A figure with its spread."""
    return {key: rounded(value) for key, value in asdict(spread).items()}


def settings(scenario: Scenario) -> dict[str, Any]:
    """How the shape is run."""
    found: dict[str, Any] = {
        "sort": scenario.sort,
        "batch": scenario.batch,
        "wire": scenario.wire.value,
    }
    if scenario.kind is Kind.ASKED:
        asking = scenario.asking
        found["tagged"] = asking.tagged
        found["refused_percent"] = asking.refused_percent
        found["answer_after_seconds"] = asking.delay
    return found


def title(scenario: Scenario) -> str:
    """What was measured, in a line."""
    parts = [f"{scenario.pods:,} asks", f"{scenario.nodes:,} nodes", *setting_texts(scenario)]
    return f"{scenario.name}: {scenario.about} ({', '.join(parts)})"


def setting_texts(scenario: Scenario) -> list[str]:
    """How the shape is run, for people."""
    texts = [scenario.sort, f"{scenario.batch:,} a request", scenario.wire.value]
    if scenario.kind is Kind.ASKED:
        asking = scenario.asking
        texts.append("tagged" if asking.tagged else "untagged")
        texts.append(f"{asking.refused_percent} % refused")
        texts.append(f"answers after {asking.delay * 1000:g} ms")
    return texts


def overview(results: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    """Headers, and a line for each scenario; no columns that nobody fills.

    A figure is the median, with its spread where there were several runs.
    """
    filled = {
        header: measure
        for header, measure in OVERVIEW.items()
        if any(measure in runs[0] for _, runs in results)
    }
    asked = any(scenario.kind is Kind.ASKED for scenario, _ in results)
    rows = []
    for scenario, runs in results:
        found = summary(runs)
        figures = [found[measure].quoted() if measure in found else NOTHING for measure in filled.values()]
        rows.append([*described(scenario, asked=asked).values(), *figures])
    return [*described(results[0][0], asked=asked), *filled], rows


def described(scenario: Scenario, *, asked: bool) -> Mapping[str, str]:
    """The cells that say which scenario it is; with `asked`, how checks are answered as well."""
    cells = {
        "SCENARIO": scenario.name,
        "WIRE": scenario.wire.value,
        "BATCH": f"{scenario.batch:,}",
        "ASKS": f"{scenario.pods:,}",
        "NODES": f"{scenario.nodes:,}",
    }
    if asked:
        asking = scenario.asking if scenario.kind is Kind.ASKED else None
        cells["TAGGED"] = NOTHING if asking is None else "yes" if asking.tagged else "no"
        cells["REFUSED"] = NOTHING if asking is None else f"{asking.refused_percent}%"
        cells["ANSWER AFTER"] = NOTHING if asking is None else f"{asking.delay * 1000:g} ms"
    return cells


def rounded(value: float) -> float:
    """Four significant digits at least, whole numbers from a thousand on."""
    return round(value) if value >= 1000 or value == int(value) else round(value, 3)


def as_rows(runs: Sequence[Run]) -> list[tuple[str, ...]]:
    """The lines of the table."""
    return [
        (name.replace("_", " "), *map(readable, (spread.min, spread.median, spread.max)))
        for name, spread in summary(runs).items()
    ]


def readable(value: float) -> str:
    """With separators when large, with decimals when small."""
    return f"{rounded(value):,}"


class Side(Enum):
    """Which of the two is measured."""

    THIS = "this"
    OTHER = "other"


def turns(pairs: int) -> Iterator[tuple[int, Side]]:
    """Whose turn it is, with the number of the pair from 1: this, other, other, this, and so on.

    The one that comes first changes with each pair: a machine that becomes slower and slower would
    otherwise cost the second one more in every pair.
    """
    for number in range(1, pairs + 1):
        order = tuple(Side) if number % 2 else tuple(reversed(Side))
        for side in order:
            yield number, side


@dataclass(frozen=True, slots=True)
class Pairs:
    """The runs of both sides, in the order of their pairs."""

    this: list[Run] = field(default_factory=list)
    other: list[Run] = field(default_factory=list)

    def add(self, side: Side, run: Run) -> None:
        """One more run of a side."""
        (self.this if side is Side.THIS else self.other).append(run)

    @property
    def complete(self) -> Sequence[tuple[Run, Run]]:
        """The pairs of which both runs were made."""
        return list(zip(self.this, self.other, strict=False))

    @property
    def measures(self) -> list[str]:
        """What was measured of both."""
        this, other = self.complete[0]
        return [name for name in this if name in other]

    def ratios(self, measure: str) -> list[float]:
        """This one's figure divided by the other's, of each pair that has such a ratio."""
        return [this[measure] / other[measure] for this, other in self.complete if other[measure]]

    def spreads(self, measure: str) -> tuple[Spread, Spread, Spread | None]:
        """Of this one, of the other, and of the pairs' ratios if there is one."""
        this, other = zip(*self.complete, strict=True)
        ratios = self.ratios(measure)
        return (
            Spread.of(run[measure] for run in this),
            Spread.of(run[measure] for run in other),
            Spread.of(ratios) if ratios else None,
        )


Compared = tuple[Scenario, Pairs]
PAIR_HEADERS = ("MEASURE", "THIS", "OTHER", "RATIO")


def pair_rows(pairs: Pairs, measures: Iterable[str]) -> list[list[str]]:
    """A line for each measure that there is of both: this, the other, and the pairs' ratios."""
    found = []
    for measure in measures:
        if measure in pairs.measures:
            this, other, ratio = pairs.spreads(measure)
            quoted = ratio.quoted(times) if ratio is not None else NOTHING
            found.append([measure.replace("_", " "), this.quoted(), other.quoted(), quoted])
    return found


def pairs_table(results: Sequence[Compared]) -> tuple[list[str], list[list[str]]]:
    """Headers, and the lines: of one scenario all measures, of several those of an overview."""
    if len(results) == 1:
        [(_, pairs)] = results
        return [*PAIR_HEADERS], pair_rows(pairs, pairs.measures)
    asked = any(scenario.kind is Kind.ASKED for scenario, _ in results)
    names = list(described(results[0][0], asked=asked))
    lines = [
        [*described(scenario, asked=asked).values(), *line]
        for scenario, pairs in results
        for line in pair_rows(pairs, OVERVIEW.values())
    ]
    return [*names, *PAIR_HEADERS], lines


def pairs_as_json(scenario: Scenario, pairs: Pairs, this: Build, other: Build) -> dict[str, Any]:
    """Everything about a scenario: both sides with their runs in order, and the pairs' ratios."""
    ratios = {measure: pairs.ratios(measure) for measure in pairs.measures}
    return {
        **scenario_as_json(scenario),
        "this": {"build": asdict(this), **runs_as_json(pairs.this)},
        "other": {"build": asdict(other), **runs_as_json(pairs.other)},
        "ratios": {
            measure: {
                "pairs": [rounded(ratio) for ratio in found],
                **spread_as_json(Spread.of(found)),
            }
            for measure, found in ratios.items()
            if found
        },
        "environment": environment(),
    }
