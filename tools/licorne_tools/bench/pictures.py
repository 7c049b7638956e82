"""Figures as SVG; equal figures give equal files. Needs matplotlib, from the extra `report`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import astuple
from io import StringIO
from typing import TypeVar

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from licorne_tools.bench.report import Spread, brief, times

NOT_WRITTEN = {"Date": None, "Creator": None}
COLORS = ("#1f6feb", "#d9822b")
GRID = "#d0d7de"
INK = "#1f2328"
WIDTH, ROW, FRAME = 8.8, 0.44, 1.2
"""In inches: width of the picture, height of a scenario's row, and height of the frame."""
APART = 0.17
"""Distance of each of two series from the middle of a scenario's row, in rows."""

MARGIN = 1.1
"""Length of the axis as a multiple of the largest value."""
ROOM = 0.1
"""Additional length of the axis for the last label, as a share of its length."""

T = TypeVar("T")
Series = Mapping[str, Mapping[str, Spread]]
Ratios = Mapping[str, Mapping[str, Sequence[float]]]
"""Ratios by name of the series, then by name of the scenario."""


def by_scenario(measure: str, names: Sequence[str], series: Series) -> str:
    """A measure of each scenario: the median as a point, the spread as whiskers."""
    unit = f"{measure} (logarithmic; whiskers: least and greatest)"
    ends = [end for found in series.values() for each in found.values() for end in astuple(each)]
    with drawn(names, unit, brief, ends) as axes:
        for label, color, shift in styles(series):
            for row, spread in rows(names, series[label]):
                point(axes, spread, row + shift, color, brief)
            legend(axes, label, color)
    return as_svg(axes)


def pair_ratios(comparison: str, names: Sequence[str], series: Ratios) -> str:
    """The ratios of pairs of each scenario: each as a ring, the median as a point."""
    unit = f"{comparison} (logarithmic; a ring for each pair)"
    ends = [ratio for found in series.values() for each in found.values() for ratio in each]
    with drawn(names, unit, times, [1.0, *ends]) as axes:
        axes.axvline(1.0, color=INK, linewidth=1)
        for label, color, shift in styles(series):
            for row, ratios in rows(names, series[label]):
                where = row + shift
                rings = [where] * len(ratios)
                axes.plot(ratios, rings, "o", color=color, markerfacecolor="none", alpha=0.7)
                point(axes, Spread.of(ratios), where, color, times)
            legend(axes, label, color)
    return as_svg(axes)


def style() -> AbstractContextManager[None]:
    """The style of all pictures."""
    return rc_context(
        {
            # A fixed salt makes ids reproducible; "none" keeps text as text.
            "svg.hashsalt": "licorne",
            "svg.fonttype": "none",
            "font.family": "sans-serif",
            "font.size": 10,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.spines.left": False,
        }
    )


@contextmanager
def drawn(
    names: Sequence[str], unit: str, shown: Callable[[float], str], values: Sequence[float]
) -> Iterator[Axes]:
    """Axes for all values, with a row for each name; the first name is on top.

    The caller draws during the block.
    """
    with style():
        figure = Figure(figsize=(WIDTH, FRAME + ROW * len(names)), facecolor="white", layout="constrained")
        axes = figure.add_subplot()
        axes.set_xscale("log")
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(unit)
        axes.set_axisbelow(True)
        axes.grid(axis="x", color=GRID, linewidth=0.8)
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: shown(value)))
        axes.xaxis.set_minor_locator(NullLocator())
        low, high = min(values) / MARGIN, max(values) * MARGIN
        axes.set_xlim(low, high * (high / low) ** ROOM)
        yield axes
        figure.legend(loc="outside upper left", ncols=len(COLORS), frameon=False)


def styles(series: Iterable[str]) -> Iterator[tuple[str, str, float]]:
    """Each series with its colour, and its offset in a row."""
    labels = list(series)
    shifts = (-APART, APART) if len(labels) > 1 else (0.0,)
    return zip(labels, COLORS, shifts, strict=False)


def rows(names: Iterable[str], found: Mapping[str, T]) -> Iterator[tuple[int, T]]:
    """The values of the scenarios, with their rows."""
    return ((row, found[name]) for row, name in enumerate(names) if name in found)


def point(axes: Axes, spread: Spread, row: float, color: str, shown: Callable[[float], str]) -> None:
    """Draw a point with whiskers and its figure."""
    ends = [[spread.median - spread.min], [spread.max - spread.median]]
    axes.errorbar([spread.median], [row], xerr=ends, fmt="o", color=color, capsize=3)
    axes.annotate(
        shown(spread.median),
        (spread.max, row),
        xytext=(7, 0),
        textcoords="offset points",
        va="center",
        color=INK,
        fontsize="small",
    )


def legend(axes: Axes, label: str, color: str) -> None:
    """Add a line to the legend."""
    axes.plot([], [], "o", color=color, label=label)


def as_svg(axes: Axes) -> str:
    """The picture of the axes."""
    picture = StringIO()
    with style():
        axes.figure.get_figure(root=True).savefig(picture, format="svg", metadata=NOT_WRITTEN)
    return picture.getvalue()
