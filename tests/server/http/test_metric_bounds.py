"""However much an RM makes up, an answer stays small, and nobody is crowded out of it."""

from dataclasses import replace

import pytest

from licorne_core.values.ids import RmId
from licorne_server.http import Figures, RmFigures, metrics, queue_metrics, scrape
from licorne_server.telemetry.measures import RmMeasures
from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.server.http_site import Site


def of(samples: dict[str, float], name: str, *labels: str) -> dict[str, float]:
    """The samples of a name that have all of these labels."""
    return {
        key: value
        for key, value in samples.items()
        if key.startswith(f"{name}{{") and all(label in key for label in labels)
    }


async def test_queues_and_resources_without_end(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """An RM has its share of samples whatever it makes up, and another RM has all of its own."""
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

    # The last queue may take the share a little beyond.
    assert len([key for key in samples if 'rm="flood"' in key]) < 2_000 + 400
    calm = of(samples, "yunikorn_queue_resource", 'rm="calm"', 'state="allocated"')
    assert {key.split('queue="')[1].split('"')[0] for key in calm} == {"root", "root.a", "root.b"}
    assert samples['licorne_metrics_truncated{rm="flood"}'] == 1
    assert samples['licorne_metrics_truncated{rm="calm"}'] == 0


async def test_partitions_without_end(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an RM with very many partitions the first have samples, and it is said."""
    monkeypatch.setattr(metrics, "MAX_SAMPLES", 1_000)
    partitions = ", ".join(f"{{name: p{n}, queues: [{{name: a}}]}}" for n in range(100))
    site.driver.do(register(f"partitions: [{partitions}]"))

    samples = await site.metrics()

    assert len([key for key in samples if 'rm="rm1"' in key]) < 1_400
    assert samples['licorne_metrics_truncated{rm="rm1"}'] == 1
    assert of(samples, "licorne_allocations", 'partition="p0"')


async def test_rms_without_end(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a number RMs have common histograms, which have all that was measured for them."""
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


async def test_users_without_end(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a number users have common samples, so that the sum is what all of them have."""
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


async def test_asks_of_queues_that_are_not_shown(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """They count in place of their queue, so that all reasons together are all asks."""
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
