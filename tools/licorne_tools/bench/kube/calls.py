"""Calls to the API server by verb and resource, from its metrics."""

import re
from collections import Counter
from collections.abc import Mapping

REQUESTS = "apiserver_request_total"
DISPATCHED = "apiserver_flowcontrol_dispatched_requests_total"
"""The counter of calls by FlowSchema, and so by user; `REQUESTS` does not distinguish users."""
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
TOO_MANY = "429"

Calls = Counter[str]
"""Calls by verb and resource: ``POST pods/binding``."""


def samples(metrics: str, name: str) -> list[tuple[Mapping[str, str], float]]:
    """The samples of a counter: labels and value."""
    found: list[tuple[Mapping[str, str], float]] = []
    for line in metrics.splitlines():
        if line.startswith(f"{name}{{"):
            labels, _, value = line.rpartition("} ")
            found.append((dict(LABEL.findall(labels)), float(value)))
    return found


def requests(metrics: str) -> Calls:
    """All calls about resources so far."""
    found: Calls = Counter()
    for labels, value in samples(metrics, REQUESTS):
        if labels["resource"]:
            found[called(labels)] += int(value)
    return found


def called(labels: Mapping[str, str]) -> str:
    """The verb and the resource of a sample."""
    return f"{labels['verb']} {'/'.join(filter(None, (labels['resource'], labels['subresource'])))}"


def failed(metrics: str) -> int:
    """Number of calls so far that failed, or that the API server refused as too many."""
    codes = ((labels["code"], value) for labels, value in samples(metrics, REQUESTS))
    return int(sum(value for code, value in codes if code.startswith("5") or code == TOO_MANY))


def dispatched(metrics: str, flow_schema: str) -> int:
    """Number of calls under a FlowSchema so far."""
    return int(
        sum(value for labels, value in samples(metrics, DISPATCHED) if labels["flow_schema"] == flow_schema)
    )
