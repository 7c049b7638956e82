"""The alert rules and the dashboard of the repository, and what their expressions read."""

import importlib.util
import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import yaml

from support.docs.pages import ROOT

PROMETHEUS = ROOT / "deploy/prometheus"
GRAFANA = ROOT / "deploy/grafana"
WORDS = frozenset({"and", "or", "unless", "bool", "offset", "group_left", "group_right"})
"""What stands in an expression where a metric could stand, and is none."""


@cache
def alerts() -> dict[str, dict[str, Any]]:
    """The alert rules by name."""
    read = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text(encoding="utf-8"))
    rules = [rule for group in read["groups"] for rule in group["rules"]]
    named = {rule["alert"]: rule for rule in rules}
    assert len(named) == len(rules), "two alerts have one name"
    return named


@cache
def dashboard() -> dict[str, Any]:
    """The dashboard, as its program draws it."""
    spec = importlib.util.spec_from_file_location("dashboard", GRAFANA / "dashboard.py")
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    document: dict[str, Any] = json.loads(program.dashboard())
    return document


def targets() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every target of the dashboard, with the title of its panel."""
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target


def queries() -> Iterator[tuple[str, str]]:
    """The queries of the dashboard's variables, by name: the inner part of ``label_values``."""
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            found = re.fullmatch(r"label_values\((.*), \w+\)", variable["definition"])
            assert found, variable["definition"]
            yield variable["name"], found[1]


def without_variables(expression: str) -> str:
    """The expression as Grafana might ask it."""
    expression = expression.replace("$__rate_interval", "5m")
    return re.sub(r"\$\w+", ".*", expression)


def metrics_of(expression: str) -> set[str]:
    """The names of the metrics that an expression reads."""
    rest = re.sub(r'"(?:[^"\\]|\\.)*"', "", expression)
    rest = re.sub(r"\{[^}]*\}|\[[^\]]*\]", " ", rest)
    rest = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", " ", rest)
    rest = re.sub(r"\boffset\s+\w+", " ", rest)
    names = re.findall(r"(?<![\w.])[a-zA-Z_:][\w:]*(?!\w*\s*\()", rest)
    return set(names) - WORDS


def all_metrics() -> dict[str, list[str]]:
    """Every metric that is read, with those who read it."""
    found: dict[str, list[str]] = {}
    expressions = [
        *((name, rule["expr"]) for name, rule in alerts().items()),
        *((title, target["expr"]) for title, target in targets()),
        *((f"variable {name}", query) for name, query in queries()),
    ]
    for name, expression in expressions:
        for metric in metrics_of(expression):
            found.setdefault(metric, []).append(name)
    return found
