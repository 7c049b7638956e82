"""Queues as an RM sees them: maxima, shares, priorities, dynamic queues."""

import gc
from collections import Counter

import pytest

from licorne_core.handlers.lifecycle import CLEANING_TIME
from licorne_core.model.queues.queue import Queue
from licorne_core.values.asks import Ask
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, remove_apps
from support.core.driver import Driver, placed


def started(queues: str, *queue_of_app: str, **capacity: int) -> Driver:
    """A core with one node, and an application in each of the queues: app-0, app-1 and so on."""
    driver = Driver()
    driver.do(register(config(queues)), nodes(node("n1", size=capacity)))
    driver.do(apps(*(app(f"app-{i}", queue) for i, queue in enumerate(queue_of_app))))
    return driver


def wave(app_id: str, count: int, priority: int = 0, **size: int) -> list[Ask]:
    """Equal asks of one application."""
    return [ask(app_id, f"{app_id}-{i}", priority=priority, size=size) for i in range(count)]


@pytest.mark.row(88)
def test_siblings_without_guarantee_share_alike() -> None:
    """Without guarantees, and with equal or no maxima, two leaves get the same."""
    driver = started("[{name: a}, {name: b}]", "root.a", "root.b", memory=20)
    driver.send(asks(*wave("app-0", 50, memory=1), *wave("app-1", 50, memory=1)))
    order = [app_id for app_id, _, _ in placed(driver.run())]
    assert Counter(order) == {"app-0": 10, "app-1": 10}


@pytest.mark.row(88)
def test_without_guarantee_a_share_is_of_the_maximum() -> None:
    """Leaves without guarantees but with maxima of 10 and 30 share 1 to 3."""
    queues = "[{name: a, resources: {max: {memory: 10}}}, {name: b, resources: {max: {memory: 30}}}]"
    driver = started(queues, "root.a", "root.b", memory=20)
    driver.send(asks(*wave("app-0", 50, memory=1), *wave("app-1", 50, memory=1)))
    assert Counter(app_id for app_id, _, _ in placed(driver.run())) == {"app-0": 5, "app-1": 15}


@pytest.mark.row(89)
@pytest.mark.parametrize(
    ("policy", "first"), [("enabled", ["app-1", "app-1"]), ("disabled", ["app-0", "app-1"])]
)
def test_priority_orders_siblings_unless_disabled(policy: str, first: list[str]) -> None:
    """The leaf with the higher priority waiting is first; where disabled, the smaller share is."""
    queues = (
        f"[{{name: p, properties: {{application.sort.priority: {policy}}},"
        " queues: [{name: a}, {name: b}]}]"
    )
    driver = started(queues, "root.p.a", "root.p.b", memory=10)
    driver.do(asks(*(ask("app-1", f"old{i}", memory=1) for i in range(1))))
    driver.send(asks(*wave("app-0", 2, memory=1), *wave("app-1", 2, priority=5, memory=1)))
    assert [app_id for app_id, _, _ in placed(driver.run())][:2] == first


@pytest.mark.row(102)
def test_parents_are_always_fair() -> None:
    """A sort policy written on a parent changes nothing for its children: they share."""
    queues = "[{name: p, properties: {application.sort.policy: fifo}, queues: [{name: a}, {name: b}]}]"
    driver = started(queues, "root.p.a", "root.p.b", memory=10)
    driver.send(asks(*wave("app-0", 9, memory=1)))
    driver.send(asks(*wave("app-1", 9, memory=1)))
    assert Counter(app_id for app_id, _, _ in placed(driver.run())) == {"app-0": 5, "app-1": 5}


def test_a_dynamic_queue_that_is_gone_leaves_nothing() -> None:
    """A dynamic queue that came and went leaves nothing behind, also while there are no nodes."""
    driver = Driver()
    rules = "placementrules: [{name: provided, create: true}]"
    driver.do(register(config("[{name: a}]", rest=rules)))
    driver.do(apps(app("app-1", "root.passing")), asks(ask("app-1", "k", vcore=1)))
    driver.do(remove_apps("app-1"))
    driver.wait(3 * CLEANING_TIME)
    gc.collect()
    left = [thing.path for thing in gc.get_objects() if isinstance(thing, Queue)]
    assert "root.passing" not in left
