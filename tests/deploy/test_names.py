"""The metrics of alerts and dashboard exist on a real server."""

import re
from collections.abc import Iterator

import pytest

from support.deployment import alerts, all_metrics, metrics_of, targets

ELSEWHERE = {
    "up",
    "licorne_tls_certificate_end_timestamp_seconds",
    "licorne_worker_looping",
    "licorne_worker_scraped",
    "licorne_queue_reserved",
}
"""Metrics that Prometheus itself adds to a scrape, and those that only a server with TLS, workers or
reservations has. Workers are tested in `server/assembly/workers`, reservations in
`server/http/test_metrics.py`."""

pytestmark = pytest.mark.asyncio(loop_scope="module")


def samples(exposition: str) -> Iterator[tuple[str, set[str], float]]:
    """The names of all samples, with the names of their labels and their values."""
    for line in exposition.splitlines():
        if not line.startswith("#"):
            sample, value = line.rsplit(" ", 1)
            name, _, labels = sample.partition("{")
            yield name, set(re.findall(r'(\w+)="', labels)), float(value)


async def test_every_metric_exists(exposition: str) -> None:
    """Each metric of an alert or a panel has a sample on a real server."""
    there = {name for name, _, _ in samples(exposition)}

    missing = {name: readers for name, readers in all_metrics().items() if name not in there | ELSEWHERE}

    assert not missing


async def test_every_label_exists(exposition: str) -> None:
    """Every label by which a panel names its lines is one that its metric has."""
    labels: dict[str, set[str]] = {}
    for name, found, _ in samples(exposition):
        labels.setdefault(name, {"instance", "job"}).update(found)

    wrong = [
        (title, name)
        for title, target in targets()
        for name in _named(target["legendFormat"])
        if not any(name in labels[metric] for metric in metrics_of(target["expr"]))
    ]

    assert not wrong


async def test_a_first_scrape_fires_no_alert(exposition: str) -> None:
    """Bounds in alerts exist from the start, and are not zero."""
    bounds = {"licorne_rm_outbox_max_bytes", "licorne_rm_items_max"}
    assert bounds <= {name for rule in alerts().values() for name in metrics_of(rule["expr"])}
    found = {name: value for name, _, value in samples(exposition) if name in bounds}
    assert found.keys() == bounds
    assert all(value > 0 for value in found.values())


def _named(legend: str) -> list[str]:
    """The labels in a legend such as ``{{rm}} {{queue}}``."""
    return [part.partition("}}")[0] for part in legend.split("{{")[1:]]
