"""The numbers of pairs, as a table or as JSON. A ratio is this one's figure by the other's."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from licorne_tools.bench.installation import Build
from licorne_tools.bench.pairs import Pairs
from licorne_tools.bench.report import (
    NOTHING,
    OVERVIEW,
    described,
    environment,
    rounded,
    runs_as_json,
    scenario_as_json,
    spread_as_json,
)
from licorne_tools.bench.scenarios import Kind, Scenario
from licorne_tools.bench.spread import Spread, times

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
