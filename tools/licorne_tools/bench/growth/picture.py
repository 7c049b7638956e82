"""The picture of growth: a small chart for each dimension, all on the same scale.

Needs matplotlib, of the extra `report`.
"""

from collections.abc import Sequence
from math import ceil
from textwrap import fill
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from licorne_tools.bench.growth.measure import Curve, Growth, allowed
from licorne_tools.bench.pictures import as_svg, style

HEADING = (
    "CPU for each allocation (line) and for taking in each ask (dashed), against that at the first "
    "size. Shaded: as fast as log n. Red: faster."
)
COLUMNS = 5
WIDTH, HEIGHT = 2.3, 1.95
"""Size of each chart in inches."""

BOTTOM, TOP = 0.5, 4.0
"""Factors at the edges. If a line leaves at the top, its last factor is printed beside its name."""

TICKS = (0.5, 1, 2, 4)
CALM, FAST, ALLOWED = "#2b6cb0", "#c53030", "#e3efe3"
TEXT = 36
"""Maximum number of characters of a line above a chart."""


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
    """The chart of one dimension."""
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
    """Draw a curve; its colour shows whether it grows too fast."""
    axes.plot(curve.sizes, curve.factors, color=CALM if curve.holds else FAST, **how)
