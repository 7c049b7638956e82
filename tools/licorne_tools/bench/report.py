"""The figures of all runs and their spreads, as a table or as JSON.

Two installations are measured in turn, so that changes of the machine affect both equally. A ratio is the
figure of this installation divided by that of the other.
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
from licorne_tools.bench.scenarios import Scenario, ScenarioKind

SIGNIFICANT = 3


@dataclass(frozen=True, slots=True)
class Spread:
    """Minimum, median and maximum of a measure over all runs."""

    min: float
    median: float
    max: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread":
        """The spread of at least one value."""
        known = sorted(values)
        return cls(known[0], median(known), known[-1])

    def quoted(self, shown: Callable[[float], str] | None = None) -> str:
        """``29.4 (28.9 to 30.1)``; only the median if minimum and maximum have the same text."""
        least, middle, greatest = map(shown or brief, (self.min, self.median, self.max))
        return middle if least == greatest else f"{middle} ({least} to {greatest})"


def brief(value: float) -> str:
    """Three significant digits, or all digits of a whole number: ``29.4``, ``1,234``, ``0.144``."""
    if value == int(value):
        return f"{int(value):,}"
    decimals = max(0, SIGNIFICANT - 1 - floor(log10(abs(value))))
    return f"{value:,.{decimals}f}"


def times(ratio: float) -> str:
    """A ratio as text: ``1.80``."""
    return f"{ratio:.2f}"


HEADERS = ("MEASURE", "MIN", "MEDIAN", "MAX")
NOTHING = "-"
Run = dict[str, float]
Result = tuple[Scenario, Sequence[Run]]
OVERVIEW = {
    "ALLOCATIONS/S": "allocations_per_second",
    "CPU US": "cpu_us_per_allocation",
    "CLIENT CPU US": "client_cpu_us_per_allocation",
    "SERVER %": "server_core_percent",
    "CLIENT %": "client_core_percent",
    "REQUESTS": "requests",
    "RESPONSES": "responses",
    "CHECKS/ALLOCATION": "checks_per_allocation",
    "P50 MS": "latency_p50_ms",
    "P99 MS": "latency_p99_ms",
    "VICTIMS/S": "victims_per_second",
    "OF QUIET %": "quiet_percent",
    "CPU OF QUIET %": "cpu_percent_of_quiet",
    "ECHO/S": "echo_per_second",
    "ECHO CPU US": "echo_cpu_us_per_allocation",
    "ECHO CLIENT CPU US": "echo_client_cpu_us_per_allocation",
    "OF ECHO %": "echo_percent",
    "RSS MIB": "peak_rss_mib",
}
"""The columns of a table with several scenarios, and their measures."""


def summary(runs: Sequence[Run]) -> dict[str, Spread]:
    """The spread of each measure."""
    return {name: Spread.of(run[name] for run in runs) for name in runs[0]}


def environment() -> dict[str, Any]:
    """The environment of the measurement."""
    return {
        "build": asdict(this_build()),
        "python": platform.python_version(),
        "grpcio": version("grpcio"),
        "protobuf": version("protobuf"),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
    }


def as_json(scenario: Scenario, runs: Sequence[Run]) -> dict[str, Any]:
    """A scenario with its runs, ordered by rate. Figures are rounded."""
    ordered = sorted(runs, key=lambda run: run["allocations_per_second"])
    return {
        **scenario_as_json(scenario),
        **runs_as_json(ordered),
        "environment": environment(),
    }


def scenario_as_json(scenario: Scenario) -> dict[str, Any]:
    """The scenario with its settings."""
    return {
        "scenario": scenario.name,
        "about": scenario.about,
        "nodes": scenario.nodes,
        "pods": scenario.pods,
        **settings(scenario),
    }


def runs_as_json(runs: Sequence[Run]) -> dict[str, Any]:
    """The runs in the given order, and the spread of each measure."""
    return {
        "runs": [{name: rounded(value) for name, value in run.items()} for run in runs],
        "summary": {name: spread_as_json(spread) for name, spread in summary(runs).items()},
    }


def spread_as_json(spread: Spread) -> dict[str, float]:
    """A spread, rounded."""
    return {key: rounded(value) for key, value in asdict(spread).items()}


def settings(scenario: Scenario) -> dict[str, Any]:
    """The settings of a scenario."""
    found: dict[str, Any] = {
        "sort": scenario.sort,
        "batch": scenario.batch,
        "wire": scenario.wire.value,
    }
    if scenario.kind is ScenarioKind.ASKED:
        asking = scenario.asking
        found["tagged"] = asking.tagged
        found["refused_percent"] = asking.refused_percent
        found["answer_after_seconds"] = asking.delay
    return found


def title(scenario: Scenario) -> str:
    """The scenario in a line."""
    parts = [f"{scenario.pods:,} asks", f"{scenario.nodes:,} nodes", *setting_texts(scenario)]
    return f"{scenario.name}: {scenario.about} ({', '.join(parts)})"


def setting_texts(scenario: Scenario) -> list[str]:
    """The settings of a scenario as texts for people."""
    texts = [scenario.sort, f"{scenario.batch:,} a request", scenario.wire.value]
    if scenario.kind is ScenarioKind.ASKED:
        asking = scenario.asking
        texts.append("tagged" if asking.tagged else "untagged")
        texts.append(f"{asking.refused_percent} % refused")
        texts.append(f"answers after {asking.delay * 1000:g} ms")
    return texts


def overview(results: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    """Headers, and a row for each scenario, without empty columns.

    A figure is the median, with the spread if there are several runs.
    """
    filled = {
        header: measure
        for header, measure in OVERVIEW.items()
        if any(measure in runs[0] for _, runs in results)
    }
    asked = any(scenario.kind is ScenarioKind.ASKED for scenario, _ in results)
    rows = []
    for scenario, runs in results:
        found = summary(runs)
        figures = [found[measure].quoted() if measure in found else NOTHING for measure in filled.values()]
        rows.append([*described(scenario, asked=asked).values(), *figures])
    return [*described(results[0][0], asked=asked), *filled], rows


def described(scenario: Scenario, *, asked: bool) -> Mapping[str, str]:
    """The cells that identify a scenario; with `asked`, also how its RM answers checks."""
    cells = {
        "SCENARIO": scenario.name,
        "WIRE": scenario.wire.value,
        "BATCH": f"{scenario.batch:,}",
        "ASKS": f"{scenario.pods:,}",
        "NODES": f"{scenario.nodes:,}",
    }
    if asked:
        asking = scenario.asking if scenario.kind is ScenarioKind.ASKED else None
        cells["TAGGED"] = NOTHING if asking is None else "yes" if asking.tagged else "no"
        cells["REFUSED"] = NOTHING if asking is None else f"{asking.refused_percent}%"
        cells["ANSWER AFTER"] = NOTHING if asking is None else f"{asking.delay * 1000:g} ms"
    return cells


def rounded(value: float) -> float:
    """A number rounded to three decimal places, or to a whole number from 1,000 on."""
    return round(value) if value >= 1000 or value == int(value) else round(value, 3)


def as_rows(runs: Sequence[Run]) -> list[tuple[str, ...]]:
    """The rows of the table of a single scenario."""
    return [
        (name.replace("_", " "), *map(readable, (spread.min, spread.median, spread.max)))
        for name, spread in summary(runs).items()
    ]


def readable(value: float) -> str:
    """A rounded figure with thousands separators."""
    return f"{rounded(value):,}"


class Side(Enum):
    """The two installations that are compared."""

    THIS = "this"
    OTHER = "other"


def turns(pairs: int) -> Iterator[tuple[int, Side]]:
    """The side of each turn, with the number of the pair from 1: this, other, other, this, and so on.

    The first side alternates: otherwise the second side would lose every pair if the machine becomes slower.
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
        """Add a run of one side."""
        (self.this if side is Side.THIS else self.other).append(run)

    @property
    def complete(self) -> Sequence[tuple[Run, Run]]:
        """The pairs with both runs."""
        return list(zip(self.this, self.other, strict=False))

    @property
    def measures(self) -> list[str]:
        """The measures that both sides have."""
        this, other = self.complete[0]
        return [name for name in this if name in other]

    def ratios(self, measure: str) -> list[float]:
        """Ratios of this side's figure to the other's, for each pair whose divisor is above 0."""
        return [this[measure] / other[measure] for this, other in self.complete if other[measure]]

    def spreads(self, measure: str) -> tuple[Spread, Spread, Spread | None]:
        """The spreads of this side, of the other side, and of the ratios; the last is None without ratios."""
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
    """A row for each of `measures` that both sides have: this, other, and the ratios."""
    found = []
    for measure in measures:
        if measure in pairs.measures:
            this, other, ratio = pairs.spreads(measure)
            quoted = ratio.quoted(times) if ratio is not None else NOTHING
            found.append([measure.replace("_", " "), this.quoted(), other.quoted(), quoted])
    return found


def pairs_table(results: Sequence[Compared]) -> tuple[list[str], list[list[str]]]:
    """Headers and rows: all measures of a single scenario, or the overview measures of several."""
    if len(results) == 1:
        [(_, pairs)] = results
        return [*PAIR_HEADERS], pair_rows(pairs, pairs.measures)
    asked = any(scenario.kind is ScenarioKind.ASKED for scenario, _ in results)
    names = list(described(results[0][0], asked=asked))
    lines = [
        [*described(scenario, asked=asked).values(), *line]
        for scenario, pairs in results
        for line in pair_rows(pairs, OVERVIEW.values())
    ]
    return [*names, *PAIR_HEADERS], lines


def pairs_as_json(scenario: Scenario, pairs: Pairs, this: Build, other: Build) -> dict[str, Any]:
    """A scenario with the runs of both sides in order, and the ratios."""
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
