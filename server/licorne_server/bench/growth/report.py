"""What has grown, as a table, as JSON, and as a page."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from licorne_server.bench.growth.dimension import allowed
from licorne_server.bench.growth.measure import Curve, Growth
from licorne_server.bench.report import environment, rounded
from licorne_server.build_info import build_info

HEADERS = (
    *("DIMENSION", "SIZES"),
    *("US", "US", "US", "FACTOR"),
    *("ASK US", "ASK US", "ASK US", "FACTOR"),
    "LOG N",
)
NOTHING = "-"
FASTER = "!"
"""Behind a factor: up to the last size or one before it, the cost grows faster than log n."""

INTRODUCTION = """\
Microseconds of CPU for each allocation while one thing grows, and for taking in each ask. A size is
measured in a process of its own, and the least of several rounds counts. The factor is from the
first size to the last. It has a `!` if the cost grows faster than log n up to one of the sizes: by
more than half of the first cost with each tenfold, which is what log n does from 100 on."""


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
        "points": [
            {name: rounded(value) for name, value in asdict(point).items()}
            for point in growth.points
        ],
        "factor": rounded(growth.deciding.last),
        "ask_factor": None if growth.taking is None else rounded(growth.taking.last),
        "allowed": rounded(allowed(first, last)),
        "holds": growth.holds,
        "note": growth.dimension.note,
        "environment": environment(),
    }


def page(growths: Sequence[Growth], picture: str) -> str:
    """The table as Markdown, with the picture of that name and a note on what grows."""
    names = [f"- `{each.dimension.name}`: {each.dimension.about}." for each in growths]
    notes = [
        f"- `{each.dimension.name}`: {each.dimension.note}"
        for each in growths
        if each.dimension.note and not each.holds
    ]
    rows = [HEADERS, ["---"] * len(HEADERS), *table(growths)]
    parts = [
        "# Growth",
        f"{build_info()}.",
        INTRODUCTION,
        f"![The cost of an allocation against the size of each dimension]({picture})",
        "\n".join(f"| {' | '.join(cells)} |" for cells in rows),
        "\n".join(names),
    ]
    if notes:
        parts += ["What grows faster, and why:", "\n".join(notes)]
    return "\n\n".join(parts) + "\n"
