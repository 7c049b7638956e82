"""The numbers of `neighbour` and `manyrms`: how long single asks waited, as a table or as JSON."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from licorne_tools.bench.report import Run, environment, runs_as_json, summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A line of the table: what was measured, its runs, and whether the target holds in a run."""

    scenario: str
    name: str
    about: str
    settings: Mapping[str, float]
    runs: Sequence[Run]
    holds: Callable[[Run], bool]

    @property
    def target(self) -> bool:
        """Whether the target holds for the medians of all runs."""
        return self.holds(medians(self.runs))


def medians(runs: Sequence[Run]) -> Run:
    """The middle of each measure."""
    return {name: spread.median for name, spread in summary(runs).items()}


def table(first: str, columns: Mapping[str, str], parts: Iterable[Part]) -> tuple[list[str], list[list[str]]]:
    """Headers, and a line for each part: medians, with their spread where there were several runs.

    `first` is the header of the names, and `columns` has the measure of each other header.
    """
    rows = []
    for part in parts:
        found = summary(part.runs)
        figures = [found[measure].quoted() for measure in columns.values()]
        rows.append([part.name, *figures, "yes" if part.target else "no"])
    return [first, *columns, "HOLDS"], rows


def as_json(part: Part) -> dict[str, Any]:
    """Everything about a part, rounded as other scenarios are."""
    return {
        "scenario": part.scenario,
        "name": part.name,
        "about": part.about,
        **part.settings,
        **runs_as_json(part.runs),
        "holds": part.target,
        "environment": environment(),
    }


def waits(name: str, seconds: list[float]) -> Run:
    """Median, 99th percentile and worst in milliseconds, and how many there were."""
    ordered = sorted(seconds)
    last = len(ordered) - 1
    return {
        f"{name}_p50_ms": ordered[last // 2] * 1000,
        f"{name}_p99_ms": ordered[ceil(last * 0.99)] * 1000,
        f"{name}_worst_ms": ordered[last] * 1000,
        f"{name}_samples": len(ordered),
    }
