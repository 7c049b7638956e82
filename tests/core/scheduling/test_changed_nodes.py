"""Every change of a node is logged, so that searches for victims update their data."""

import pytest

from licorne_core.messages.commands import Command, NodeAction
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, release, releases
from support.core.builders import reload as configure
from support.core.driver import Driver

QUEUES = "[{name: rich, resources: {max: {memory: %s}}, properties: {quota.preemption.delay: 1s}}]"
MORE = "preemption: {quotapreemptionenabled: true}\nnodesortpolicy: fair"


def full() -> Driver:
    """Two nodes, of which n1 is full."""
    driver = Driver()
    driver.do(register(config(QUEUES % 9, rest=MORE)))
    driver.do(nodes(node("n1", memory=2), node("n2", memory=2)), apps(app("rich", "root.rich")))
    driver.do(asks(*[ask("rich", key, policy="s", on_node="n1", memory=1) for key in ("a", "b")]))
    return driver


def changed(driver: Driver, *commands: Command) -> set[str]:
    """Process the commands, wait three seconds, and return the nodes logged meanwhile."""
    log = driver.partition.nodes.changed
    read = log.count
    driver.do(*commands)
    driver.wait(3)
    return {node.node_id for node in log.since(read)}


CHANGES: dict[str, tuple[Command, str]] = {
    "booked": (asks(ask("rich", "c", memory=1)), "n2"),
    "freed": (releases(release("rich", "a")), "n1"),
    "a victim": (configure(config(QUEUES % 1, rest=MORE)), "n1"),
    "drained": (nodes(node("n2", NodeAction.DRAIN_NODE)), "n2"),
}
"""Commands, each with the node that it changes."""


@pytest.mark.parametrize("how", CHANGES)
def test_each_change_of_a_node_is_logged(how: str) -> None:
    """A change of a node's usage, victims or state logs only this node."""
    command, changes = CHANGES[how]
    assert changed(full(), command) == {changes}


def test_a_reservation_logs_its_node() -> None:
    """A reservation logs the reserved node."""
    driver = full()
    driver.do(nodes(node("n3", memory=1)), asks(ask("rich", "c", on_node="n2", memory=1)))
    assert changed(driver, asks(ask("rich", "d", memory=2))) == {"n2"}


def test_a_new_node_is_logged_and_a_removed_one_dropped() -> None:
    """A new node is logged, and a removed one is dropped from the log."""
    driver = full()
    assert changed(driver, nodes(node("n3", memory=1))) == {"n3"}
    assert changed(driver, nodes(node("n3", NodeAction.DECOMISSION))) == set()
    log = driver.partition.nodes.changed
    assert {node.node_id for node in log.since(0)} == {"n1", "n2"}
