"""Two installations measured in turn, so that what changes on the machine meets both alike.

A ratio is this one's figure by the other's.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

from licorne_tools.bench.installation import Build
from licorne_tools.bench.report import (
    NOTHING,
    OVERVIEW,
    Run,
    Spread,
    described,
    environment,
    rounded,
    runs_as_json,
    scenario_as_json,
    spread_as_json,
    times,
)
from licorne_tools.bench.scenarios import Kind, Scenario


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
COLUMNS = ("MEASURE", "THIS", "OTHER", "RATIO")


def rows(pairs: Pairs, measures: Iterable[str]) -> list[list[str]]:
    """A line for each measure that there is of both: this, the other, and the pairs' ratios."""
    found = []
    for measure in measures:
        if measure in pairs.measures:
            this, other, ratio = pairs.spreads(measure)
            quoted = ratio.quoted(times) if ratio is not None else NOTHING
            found.append([measure.replace("_", " "), this.quoted(), other.quoted(), quoted])
    return found


def table(results: Sequence[Compared]) -> tuple[list[str], list[list[str]]]:
    """Headers, and the lines: of one scenario all measures, of several those of an overview."""
    if len(results) == 1:
        [(_, pairs)] = results
        return [*COLUMNS], rows(pairs, pairs.measures)
    asked = any(scenario.kind is Kind.ASKED for scenario, _ in results)
    names = list(described(results[0][0], asked=asked))
    lines = [
        [*described(scenario, asked=asked).values(), *line]
        for scenario, pairs in results
        for line in rows(pairs, OVERVIEW.values())
    ]
    return [*names, *COLUMNS], lines


def as_json(scenario: Scenario, pairs: Pairs, this: Build, other: Build) -> dict[str, Any]:
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
