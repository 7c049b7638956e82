"""Losses are counted where a limit says that they matter (`preemption.loss.limit`)."""

import pytest

from licorne_core.values.ids import PartitionName, QueuePath
from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.core.driver import Driver, released


@pytest.mark.parametrize(
    ("properties", "lost"),
    [("", {}), ("preemption.loss.limit: memory=99000", {"memory": 5000})],
    ids=["no limit", "limit"],
)
def test_losses_count_where_there_is_a_limit(properties: str, lost: dict[str, int]) -> None:
    """One victim has run for 5 s when it is told to stop; nothing is kept of it elsewhere."""
    driver = Driver()
    queues = "[{name: rich, properties: {%s}}, {name: poor, resources: {guaranteed: {memory: 1}}}]"
    text = config(queues % properties)
    text = text.replace("submitacl: '*'", "submitacl: '*', properties: {preemption.delay: 5s}")
    driver.do(register(text), nodes(node("n1", memory=1)))
    driver.do(apps(app("rich", "root.rich"), app("poor", "root.poor")))
    driver.do(asks(ask("rich", "r", policy="s", memory=1)))
    driver.do(asks(ask("poor", "p", policy="o", memory=1)))
    assert len(released(driver.wait(5))) == 1
    losses = driver.scheduler.partitions[PartitionName("[rm1]default")].losses
    assert losses.lost(QueuePath("root.rich"), driver.now) == lost
