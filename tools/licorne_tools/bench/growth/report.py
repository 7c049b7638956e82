"""What has grown, as a table, as JSON, and as a section of the page of figures with its picture."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from math import ceil
from textwrap import fill
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from licorne_tools.bench.growth.measure import Curve, Growth, Point, allowed, least
from licorne_tools.bench.installation import Build
from licorne_tools.bench.markdown import Section, measured_on
from licorne_tools.bench.markdown import table as markdown_table
from licorne_tools.bench.page import again
from licorne_tools.bench.pictures import as_svg, style
from licorne_tools.bench.report import Spread, environment, rounded, spread_as_json

HEADERS = (
    *("DIMENSION", "SIZES"),
    *("US", "US", "US", "FACTOR"),
    *("ASK US", "ASK US", "ASK US", "FACTOR"),
    "LOG N",
)
NOTHING = "-"
FASTER = "!"
"""Behind a factor: up to the last size or one before it, the cost grows faster than log n."""


def table(growths: Iterable[Growth]) -> list[list[str]]:
    """A line for each dimension, under `HEADERS`."""
    return [line(growth) for growth in growths]


def line(growth: Growth) -> list[str]:
    """The cells of a dimension."""
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
    """The factor from first to last, marked if there is a size up to which it grows too fast."""
    if curve is None:
        return NOTHING
    return f"{curve.last:.2f}{'' if curve.holds else FASTER}"


def as_json(growth: Growth) -> dict[str, Any]:
    """Everything about a dimension, rounded as other scenarios are."""
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
    """What a size costs, and how far its runs differ."""
    figures: dict[str, Any] = {name: rounded(value) for name, value in asdict(least(runs)).items()}
    costs = Spread.of(run.us_per_allocation for run in runs)
    return {**figures, "us_per_allocation_of_runs": spread_as_json(costs)}


HEADING = (
    "CPU for each allocation (line) and for taking in each ask (dashed), against that at the first "
    "size. Shaded: as fast as log n. Red: faster."
)
COLUMNS = 5
WIDTH, HEIGHT = 2.3, 1.95
"""Inches of each."""

BOTTOM, TOP = 0.5, 4.0
"""Factors at the edges. A line that leaves at the top is as steep as the factor beside the name."""

TICKS = (0.5, 1, 2, 4)
CALM, FAST, ALLOWED = "#2b6cb0", "#c53030", "#e3efe3"
TEXT = 36
"""Characters of a line above a picture."""


def drawing(growths: Sequence[Growth]) -> str:
    """The picture, as SVG."""
    columns = min(COLUMNS, len(growths))
    rows = ceil(len(growths) / columns)
    with style():
        figure = Figure(figsize=(WIDTH * columns, HEIGHT * rows + 0.4), layout="constrained")
        all_axes = figure.subplots(rows, columns, squeeze=False).flatten()
        for axes, growth in zip(all_axes, growths, strict=False):
            _one(axes, growth)
        for axes in all_axes[len(growths) :]:
            axes.set_visible(False)
        figure.suptitle(HEADING, fontsize=9)
    return as_svg(all_axes[0])


def _one(axes: Axes, growth: Growth) -> None:
    """The picture of one dimension."""
    sizes = [point.size for point in growth.points]
    axes.set_xscale("log")
    axes.set_yscale("log", base=2)
    axes.set_ylim(BOTTOM, TOP)
    axes.fill_between(sizes, BOTTOM, [allowed(sizes[0], size) for size in sizes], color=ALLOWED, linewidth=0)
    if growth.taking is not None:
        _line(axes, growth.taking, linestyle="--", linewidth=1)
    _line(axes, growth.deciding, marker="o", markersize=3.5, linewidth=1.8)
    axes.set_title(fill(growth.dimension.about, TEXT), fontsize=6.5, loc="left")
    axes.text(
        *(0.04, 0.86, f"{growth.dimension.name} ×{growth.deciding.last:.2g}"),
        color=CALM if growth.holds else FAST,
        fontsize=9,
        fontweight="bold",
        transform=axes.transAxes,
    )
    axes.set_yticks(TICKS, [f"×{tick:g}" for tick in TICKS], fontsize=7)
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize=7)
    axes.set_xticks([], minor=True)
    axes.spines["left"].set_visible(True)


def _line(axes: Axes, curve: Curve, **how: Any) -> None:
    """A curve, in the colour that says whether it grows too fast."""
    axes.plot(curve.sizes, curve.factors, color=CALM if curve.holds else FAST, **how)


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
    """The table, and a note on what grows. The command is the one to do it again.

    `drawn` adds a picture, for which matplotlib is needed.
    """
    pictures = {}
    if drawn:
        from licorne_tools.bench.growth.report import drawing

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
