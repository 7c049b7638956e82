"""Bounded numbers of metrics of queues and RMs, and metrics of reserved nodes."""

from dataclasses import replace

import pytest

from licorne_core.values.ids import RmId
from licorne_server.http import metrics, queue_metrics, scrape
from licorne_server.reads.sources import Figures, RmFigures
from licorne_server.telemetry.measures import RmMeasures
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, reload
from support.server.http_site import Site


def of(samples: dict[str, float], name: str, *labels: str) -> dict[str, float]:
    """The samples of a name that have all of these labels."""
    return {
        key: value
        for key, value in samples.items()
        if key.startswith(f"{name}{{") and all(label in key for label in labels)
    }


async def test_queues_and_resources_are_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """An RM has its share of samples whatever its names, and another RM has all of its own."""
    monkeypatch.setattr(metrics, "MAX_SAMPLES", 4_000)
    many = ", ".join(f"{{name: q{n}}}" for n in range(300))
    strange = {"vcore": 1, **{f"r{n}": 1 for n in range(200)}}
    site.driver.do(
        register(config(f"[{many}]"), rm="flood"),
        nodes(replace(node("n1"), capacity=strange), rm="flood"),
        register(config("[{name: a}, {name: b}]"), rm="calm"),
        nodes(node("n1", vcore=1), rm="calm"),
    )

    samples = await site.metrics()

    # The last queue may exceed the share a little.
    assert len([key for key in samples if 'rm="flood"' in key]) < 2_000 + 400
    calm = of(samples, "yunikorn_queue_resource", 'rm="calm"', 'state="allocated"')
    assert {key.split('queue="')[1].split('"')[0] for key in calm} == {"root", "root.a", "root.b"}
    assert samples['licorne_metrics_truncated{rm="flood"}'] == 1
    assert samples['licorne_metrics_truncated{rm="calm"}'] == 0


async def test_partitions_are_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an RM with very many partitions only the first have samples, which a metric reports."""
    monkeypatch.setattr(metrics, "MAX_SAMPLES", 1_000)
    partitions = ", ".join(f"{{name: p{n}, queues: [{{name: a}}]}}" for n in range(100))
    site.driver.do(register(f"partitions: [{partitions}]"))

    samples = await site.metrics()

    assert len([key for key in samples if 'rm="rm1"' in key]) < 1_400
    assert samples['licorne_metrics_truncated{rm="rm1"}'] == 1
    assert of(samples, "licorne_allocations", 'partition="p0"')


async def test_rms_with_histograms_are_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """RMs beyond a number share histograms, which include all of their values."""
    monkeypatch.setattr(scrape, "MAX_RMS", 2)
    measured = [RmMeasures() for _ in range(5)]
    for number, measures in enumerate(measured):
        measures.turn.observe(0.01, number + 1)
    site.figures = Figures(
        rms=tuple(
            RmFigures(rm_id=RmId(f"rm{n}"), connected=True, measures=measures)
            for n, measures in enumerate(measured)
        )
    )

    samples = await site.metrics()

    assert of(samples, "licorne_turn_duration_seconds_count") == {
        'licorne_turn_duration_seconds_count{rm="rm0"}': 1,
        'licorne_turn_duration_seconds_count{rm="rm1"}': 2,
        'licorne_turn_duration_seconds_count{rm="(others)"}': 3 + 4 + 5,
    }
    assert samples["licorne_rms"] == 5


async def test_users_are_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Users beyond a number share samples, so that the total is right."""
    monkeypatch.setattr(metrics, "MAX_NAMES", 3)
    users = [f"user{n}" for n in range(9)]
    site.driver.do(
        register(config("[{name: a}]")),
        nodes(node("n1", vcore=100)),
        apps(*[app(f"app-{name}", "root.a", user=name) for name in users]),
        asks(*[ask(f"app-{name}", "k", vcore=2) for name in users]),
    )

    samples = await site.metrics()

    found = of(samples, "licorne_usage", 'kind="user"')
    names = {key.split('name="')[1].split('"')[0]: value for key, value in found.items()}
    assert names == {"user0": 2, "user1": 2, "user2": 2, "(others)": 12}


