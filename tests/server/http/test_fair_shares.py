"""Fairness with memory in metrics and in messages of `State`."""

from math import log

import pytest

from licorne_core.values.ids import PartitionName
from licorne_server.reads.reports import queue_message, usage_messages
from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.core.steps import last
from support.server.http_site import Site

DEFAULT = PartitionName("[rm1]default")
QUEUES = (
    "[{name: a, properties: {application.sort.policy: fair, budget.vcore-hours: 4000m/month}}, "
    "{name: b, properties: {fairshare.weight: '0'}}]"
)


async def test_decayed_usage_is_in_messages_and_metrics(site: Site) -> None:
    """Values equal those of REST and the page, and queues without a half-life have none."""
    driver = site.driver
    driver.views.now = lambda: driver.now
    driver.do(
        register(config(QUEUES, properties="{fairshare.half-life: 1h}")),
        nodes(node("n1", vcore=4000)),
        apps(app("x", "root.a")),
        asks(ask("x", "k1", vcore=2000)),
    )
    driver.wait(1800.0)
    message = queue_message(driver.views.queue(DEFAULT, "root.a"))
    share = message.fair_share
    assert share.decayed["vcore"] == pytest.approx(2000 / log(2) * (1 - 0.5**0.5))
    assert abs(share.share - share.decayed["vcore"] / 4000) < 1e-9
    [budget] = message.hours_budgets
    assert (budget.limit, budget.used, budget.resets_at > driver.now * 10**9) == (4000, 1000, True)
    assert not queue_message(driver.views.queue(DEFAULT, "root")).HasField("fair_share")
    report = last(driver.views.usage(DEFAULT, "user", "ann"))
    [told] = [one for one in usage_messages([report]) if one is not None]
    assert told.root.children[0].fair_share.share == share.share
    samples = await site.metrics()
    labels = 'partition="default",queue="root.a"'
    left = f'licorne_queue_budget_left_resource_seconds{{{labels},resource="vcore",rm="rm1"}}'
    assert samples[left] == 3000 * 3600
    assert samples[f'licorne_queue_decayed_share{{{labels},rm="rm1"}}'] == share.share
    assert not any(key.startswith("licorne_queue_decayed_share") and "root.b" in key for key in samples)
