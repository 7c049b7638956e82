"""Reserved nodes as a scraper reads them."""

import pytest

from licorne_server.http import queue_metrics
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, reload
from support.server.http_site import Site

HERE = 'partition="default",rm="rm1"'


def _reserve(site: Site) -> None:
    """Two nodes are reserved, and then the queue of the second has more than its maximum."""
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
    """Nodes and amounts by leaf, those of asks that cannot run apart."""
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
    """Where only few queues have metrics, the others' reserved nodes are there together."""
    monkeypatch.setattr(queue_metrics, "MAX_QUEUES", 2)
    _reserve(site)
    site.driver.wait(1.5)

    samples = await site.metrics()

    labels = f'partition="default",queue="{queue_metrics.OTHERS}",rm="rm1"'
    assert samples[f'licorne_queue_reserved_nodes{{holder="idle",{labels}}}'] == 1
    assert samples[f'licorne_queue_reserved_nodes{{holder="able",{labels}}}'] == 0


async def test_reservations_given_up_are_counted_by_cause(site: Site) -> None:
    """An idle reservation that has ended counts as one, and under no other cause."""
    _reserve(site)
    site.driver.wait(5)

    samples = await site.metrics()

    name = "licorne_reservations_given_up_total"
    assert samples[f'{name}{{cause="idle",{HERE}}}'] == 1
    assert samples[f'{name}{{cause="yielded",{HERE}}}'] == 0