async def test_asks_of_queues_without_samples_are_summed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such asks count in one common sample, so that all reasons together are all asks."""
    monkeypatch.setattr(queue_metrics, "MAX_QUEUES", 2)
    queues = [f"q{n}" for n in range(4)]
    site.driver.do(
        register(config(f"[{', '.join(f'{{name: {name}}}' for name in queues)}]")),
        nodes(node("n1", vcore=1)),
        apps(*[app(f"app-{name}", f"root.{name}") for name in queues]),
        asks(*[ask(f"app-{name}", "k", vcore=9) for name in queues]),
    )

    samples = await site.metrics()

    found = of(samples, "licorne_queue_pending_asks")
    names = {key.split('queue="')[1].split('"')[0]: value for key, value in found.items()}
    assert names == {"root.q0": 1, "(others)": 3}
    assert sum(of(samples, "licorne_pending_asks").values()) == 4


HERE = 'partition="default",rm="rm1"'


def _reserve(site: Site) -> None:
    """Reserve two nodes; the queue of the second is then above its maximum."""
    properties = "{reservation.max.nodes: '9', application.reservation.max.nodes: '9'}"
    queues = "[{name: a}, {name: b%s}, {name: c}]"
    site.driver.do(
        register(config(queues % "", properties=properties)),
        nodes(node("n1", vcore=10), node("n2", vcore=10)),
        apps(app("app-1", "root.a"), app("app-2", "root.b")),
        asks(ask("app-1", "k1", vcore=6), ask("app-1", "k2", vcore=6)),
        asks(ask("app-1", "big", vcore=8), ask("app-2", "big", vcore=7)),
    )
    site.driver.wait(3)
    limit = ", resources: {max: {vcore: 2m}}"
    site.driver.do(reload(config(queues % limit, properties=properties)))


async def test_reserved_nodes_are_counted_by_queue(site: Site) -> None:
    """The metrics have nodes and amounts by leaf, with those of asks that cannot run separately."""
    _reserve(site)
    site.driver.wait(1.5)

    samples = await site.metrics()

    name = "licorne_queue_reserved_nodes"
    counts = {
        (leaf, holder): samples[
            f'{name}{{holder="{holder}",partition="default",queue="root.{leaf}",rm="rm1"}}'
        ]
        for leaf in "abc"
        for holder in ("able", "idle")
    }
    assert {key for key, count in counts.items() if count} == {("a", "able"), ("b", "idle")}
    labels = 'holder="idle",partition="default",queue="root.b",resource="vcore",rm="rm1"'
    assert samples[f"licorne_queue_reserved{{{labels}}}"] == 7


async def test_reserved_nodes_of_queues_without_metrics_are_summed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reserved nodes of queues without samples are one total."""
    monkeypatch.setattr(queue_metrics, "MAX_QUEUES", 2)
    _reserve(site)
    site.driver.wait(1.5)

    samples = await site.metrics()

    labels = f'partition="default",queue="{queue_metrics.OTHERS}",rm="rm1"'
    assert samples[f'licorne_queue_reserved_nodes{{holder="idle",{labels}}}'] == 1
    assert samples[f'licorne_queue_reserved_nodes{{holder="able",{labels}}}'] == 0


async def test_cancelled_reservations_are_counted_by_cause(site: Site) -> None:
    """A cancelled idle reservation counts under its cause, and under no other."""
    _reserve(site)
    site.driver.wait(5)

    samples = await site.metrics()

    name = "licorne_reservations_given_up_total"
    assert samples[f'{name}{{cause="idle",{HERE}}}'] == 1
    assert samples[f'{name}{{cause="yielded",{HERE}}}'] == 0
