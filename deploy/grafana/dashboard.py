"""Draws the dashboard for Grafana from `panels.yml`: ``python deploy/grafana/dashboard.py FILE``.

The file is not kept in the repository. `make chart` draws it into the chart, and the composition at its
start. Tests ask Prometheus' own tool about every expression, and look for every metric on a running server.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
WIDTH = 24
"""Columns of Grafana's grid."""

SMALL = 4
"""The width of a panel that is a number only, and its height."""

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_OF = 'instance=~"$instance"'
_RM = f'{_OF}, rm=~"$rm"'
_PARTITION = f'{_RM}, partition=~"$partition"'
STANDING_FOR = {
    "@starving": (
        '(sum without (state) (yunikorn_queue_resource{@partition, state="pending", queue!="root"}) > bool 0)'
        ' * (sum without (state) (yunikorn_queue_resource{@partition, state="allocated"})'
        ' < bool sum without (state) (yunikorn_queue_resource{@partition, state="guaranteed"}))'
    ),
    "@queue": f'{_PARTITION}, queue=~"$queue"',
    "@partition": _PARTITION,
    "@rm": _RM,
    "@of": _OF,
    "@rate": "$__rate_interval",
}
VARIABLES = {
    "instance": "label_values(licorne_build_info, instance)",
    "rm": f"label_values(licorne_rm_connected{{{_OF}}}, rm)",
    "partition": f"label_values(licorne_allocations{{{_RM}}}, partition)",
    "queue": f"label_values(yunikorn_queue_resource{{{_PARTITION}}}, queue)",
    "resource": f"label_values(licorne_capacity{{{_PARTITION}}}, resource)",
}
ONE_OF = {"resource": "vcore"}
"""Variables of which one value is chosen, as different resources have no sum."""

ADDRESSES = {"page": "http://127.0.0.1:9080/ui", "runbooks": "docs/runbooks.md"}
"""Variables with what the links lead to. The chart puts its own addresses in their place."""

PLACES = {
    "queue": (
        "Queue in the page",
        "#/queue/[${__field.labels.rm}]${__field.labels.partition}/${__field.labels.queue}",
    )
}
"""What a line of a panel may lead to in the page: a title and an address there."""

CHANGES = {
    "Restarts": ("red", "{{instance}} has started", f"resets(licorne_uptime_seconds{{{_OF}}}[2m]) > 0"),
    "Configurations": (
        "blue",
        "{{rm}} has another configuration",
        f'sum by (rm) (increase(licorne_configuration_updates_total{{{_RM}, result="changed"}}[2m])) > 0',
    ),
}
"""What is marked in all panels: colour, text and expression."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One panel: what it shows, in which unit, and what it asks for, by legend."""

    title: str
    about: str
    unit: str
    targets: dict[str, str] = field(default_factory=dict)
    kind: str = "timeseries"
    width: int = 8
    stacked: bool = False
    histogram: dict[str, str] = field(default_factory=dict)
    """The name of a histogram, of what, and by which label, instead of targets."""
    bad: float | None = None
    """The value from which on the panel is red."""
    alert: str = ""
    """The alert whose runbook it links to."""
    to: str = ""
    """Which of `PLACES` its lines lead to."""

    def expressions(self) -> dict[str, str]:
        """What it asks for, by legend: the targets, or the median and the 99th percentile.

        A heat map asks for all buckets.
        """
        found = dict(self.targets)
        if self.kind == "heatmap":
            of = f"{self.histogram['name']}_bucket{{{self.histogram['of']}}}[@rate]"
            return {"{{le}}": _expanded(f"sum by (le) (increase({of}))")}
        if self.histogram:
            by = self.histogram.get("by", "")
            labels = f"le, {by}" if by else "le"
            of = f"{self.histogram['name']}_bucket{{{self.histogram['of']}}}[@rate]"
            for quantile in (0.5, 0.99):
                legend = f"p{quantile * 100:.0f}" + (f" {{{{{by}}}}}" if by else "")
                found[legend] = f"histogram_quantile({quantile}, sum by ({labels}) (rate({of})))"
        return {legend: _expanded(expression) for legend, expression in found.items()}


def _expanded(expression: str) -> str:
    for short, text in STANDING_FOR.items():
        expression = expression.replace(short, text)
    return expression


def rows() -> dict[str, list[Panel]]:
    """The panels by the headings above them."""
    read = yaml.safe_load((HERE / "panels.yml").read_text(encoding="utf-8"))
    return {title: [Panel(**panel) for panel in panels] for title, panels in read.items()}


def _variables() -> Iterator[dict[str, object]]:
    source = {"name": "datasource", "label": "Data source", "type": "datasource", "hide": 0}
    yield {**source, "query": "prometheus"}
    for name, address in ADDRESSES.items():
        current = {"text": address, "value": address}
        yield {"name": name, "type": "textbox", "query": address, "current": current, "hide": 2}
    for name, query in VARIABLES.items():
        several = name not in ONE_OF
        value = "$__all" if several else ONE_OF[name]
        yield {
            "name": name,
            "label": "RM" if name == "rm" else name.capitalize(),
            "type": "query",
            "datasource": SOURCE,
            "query": {"query": query, "refId": f"variable-{name}"},
            "definition": query,
            "refresh": 2,
            "sort": 1,
            "multi": several,
            "includeAll": several,
            "current": {"text": "All" if several else value, "value": value},
            "hide": 0,
        }


