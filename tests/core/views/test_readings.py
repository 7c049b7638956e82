"""Readings of requests and partitions, for observers of a run."""

import pytest

from licorne_core.messages.commands import Hold, SetHold, TerminationType, Tick
from licorne_core.values.ids import AllocationKey, AppId, PartitionName, RmId
from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.core.driver import Driver

NAME, APP, RM = PartitionName("[rm1]default"), AppId("app"), RmId("rm1")
NOBODY, ELSEWHERE = AppId("nobody"), PartitionName("[rm1]elsewhere")
QUEUES = (
    "[{name: a, properties: {preemption.delay: 1s}}, "
    "{name: b, properties: {preemption.delay: 1s}, resources: {guaranteed: {vcore: 4m}}}]"
)


@pytest.fixture
def driver() -> Driver:
    """A full node with one allocation, and a waiting ask."""
    driver = Driver()
    driver.do(register(config(QUEUES)), nodes(node("n1", vcore=10)), apps(app("app", "root.a")))
    driver.do(asks(ask("app", "runs", vcore=8), ask("app", "waits", vcore=4)))
    return driver


def test_a_reading_of_a_request_has_its_state(driver: Driver) -> None:
    """A pending request is read as an ask, and an allocated request with its node."""
    waits, runs = driver.views.requests(NAME, APP)
    assert (waits.ask.key, runs.ask.key) == ("waits", "runs")
    assert runs.allocation is not None
    assert runs.allocation.node_id == "n1"
    assert (runs.is_ask, runs.is_pending, runs.is_booked, runs.stop) == (False, False, True, None)
    assert (waits.allocation, waits.is_ask, waits.is_pending, waits.is_booked) == (None, True, True, False)
    assert driver.views.request(NAME, APP, AllocationKey("waits")) == waits


def test_unknown_objects_have_no_reading(driver: Driver) -> None:
    """An unknown partition, application or key gives None, no items, or no lost seconds."""
    views, key = driver.views, AllocationKey("runs")
    for partition, app_id in ((NAME, NOBODY), (ELSEWHERE, APP)):
        assert views.queue_of(partition, app_id) is None
        assert [*views.requests(partition, app_id)] == []
        assert views.request(partition, app_id, key) is None
        assert views.seconds_lost(partition, app_id, key, driver.now) == 0.0
    assert views.request(NAME, APP, AllocationKey("other")) is None
    assert [*views.app_ids(ELSEWHERE)] == []
    assert views.queue_of(NAME, APP) == "root.a"
    assert [*views.app_ids(NAME)] == [APP]


def test_the_reading_of_a_victim_has_its_loss(driver: Driver) -> None:
    """A victim is read with the work lost since its placement, and with the requested stop."""
    driver.now += 5.0
    key = AllocationKey("runs")
    assert driver.views.seconds_lost(NAME, APP, key, driver.now) == 5.0
    assert driver.views.seconds_lost(NAME, APP, AllocationKey("waits"), driver.now) == 0.0
    driver.do(apps(app("new", "root.b")), asks(ask("new", "w", policy="o", vcore=4)))
    assert [*driver.views.below_guarantee(NAME)] == ["root.b"]
    driver.wait(2.0)
    victim = driver.views.request(NAME, APP, key)
    assert victim is not None
    assert (victim.is_booked, victim.stop) == (True, TerminationType.PREEMPTED_BY_SCHEDULER)


def test_the_reading_of_a_partition_has_its_totals(driver: Driver) -> None:
    """The reading of a partition has size, allocated amounts, waiting asks and holds."""
    views = driver.views
    assert views.partition_reading(NAME) == ({"vcore": 10}, {"vcore": 8}, 1)
    assert views.holds(NAME) == ()
    driver.do(SetHold(rm_id=RM, hold=Hold.DEFECT, on=True))
    assert views.holds(NAME) == (Hold.DEFECT,)


def test_a_partition_is_found_with_or_without_its_rm(driver: Driver) -> None:
    """A partition is found by a name with its RM, a name without it, or no name."""
    views = driver.views
    assert views.partitions_made() == (NAME,)
    for name in ("", "default", "DEFAULT", "[rm1]Default"):
        assert views.partition_meant(RM, name) == NAME
    assert views.partition_meant(RM, "[rm2]default") is None
    assert views.partition_meant(RM, "elsewhere") is None
    assert views.partition_meant(RmId("rm2"), "default") is None


def test_a_turn_reports_its_partition(driver: Driver) -> None:
    """A tick with a turn reports the turn's partition and counters; a tick without one reports none."""
    driver.send(asks(ask("app", "small", vcore=1)))
    driver.send(Tick(decisions=1))
    assert driver.scheduler.last_turn == (NAME, RM, driver.views.counters(NAME))
    driver.do(asks())
    driver.send(Tick(decisions=1))
    assert driver.scheduler.last_turn is None
