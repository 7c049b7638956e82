"""The picture of what has grown: a small one for each dimension, all on the same scale."""

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Any

from licorne_server.bench.driver import BenchError
from licorne_server.bench.growth.measure import Growth

COLUMNS = 5
WIDTH, HEIGHT = 2.3, 1.95
"""Inches of each."""

LEAST_TOP = 4.0
CALM, FAST, ASKS, ALLOWED = "#2b6cb0", "#c53030", "#718096", "#e6f0e6"
TICKS = (0.5, 1, 2, 4, 8, 16, 32, 64, 128)


def draw(growths: Sequence[Growth], path: Path) -> None:
    """Write the picture, in the format that the name of the file says.

    Raises:
        BenchError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise BenchError(
            "--report needs matplotlib for the picture: pip install 'licorne-server[report]'"
        ) from None
    columns = min(COLUMNS, len(growths))
    rows = ceil(len(growths) / columns)
    figure = Figure(figsize=(WIDTH * columns, HEIGHT * rows + 0.6), layout="constrained")
    all_axes = figure.subplots(rows, columns, squeeze=False).flatten()
    top = max(LEAST_TOP, *(1.15 * value for growth in growths for value in relative(growth)))
    for axes, growth in zip(all_axes, growths, strict=False):
        _one(axes, growth, top)
    for axes in all_axes[len(growths) :]:
        axes.set_visible(False)
    figure.suptitle(
        "Cost against that at the first size. Shaded: up to log n. Dashed: taking in asks.",
        fontsize=10,
    )
    figure.savefig(path, dpi=110)


def relative(growth: Growth) -> list[float]:
    """The cost of an allocation at each size, against that at the first."""
    first = growth.points[0].us_per_allocation
    return [point.us_per_allocation / first for point in growth.points]


def relative_asks(growth: Growth) -> list[float]:
    """The same for taking in an ask; empty where there are none."""
    first = growth.points[0]
    if not first.asks:
        return []
    return [point.us_per_ask / first.us_per_ask for point in growth.points]


def _one(axes: Any, growth: Growth, top: float) -> None:
    sizes = [point.size for point in growth.points]
    costs, asks = relative(growth), relative_asks(growth)
    colour = CALM if growth.holds else FAST
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.fill_between([sizes[0], sizes[-1]], 0.1, [1, growth.allowed], color=ALLOWED, linewidth=0)
    if asks:
        axes.plot(sizes, asks, color=ASKS, linestyle="--", linewidth=1)
    axes.plot(sizes, costs, color=colour, marker="o", markersize=3.5, linewidth=1.8)
    axes.set_title(f"{growth.dimension.name}  ×{growth.factor:.2g}", color=colour, fontsize=9)
    axes.set_ylim(0.6, top)
    axes.set_yticks([tick for tick in TICKS if 0.6 <= tick <= top])
    axes.set_yticks([], minor=True)
    axes.set_yticklabels([f"×{tick:g}" for tick in TICKS if 0.6 <= tick <= top], fontsize=7)
    axes.set_xticks(sizes)
    axes.set_xticks([], minor=True)
    axes.set_xticklabels([f"{size:,}" for size in sizes], fontsize=7)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