def _options(panel: Panel) -> dict[str, object]:
    if panel.kind == "timeseries":
        legend = {"displayMode": "list", "placement": "bottom", "showLegend": True}
        return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
    if panel.kind == "heatmap":
        colour = {"mode": "scheme", "scheme": "Oranges", "steps": 64, "exponent": 0.5, "fill": "dark-orange"}
        axis = {"unit": panel.unit, "axisPlacement": "left"}
        return {"calculate": False, "color": colour, "yAxis": axis, "legend": {"show": False}, "cellGap": 1}
    if panel.kind == "state-timeline":
        return {"showValue": "never", "mergeValues": True}
    reduce = {"calcs": ["lastNotNull"], "fields": "", "values": False}
    if panel.kind == "bargauge":
        return {"orientation": "horizontal", "displayMode": "gradient", "reduceOptions": reduce}
    text = "name" if panel.width > SMALL else "value"
    return {"reduceOptions": reduce, "textMode": text, "colorMode": "value", "graphMode": "area"}


def _defaults(panel: Panel) -> dict[str, object]:
    found: dict[str, object] = {"unit": panel.unit, "min": 0}
    if panel.kind == "state-timeline":
        found |= _steps("red", (1, "green"))
    if panel.bad is not None:
        found |= _steps("green", (panel.bad, "red"))
    if panel.to:
        title, place = PLACES[panel.to]
        found["links"] = [{"title": title, "url": f"${{page}}{place}", "targetBlank": True}]
    if panel.kind != "timeseries":
        return found
    stacking = {"mode": "normal" if panel.stacked else "none", "group": "A"}
    fill = 30 if panel.stacked else 5
    line = {"drawStyle": "line", "fillOpacity": fill, "lineWidth": 1, "stacking": stacking}
    return {**found, "custom": line}


def _steps(first: str, *others: tuple[float, str]) -> dict[str, object]:
    """Colours by value: the first one, and others from a value on."""
    steps = [{"color": colour, "value": value} for value, colour in ((None, first), *others)]
    return {"color": {"mode": "thresholds"}, "thresholds": {"mode": "absolute", "steps": steps}}


def _height(panel: Panel) -> int:
    return SMALL if panel.width == SMALL else 8


def _panel(panel: Panel, number: int, x: int, y: int) -> dict[str, object]:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": _height(panel)},
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _options(panel),
        "links": [_link(f"Runbook of {panel.alert}", f"${{runbooks}}#{panel.alert.lower()}")]
        if panel.alert
        else [],
        "targets": [
            {
                "refId": chr(ord("A") + place),
                "datasource": SOURCE,
                "expr": expression,
                "legendFormat": legend or "__auto",
                "format": "heatmap" if panel.kind == "heatmap" else "time_series",
                "range": True,
            }
            for place, (legend, expression) in enumerate(panel.expressions().items())
        ],
    }


def _link(title: str, url: str) -> dict[str, object]:
    return {"type": "link", "title": title, "url": url, "icon": "external link", "targetBlank": True}


def _panels() -> Iterator[dict[str, object]]:
    """A heading for each row, and its panels in lines below: inside the heading where the row is closed."""
    number = y = 0
    for title, panels in rows().items():
        number += 1
        closed = y > 0
        position = {"x": 0, "y": y, "w": WIDTH, "h": 1}
        below: list[dict[str, object]] = []
        heading = {"id": number, "type": "row", "title": title, "gridPos": position, "collapsed": closed}
        y += 1
        x = height = 0
        for panel in panels:
            number += 1
            if x + panel.width > WIDTH:
                x, y, height = 0, y + height, 0
            below.append(_panel(panel, number, x, y))
            x += panel.width
            height = max(height, _height(panel))
        y += height
        yield {**heading, "panels": below if closed else []}
        yield from [] if closed else below


def _annotations() -> Iterator[dict[str, object]]:
    for name, (colour, text, expression) in CHANGES.items():
        about = {"name": name, "iconColor": colour, "titleFormat": text, "enable": True, "step": "60s"}
        yield {**about, "datasource": SOURCE, "expr": expression}


def dashboard() -> str:
    """The file."""
    document: dict[str, Any] = {
        "uid": "licorne",
        "title": "Licorne",
        "description": "Queues, RMs, latency and the process of Licorne servers.",
        "tags": ["licorne", "scheduler"],
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "schemaVersion": 39,
        "time": {"from": "now-30m", "to": "now"},
        "templating": {"list": list(_variables())},
        "annotations": {"list": list(_annotations())},
        "links": [_link("Page", "${page}"), _link("Runbooks", "${runbooks}")],
        "panels": list(_panels()),
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(dashboard(), encoding="utf-8")
