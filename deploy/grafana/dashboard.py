"""Generates the Grafana dashboard from `panels.yml`: ``python deploy/grafana/dashboard.py FILE``.

The dashboard is not committed: `make chart` generates it for the Helm chart, and Docker Compose at startup.
Tests check every expression with `promtool`, and every metric on a running server.
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
"""Width and height of a panel with a single number, in columns and rows of the grid."""

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
"""Variables with only one selected value, and its default: amounts of different resources have no sum."""

ADDRESSES = {"page": "http://127.0.0.1:9080/ui", "runbooks": "docs/runbooks.md"}
"""Hidden variables with the base addresses of links. The Helm chart sets its own addresses."""

PLACES = {
    "queue": (
        "Queue in the page",
        "#/queue/[${__field.labels.rm}]${__field.labels.partition}/${__field.labels.queue}",
    )
}
"""Links from a series of a panel to the web page: title and fragment of the address."""

CHANGES = {
    "Restarts": ("red", "{{instance}} has started", f"resets(licorne_uptime_seconds{{{_OF}}}[2m]) > 0"),
    "Configurations": (
        "blue",
        "{{rm}} has another configuration",
        f'sum by (rm) (increase(licorne_configuration_updates_total{{{_RM}, result="changed"}}[2m])) > 0',
    ),
}
"""Annotations of all panels: colour, text and expression."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One panel: title, description and unit, and its queries by legend."""

    title: str
    about: str
    unit: str
    targets: dict[str, str] = field(default_factory=dict)
    kind: str = "timeseries"
    width: int = 8
    stacked: bool = False
    histogram: dict[str, str] = field(default_factory=dict)
    """Instead of `targets`: name of a histogram, its label selector (`of`) and a label to group `by`."""
    bad: float | None = None
    """Values from which the panel is red; None for never."""
    alert: str = ""
    """The alert to whose runbook the panel links; empty for no link."""
    to: str = ""
    """The key in `PLACES` of the link from each series; empty for no link."""

    def expressions(self) -> dict[str, str]:
        """The queries by legend: the targets, or median and 99th percentile of the histogram.

        A heat map queries all buckets.
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
    """The panels, by heading."""
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
    """Colours by value: the first colour, and other colours with the values at which they begin."""
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
    """A heading for each row, followed by its panels; a collapsed row has them inside the heading."""
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
    """The dashboard as JSON."""
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
