"""The course of runs as a picture: the number of waiting asks, their waits, and the use of the cluster."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import Final, NamedTuple

from licorne_server.lab.simulation.report import shown_seconds
from licorne_server.lab.simulation.waits import Course, Point, common_width, shares

WIDTH: Final = 860
LEFT, RIGHT, TOP = 64, 20, 56
PANEL, GAP, FOOT = 120, 44, 34
MOST_RESOURCES: Final = 3
"""Maximum number of resources with their own panel: the resources that are used most."""

STYLE: Final = """\
text { font: 12px -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
.dim { fill: #59636e }
.end { text-anchor: end }
.middle { text-anchor: middle }
.page { fill: #ffffff }
.grid { stroke: #d0d7de; stroke-width: 1 }
polyline { fill: none; stroke-width: 1.6 }
.l0 { stroke: #8250df; stroke-dasharray: 5 3 }
.l1 { stroke: #1a7f37 }
.l2 { stroke: #bf5f00 }
.l3 { stroke: #0969da }
.l4 { stroke: #cf222e }
.only { stroke: #0969da }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .dim { fill: #9198a1 }
  .page { fill: #0d1117 }
  .grid { stroke: #3d444d }
  .l0 { stroke: #d2a8ff }
  .l1 { stroke: #3fb950 }
  .l2 { stroke: #f0883e }
  .l3, .only { stroke: #58a6ff }
  .l4 { stroke: #ff7b72 }
}"""
MOST_LINES: Final = 5

Value = Callable[[Point], float | None]


class _Panel(NamedTuple):
    """One measure over time; `most` is the top of its scale, or None for the largest value."""

    title: str
    value: Value
    shown: Callable[[float], str]
    most: float | None = None


def draw(title: str, runs: Mapping[str, Course]) -> str:
    """The picture, as SVG, of up to `MOST_LINES` runs by their names."""
    courses = list(runs.values())[:MOST_LINES]
    width = common_width(courses)
    count = max(1, *(len(course.points) for course in courses))
    panels = [
        _Panel("asks that wait", _waiting, lambda value: f"{value:,.3g}" if value < 10 else f"{value:,.0f}"),
        _Panel("mean wait of the asks placed then", _waited, shown_seconds),
        *(_of_resource(name) for name in _resources(courses)),
    ]
    height = TOP + len(panels) * (PANEL + GAP) + FOOT - GAP
    classes = ["only"] if len(courses) == 1 else [f"l{number}" for number in range(len(courses))]
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>\n{STYLE}\n</style>",
        f'<rect width="{WIDTH}" height="{height}" class="page"/>',
        *_legend(list(runs)[:MOST_LINES], classes),
    ]
    for number, panel in enumerate(panels):
        parts += _drawn(panel, TOP + number * (PANEL + GAP), courses, classes, count)
    parts += _times(height - FOOT + 18, count * width)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _waiting(point: Point) -> float | None:
    return point.waiting / point.seconds if point.seconds else None


def _waited(point: Point) -> float | None:
    return point.waited / point.placed if point.placed else None


def _of_resource(name: str) -> _Panel:
    return _Panel(
        f"utilisation: {name}",
        lambda point: shares(point.used, point.capacity).get(name),
        lambda value: f"{100 * value:.0f} %",
        1.0,
    )


def _resources(courses: Sequence[Course]) -> list[str]:
    """The most used resources, in order of names."""
    total = Point()
    for course in courses:
        for point in course.points:
            total.add(point)
    found = shares(total.used, total.capacity)
    return sorted(sorted(found, key=lambda name: (-found[name], name))[:MOST_RESOURCES])


def _legend(names: Sequence[str], classes: Sequence[str]) -> Iterator[str]:
    left = LEFT
    for name, kind in zip(names, classes, strict=True) if len(names) > 1 else ():
        yield f'<polyline class="{kind}" points="{left},16 {left + 26},16"/>'
        yield _text(left + 32, 20, name)
        left += 56 + 7 * len(name)


def _drawn(
    panel: _Panel, top: float, courses: Sequence[Course], classes: Sequence[str], count: int
) -> Iterator[str]:
    """A panel: its title, a scale with three lines, and a line for each run."""
    values = [[panel.value(point) for point in course.points] for course in courses]
    highest = max((value for line in values for value in line if value is not None), default=0.0)
    most = max(panel.most or highest, highest) or 1.0
    yield _text(LEFT, top - 8, panel.title)
    for share in (0.0, 0.5, 1.0):
        y = top + PANEL * (1 - share)
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:g}" y2="{y:g}"/>'
        yield _text(LEFT - 8, y + 4, panel.shown(most * share), "dim end")
    step = (WIDTH - LEFT - RIGHT) / count
    for line, kind in zip(values, classes, strict=True):
        for stretch in _stretches(line):
            points = " ".join(
                f"{LEFT + (at + 0.5) * step:.1f},{top + PANEL * (1 - value / most):.1f}"
                for at, value in stretch
            )
            yield f'<polyline class="{kind}" points="{points}"/>'


def _stretches(line: Sequence[float | None]) -> Iterator[list[tuple[float, float]]]:
    """The values with their positions, in pieces without gaps; a single value is drawn as a short line."""
    piece: list[tuple[float, float]] = []
    for at, value in enumerate([*line, None]):
        if value is not None:
            piece.append((at, value))
        elif piece:
            first = piece[0]
            yield piece if len(piece) > 1 else [(first[0] - 0.5, first[1]), (first[0] + 0.5, first[1])]
            piece = []


def _times(y: float, seconds: float) -> Iterator[str]:
    """The time axis, from the beginning of the run."""
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = LEFT + share * (WIDTH - LEFT - RIGHT)
        place = "end" if share == 1.0 else "middle" if share else ""
        yield _text(x, y, f"+{shown_seconds(share * seconds)}" if share else "begin", f"dim {place}".strip())


def _text(x: float, y: float, content: str, kind: str = "") -> str:
    mark = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{mark}>{escape(content)}</text>'
