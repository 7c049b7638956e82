"""Configuration updates while things run (spec § 2.7)."""

import pytest

from licorne_core.messages.effects import ConfigurationRefused, ConfigurationUpdated
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import PartitionName
from support.core.builders import (
    app,
    apps,
    ask,
    asks,
    config,
    node,
    nodes,
    register,
    reload,
    remove_apps,
)
from support.core.driver import Driver, keys, refused, refused_apps

DEFAULT = PartitionName("[rm1]default")
SECOND = PartitionName("[rm1]second")


def two(default: str, second: str) -> str:
    """A configuration of two partitions with these queues."""
    return config(default) + config(second, name="second").removeprefix("partitions:\n")


def started(text: str) -> Driver:
    """A core with a node, and an application in root.a."""
    driver = Driver()
    driver.do(register(text), nodes(node("n1", memory=10)), apps(app("app", "root.a")))
    return driver


def updated(driver: Driver, text: str) -> bool:
    """Whether the update was taken."""
    effects = driver.do(reload(text))
    return isinstance(effects[0], ConfigurationUpdated)


@pytest.mark.row(45)
def test_the_preemption_flag_is_shown() -> None:
    """Unset means enabled, false is shown as false, anything but true or false is refused."""
    driver = started(config("[{name: a}]"))
    assert driver.views.partitions()[0].preemption_enabled
    assert updated(driver, config("[{name: a}]", rest="preemption: {enabled: false}"))
    assert not driver.views.partitions()[0].preemption_enabled
    assert not updated(driver, config("[{name: a}]", rest="preemption: {enabled: 'true'}"))
    assert not updated(driver, config("[{name: a}]", rest="preemption: {enabled: 1}"))


@pytest.mark.row(49)
def test_a_new_queue_can_be_used_at_once() -> None:
    """A queue that a reload adds takes applications without a restart."""
    driver = started(config("[{name: a}]"))
    assert refused_apps(driver.do(apps(app("late", "root.b")))).keys() == {"late"}
    assert updated(driver, config("[{name: a}, {name: b}]"))
    assert refused_apps(driver.do(apps(app("late", "root.b")))) == {}
    assert keys(driver.do(asks(ask("late", "k", memory=1)))) == ["k"]


@pytest.mark.row(50)
def test_a_queue_that_leaves_the_configuration_drains() -> None:
    """What runs there goes on, nothing new comes, and it is gone ten seconds after it is empty."""
    driver = started(config("[{name: a}, {name: b}]"))
    assert updated(driver, config("[{name: b}]"))
    assert driver.views.queue(DEFAULT, "root.a").state == "Draining"
    assert keys(driver.do(asks(ask("app", "k", memory=1)))) == ["k"]
    assert refused_apps(driver.do(apps(app("late", "root.a")))).keys() == {"late"}
    driver.wait(60.0)
    assert driver.views.queue(DEFAULT, "root.a").state == "Draining"
    driver.do(remove_apps("app"))
    driver.wait(10.0)
    with pytest.raises(NotFound):
        driver.views.queue(DEFAULT, "root.a")


@pytest.mark.row(50)
def test_empty_queues_that_leave_the_configuration_go_with_their_parents() -> None:
    """An empty leaf, its parent, and a parent without children are all gone ten seconds later."""
    driver = started(config("[{name: a}, {name: p, queues: [{name: q}]}, {name: e, parent: true}]"))
    assert updated(driver, config("[{name: a}]"))
    driver.wait(10.0)
    assert [queue.path for queue in driver.views.queues(DEFAULT).children] == ["root.a"]


@pytest.mark.row(51)
def test_a_draining_queue_comes_back() -> None:
    """A queue that is configured again while it drains is active, and takes applications."""
    driver = started(config("[{name: a}]"))
    assert updated(driver, config("[{name: b}]"))
    assert updated(driver, config("[{name: a}]"))
    assert driver.views.queue(DEFAULT, "root.a").state == "Active"
    assert refused_apps(driver.do(apps(app("late", "root.a")))) == {}


@pytest.mark.row(52)
def test_a_raised_maximum_lets_waiting_asks_run() -> None:
    """Asks that a maximum held back are served as soon as it is raised, in order."""
    low = "[{name: a, resources: {max: {memory: %d}}}]"
    driver = started(config(low % 1))
    assert keys(driver.do(asks(*(ask("app", f"k{i}", memory=1) for i in range(4))))) == ["k0"]
    assert keys(driver.do(reload(config(low % 3)))) == ["k1", "k2"]


@pytest.mark.row(52)
def test_a_lowered_maximum_kills_nothing() -> None:
    """What is above the new maximum stays, and nothing new runs until usage is below it."""
    low = "[{name: a, resources: {max: {memory: %d}}}]"
    driver = started(config(low % 3))
    driver.do(asks(*(ask("app", f"k{i}", memory=1) for i in range(4))))
    assert keys(driver.do(reload(config(low % 1)))) == []
    assert driver.views.queue(DEFAULT, "root.a").allocated == {"memory": 3}


@pytest.mark.row(53)
def test_a_reload_is_taken_whole_or_not_at_all() -> None:
    """An error in the second partition leaves the first as it was."""
    driver = started(two("[{name: a}]", "[{name: a}]"))
    before = driver.views.queues(DEFAULT)
    bad = two("[{name: a}, {name: b}]", "[{name: x, resources: {guaranteed: {memory: many}}}]")
    (refusal,) = driver.do(reload(bad))
    assert isinstance(refusal, ConfigurationRefused)
    assert refusal.reason.startswith("update of configuration failed: ")
    assert driver.views.queues(DEFAULT) == before


@pytest.mark.row(53)
def test_a_queue_in_use_cannot_become_a_parent_in_part_of_a_reload() -> None:
    """What only the running partition has against a configuration refuses it whole as well."""
    driver = Driver()
    driver.do(register(two("[{name: a}]", "[{name: a}]")))
    driver.do(apps(app("app", "root.a", partition="second")))
    bad = two("[{name: a}, {name: b}]", "[{name: a, queues: [{name: below}]}]")
    assert not updated(driver, bad)
    with pytest.raises(NotFound):
        driver.views.queue(DEFAULT, "root.b")


@pytest.mark.row(57)
def test_a_removed_partition_takes_nothing_more() -> None:
    """Applications and asks for it are refused as for a stopped one; the other goes on."""
    driver = started(two("[{name: a}]", "[{name: a}]"))
    driver.do(apps(app("there", "root.a", partition="second")))
    assert updated(driver, config("[{name: a}]"))
    late = app("late", "root.a", partition="second")
    assert refused_apps(driver.do(apps(late))) == {
        "late": "partition [rm1]second is stopped cannot add a new application late"
    }
    effects = driver.do(asks(ask("there", "k", partition="second", memory=1)))
    assert refused(effects) == {
        "k": "partition [rm1]second is stopped; cannot process allocation k"
    }
    with pytest.raises(NotFound):
        driver.views.queues(SECOND)
    assert keys(driver.do(asks(ask("app", "k", memory=1)))) == ["k"]
