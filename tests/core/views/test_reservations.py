"""What the reports say of reserved nodes and of allocations that wait for the RM's word."""

import pytest

from licorne_core.ids import PartitionName
from licorne_core.partition import Partition
from support.builders import app, apps, ask, asks, config, node, nodes, register
from support.driver import Driver
from support.waiting import hold, reserve

DEFAULT = PartitionName("[rm1]default")


@pytest.fixture
def driver() -> Driver:
    """Two nodes, each with one allocation, and two asks that fit on neither."""
    driver = Driver()
    driver.do(
        register(config("[{name: a}]")),
        nodes(node("n1", vcore=10), node("n2", vcore=10)),
        apps(app("app-1", "root.a"), app("app-2", "root.a")),
        asks(ask("app-1", "k1", vcore=6), ask("app-1", "k2", vcore=6)),
        asks(ask("app-1", "k3", vcore=8), ask("app-2", "k3", vcore=7)),
    )
    return driver


@pytest.fixture
def partition(driver: Driver) -> Partition:
    """Its books."""
    return driver.scheduler.partitions[DEFAULT]


def test_reservations_are_by_node_and_time(driver: Driver, partition: Partition) -> None:
    """A partition's reservations come node by node, the oldest first, from any node on."""
    reserve(partition, "app-1", "k3", "n2", 7.0)
    assert [(r.node_id, r.app_id) for r in driver.views.reservations(DEFAULT)] == [("n2", "app-1")]
    reserve(partition, "app-2", "k3", "n2", 6.0, required=True)
    first, second = driver.views.reservations(DEFAULT)
    assert (first.app_id, first.key, first.time, first.required) == ("app-2", "k3", 6.0, True)
    assert (second.app_id, second.required) == ("app-1", False)
    assert [r.app_id for r in driver.views.reservations(DEFAULT, start="n2")] == ["app-2", "app-1"]
    assert list(driver.views.reservations(DEFAULT, start="n3")) == []


def test_everybody_shows_a_reservation(driver: Driver, partition: Partition) -> None:
    """A reservation is shown by its node, by its application and by its ask."""
    reserve(partition, "app-1", "k3", "n2", 7.0)
    free, reserved = driver.views.nodes(DEFAULT)
    assert free.reservations == ()
    assert reserved.reservations == tuple(driver.views.reservations(DEFAULT))
    report = driver.views.application(DEFAULT, "app-1")
    assert report.reservations == reserved.reservations
    assert [ask.reserved_node for ask in report.asks] == ["n2"]
    [other] = driver.views.application(DEFAULT, "app-2").asks
    assert other.reserved_node == ""


def test_what_is_held_is_an_ask(driver: Driver, partition: Partition) -> None:
    """An allocation that the RM has not heard of is shown as an ask with its node, at its place."""
    hold(partition, "app-1", "k1")
    report = driver.views.application(DEFAULT, "app-1")
    assert [(ask.ask.key, ask.held_node) for ask in report.asks] == [("k1", "n1"), ("k3", "")]
    assert [allocation.key for allocation in report.allocations] == ["k2"]
    assert (report.pending_count, report.allocation_count) == (2, 1)
    limited = driver.views.application(DEFAULT, "app-1", limit=1)
    assert [ask.ask.key for ask in limited.asks] == ["k1"]
    assert [allocation.key for allocation in limited.allocations] == ["k2"]
    [shown] = driver.views.partitions()
    assert (shown.allocations, shown.pending_asks) == (1, 3)


def test_nodes_do_not_show_what_is_held(driver: Driver, partition: Partition) -> None:
    """A node has what its RM knows of; the resources are taken all the same."""
    hold(partition, "app-1", "k1")
    holding = driver.views.node(DEFAULT, "n1")
    assert (holding.allocation_count, list(holding.allocations)) == (0, [])
    assert holding.allocated == {"vcore": 6}
    assert driver.views.node(DEFAULT, "n2").allocation_count == 1
