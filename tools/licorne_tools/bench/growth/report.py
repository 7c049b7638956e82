"""Growth as a table, as JSON, and as a section of the page of figures, with a picture."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from licorne_tools.bench.growth.measure import Curve, Growth, Point, allowed, least
from licorne_tools.bench.installation import Build
from licorne_tools.bench.page import Section, again, measured_on
from licorne_tools.bench.page import table as markdown_table
from licorne_tools.bench.report import Spread, environment, rounded, spread_as_json

HEADERS = (
    *("DIMENSION", "SIZES"),
    *("US", "US", "US", "FACTOR"),
    *("ASK US", "ASK US", "ASK US", "FACTOR"),
    "LOG N",
)
NOTHING = "-"
FASTER = "!"
"""Mark of a factor if the cost grows faster than log n up to any size."""


def table(growths: Iterable[Growth]) -> list[list[str]]:
    """A row for each dimension, under `HEADERS`."""
    return [line(growth) for growth in growths]


def line(growth: Growth) -> list[str]:
    """The cells of the row for one dimension."""
    points, taking = growth.points, growth.taking
    asks = [NOTHING] * len(points)
    if taking is not None:
        asks = [f"{point.us_per_ask:.1f}" for point in points]
    return [
        growth.dimension.name,
        " → ".join(f"{point.size:,}" for point in points),
        *(f"{point.us_per_allocation:.1f}" for point in points),
        factor(growth.deciding),
        *asks,
        factor(taking),
        "yes" if growth.holds else "no",
    ]


def factor(curve: Curve | None) -> str:
    """The factor from first to last size, marked if the cost grows too fast."""
    if curve is None:
        return NOTHING
    return f"{curve.last:.2f}{'' if curve.holds else FASTER}"


def as_json(growth: Growth) -> dict[str, Any]:
    """A dimension as JSON."""
    first, *_, last = growth.dimension.sizes
    return {
        "scenario": "growth",
        "name": growth.dimension.name,
        "about": growth.dimension.about,
        "points": [point_as_json(runs) for runs in growth.runs],
        "factor": rounded(growth.deciding.last),
        "ask_factor": None if growth.taking is None else rounded(growth.taking.last),
        "allowed": rounded(allowed(first, last)),
        "holds": growth.holds,
        "note": growth.dimension.note,
        "environment": environment(),
    }


def point_as_json(runs: Sequence[Point]) -> dict[str, Any]:
    """The cost of a size, and the spread of its runs."""
    figures: dict[str, Any] = {name: rounded(value) for name, value in asdict(least(runs)).items()}
    costs = Spread.of(run.us_per_allocation for run in runs)
    return {**figures, "us_per_allocation_of_runs": spread_as_json(costs)}


TITLE = "Growth"
PICTURE = "performance-growth.svg"
INTRODUCTION = """\
Microseconds of CPU for each allocation while one thing grows, and for taking in each ask. A size is
measured in a process of its own, in several rounds, and that as often as the command has runs. A
figure is the least of all rounds and runs, so the table does not show how far they differ. The
factor is from the first size to the last. It has a `!` if the cost grows faster than log n up to
one of the sizes: by more than half of the first cost with each tenfold, which is what log n does
from 100 on."""


def section(growths: Sequence[Growth], build: Build, command: str, *, drawn: bool = False) -> Section:
    """The section with a table and notes. `command` repeats the measurement.

    `drawn` adds a picture, for which matplotlib is needed.
    """
    pictures = {}
    if drawn:
        from licorne_tools.bench.growth.picture import drawing

        pictures[PICTURE] = drawing(growths)
    parts = [
        measured_on({build.form: build}),
        again(build, command),
        INTRODUCTION,
        *(f"![The cost of an allocation against the size of each dimension]({name})" for name in pictures),
        markdown_table(HEADERS, table(growths)),
        "\n".join(f"- `{each.dimension.name}`: {each.dimension.about}." for each in growths),
    ]
    notes = [
        f"- `{each.dimension.name}`: {each.dimension.note}"
        for each in growths
        if each.dimension.note and not each.holds
    ]
    if notes:
        parts += ["### What grows faster, and why", "\n".join(notes)]
    return Section(title=TITLE, text="\n\n".join(parts), pictures=pictures)
