"""What has grown, as a table and as JSON."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from licorne_tools.bench.growth.dimension import allowed
from licorne_tools.bench.growth.measure import Curve, Growth, Point, least
from licorne_tools.bench.report import environment, rounded, spread_as_json
from licorne_tools.bench.spread import Spread

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
