"""A comparison as a picture: bars for waits, utilisation and lost work of each run, as SVG."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from licorne_core.values.windows import HOUR
from licorne_server.lab.simulation.figures import Figures

WIDTH: Final = 880
_MARGIN, _ROW, _HEAD, _TOP, _BAR = 16, 24, 30, 44, 12
_NAMES, _GAP, _VALUE = 190, 22, 62

_STYLE: Final = """\
text { font: 12px -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
.title { font-size: 14px; font-weight: 600 }
.dim { fill: #59636e }
.card { fill: #ffffff; stroke: #d0d7de }
.room { fill: #e4e8ec }
.wait { fill: #57748f }
.tail { fill: #d99a1c }
.used { fill: #2da44e }
.lost { fill: #cf222e }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .dim { fill: #9198a1 }
  .card { fill: #0d1117; stroke: #3d444d }
  .room { fill: #262c36 }
  .wait { fill: #7d99b5 }
  .tail { fill: #d29922 }
  .used { fill: #3fb950 }
  .lost { fill: #ff7b72 }
}"""


class _Column(NamedTuple):
    """Bars of one figure: title, colour, value, and text of the value; `most` is the value of a full bar."""

    title: str
    style: str
    value: Callable[[Figures], float]
    text: Callable[[Figures], str]
    most: float = 0.0


def picture(title: str, runs: Sequence[tuple[str, Figures]]) -> str:
    """The picture of several runs of one workload, each with its name."""
    columns = _columns(runs)
    room = (WIDTH - 2 * _MARGIN - _NAMES - _GAP * len(columns)) // len(columns)
    height = _TOP + _HEAD + _ROW * len(runs) + _MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"',
        f'  width="{WIDTH}" height="{height}" role="img" aria-label="{escape(title)}">',
        f"<style>\n{_STYLE}\n</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="6"/>',
        f'<text class="title" x="{_MARGIN}" y="26">{escape(title)}</text>',
    ]
    for row, (name, _) in enumerate(runs):
        y = _TOP + _HEAD + row * _ROW
        lines.append(f'<text x="{_MARGIN}" y="{y + _BAR}">{escape(name)}</text>')
    for number, column in enumerate(columns):
        x = _MARGIN + _NAMES + number * (room + _GAP)
        lines.append(f'<text class="dim" x="{x}" y="{_TOP + 14}">{escape(column.title)}</text>')
        most = column.most or max((column.value(each) for _, each in runs), default=0.0) or 1.0
        width = room - _VALUE
        for row, (_, each) in enumerate(runs):
            y = _TOP + _HEAD + row * _ROW
            full = width * min(1.0, column.value(each) / most)
            place = f'x="{x}" y="{y}" height="{_BAR}" rx="2"'
            lines += [
                f'<rect class="room" {place} width="{width}"/>',
                f'<rect class="{column.style}" {place} width="{full:.1f}"/>',
                f'<text x="{x + width + 6}" y="{y + _BAR - 1}">{escape(column.text(each))}</text>',
            ]
    return "\n".join([*lines, "</svg>", ""])


def _columns(runs: Sequence[tuple[str, Figures]]) -> list[_Column]:
    columns = [
        _Column("mean wait", "wait", lambda one: one.wait_mean, lambda one: span(one.wait_mean)),
        _Column("p99 of waits", "tail", lambda one: one.wait_p99, lambda one: span(one.wait_p99)),
        _Column("used", "used", lambda one: one.utilisation, lambda one: percent(one.utilisation), 1.0),
    ]
    if any(each.lost_work for _, each in runs):
        columns.append(
            _Column(
                "lost work", "lost", lambda one: one.lost_work, lambda one: work(one.resource, one.lost_work)
            )
        )
    return columns


def span(seconds: float) -> str:
    """A duration in at most two units: ``35s``, ``4m 10s``, ``3h 05m``, ``2d 4h``."""
    if seconds < 9.95:
        return f"{seconds:.1f}s".replace(".0s", "s")
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < HOUR:
        return f"{whole // 60}m {whole % 60:02}s"
    minutes = round(seconds / 60)
    if minutes < 48 * 60:
        return f"{minutes // 60}h {minutes % 60:02}m"
    hours = round(seconds / HOUR)
    return f"{hours // 24}d {hours % 24}h"


def percent(share: float) -> str:
    """``71.5 %``."""
    return f"{share * 100:.1f} %"


def work(resource: str, amount_seconds: float) -> str:
    """An amount times seconds as text, in hours of the resource's usual unit; ``0`` if there is none."""
    unit = {"vcore": 1000.0, "memory": 1024.0**3}.get(resource, 1.0)
    hours = amount_seconds / unit / HOUR
    return f"{hours:,.1f} h" if hours else "0"
