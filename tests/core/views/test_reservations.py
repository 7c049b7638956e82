"""Reports of reserved nodes."""

import pytest

from licorne_core.values.ids import PartitionName
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, release, releases
from support.core.driver import START, Driver
from support.core.reports import queues_in
from support.core.steps import listed

DEFAULT = PartitionName("[rm1]default")


@pytest.fixture
def driver() -> Driver:
    """Two nodes of 10 with an allocation of 6 each; the first node is reserved for an ask of 5."""
    driver = Driver()
    driver.do(
        register(config("[{name: a}, {name: b}]")),
        nodes(node("n1", vcore=10), node("n2", vcore=10)),
        apps(app("app-1", "root.a"), app("app-2", "root.a"), app("app-3", "root.b")),
        asks(ask("app-1", "k1", vcore=6), ask("app-1", "k2", vcore=6)),
        asks(ask("app-2", "k3", vcore=5), ask("app-1", "k4", vcore=11)),
    )
    driver.wait(3)
    return driver


def test_a_reservation_is_in_every_report(driver: Driver) -> None:
    """A reservation is listed by its node, by its application and by its ask."""
    [found] = listed(driver.views.reservations(DEFAULT))
    assert (found.node_id, found.app_id, found.key) == ("n1", "app-2", "k3")
    assert (found.time, found.required) == (START + 2, False)
    reserved, free = [driver.node(name) for name in ("n1", "n2")]
    assert (reserved.reserved, free.reserved) == (1, 0)
    report = driver.app("app-2")
    assert report.reserved == 1
    assert list(driver.views.reservations_of(DEFAULT, "app-2")) == [found]
    assert [ask.reserved_node for ask in listed(driver.views.asks(DEFAULT, "app-2"))] == ["n1"]
    other = driver.app("app-1")
    assert other.reserved == 0
    assert list(driver.views.reservations_of(DEFAULT, "app-1")) == []
    assert [ask.reserved_node for ask in listed(driver.views.asks(DEFAULT, "app-1"))] == [""]


def test_an_ended_reservation_is_in_no_report(driver: Driver) -> None:
    """Once its ask is placed, a reservation is in no report."""
    driver.do(releases(release("app-1", "k1")))
    assert listed(driver.views.reservations(DEFAULT)) == []
    assert all(driver.node(name).reserved == 0 for name in ("n1", "n2"))
    report = driver.app("app-2")
    assert (report.reserved, report.allocation_count) == (0, 1)


def test_reservations_are_listed_by_node_and_time(driver: Driver) -> None:
    """Reservations are listed by node, the oldest first, beginning with any node."""
    driver.do(asks(ask("app-3", "late", vcore=5, required_node="n2")))
    driver.wait(1)
    driver.do(asks(ask("app-1", "later", vcore=5, required_node="n2")))
    found = listed(driver.views.reservations(DEFAULT))
    assert [(item.node_id, item.key) for item in found] == [
        ("n1", "k3"),
        ("n2", "late"),
        ("n2", "later"),
    ]
    assert [item.required for item in found] == [False, True, True]
    assert [item.key for item in listed(driver.views.reservations(DEFAULT, start="n2"))] == [
        "late",
        "later",
    ]
    assert listed(driver.views.reservations(DEFAULT, start="n3")) == []


def test_a_reservation_that_ends_during_a_read_is_skipped(driver: Driver) -> None:
    """A reservation that ends before it is read is skipped."""
    driver.do(asks(ask("app-3", "late", vcore=5, required_node="n2")))
    reading = driver.views.reservations(DEFAULT)
    first = next(report for report in reading if report is not None)
    assert first.node_id == "n1"
    driver.do(releases(release("app-3", "late")))
    assert listed(reading) == []


def test_queues_list_accepted_applications_with_a_reservation(driver: Driver) -> None:
    """A leaf, and each queue above, lists its accepted applications that have a reservation."""
    running = {queue.path: queue.allocating_accepted for queue in queues_in(driver.views, DEFAULT)}
    assert running == {"root": ("app-2",), "root.a": ("app-2",), "root.b": ()}
