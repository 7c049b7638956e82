"""What those who watch hear of nodes (spec §§ 7.8, 12.1.4)."""

import pytest

from licorne_core.messages.commands import NodeAction
from licorne_core.values.asks import Ask
from support.core.builders import ask, asks, config, node, nodes, register, release, releases
from support.core.driver import Driver
from support.core.watching import heard


def foreign(key: str, on_node: str, memory: int) -> Ask:
    """An allocation of another scheduler."""
    made = ask("", key, on_node=on_node, memory=memory)
    made.tags = {"foreign": "default"}
    return made


@pytest.fixture
def driver() -> Driver:
    """A core with one queue, a node of 4 and another of 8, of which everything was heard."""
    driver = Driver()
    driver.do(register(config("[{name: a}]")), nodes(node("n1", memory=4), node("n2", memory=8)))
    driver.facts.clear()
    return driver


def test_a_node_created_drained_is_not_schedulable(driver: Driver) -> None:
    """It counts in the cluster all the same."""
    driver.send(nodes(node("n3", NodeAction.CREATE_DRAIN, memory=1)))
    assert heard(driver)[:2] == [
        "NODE n3 SET NODE_SCHEDULABLE: schedulable: false",
        "QUEUE root SET QUEUE_MAX memory=13",
    ]


def test_a_rejected_node_was_never_there(driver: Driver) -> None:
    """A second node of the same name is not heard of."""
    driver.send(nodes(node("n1", memory=1)))
    assert heard(driver) == []


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (NodeAction.DRAIN_NODE, "schedulable: false"),
        (NodeAction.DRAIN_TO_SCHEDULABLE, "schedulable: true"),
    ],
)
def test_draining_is_told_once(driver: Driver, action: NodeAction, message: str) -> None:
    """NODE_SCHEDULABLE is set when the flag changes; the same again is not heard of."""
    if action is NodeAction.DRAIN_TO_SCHEDULABLE:
        driver.send(nodes(node("n1", NodeAction.DRAIN_NODE)))
        driver.facts.clear()
    driver.send(nodes(node("n1", action), node("n1", action)))
    assert heard(driver) == [f"NODE n1 SET NODE_SCHEDULABLE: {message}"]


def test_another_capacity_is_another_cluster(driver: Driver) -> None:
    """NODE_CAPACITY, then root's QUEUE_MAX; the same capacity again is not heard of."""
    change = node("n1", NodeAction.UPDATE, memory=6)
    driver.send(nodes(change, change, node("n1", NodeAction.UPDATE)))
    assert heard(driver) == [
        "NODE n1 SET NODE_CAPACITY memory=6",
        "QUEUE root SET QUEUE_MAX memory=14",
    ]


def test_what_others_have_of_a_node_is_its_occupied_sum(driver: Driver) -> None:
    """NODE_OCCUPIED says all that is occupied, after each change and on each node it concerns."""
    driver.send(asks(foreign("f1", "n1", 1), foreign("f2", "n1", 2)))
    driver.send(asks(foreign("f1", "n1", 2)))
    driver.send(asks(foreign("f1", "n2", 3)))
    driver.send(releases(release("", "f1"), release("", "unknown")))
    assert heard(driver) == [
        "NODE n1 SET NODE_OCCUPIED memory=1",
        "NODE n1 SET NODE_OCCUPIED memory=3",
        "NODE n1 SET NODE_OCCUPIED memory=4",
        "NODE n1 SET NODE_OCCUPIED memory=2",
        "NODE n2 SET NODE_OCCUPIED memory=3",
        "NODE n2 SET NODE_OCCUPIED",
    ]
