"""Queues as an RM sees them: maxima, shares, priorities, dynamic queues."""

import gc
from collections import Counter

import pytest

from licorne_core.handlers.lifecycle import CLEANING_TIME
from licorne_core.messages.commands import NodeAction
from licorne_core.model.queues.queue import Queue
from licorne_core.values.asks import Ask
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import PartitionName
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, remove_apps
from support.core.driver import Driver, keys, placed

DEFAULT = PartitionName("[rm1]default")


def started(queues: str, *queue_of_app: str, **capacity: int) -> Driver:
    """A core with one node, and an application in each of the queues: app-0, app-1 and so on."""
    driver = Driver()
    driver.do(register(config(queues)), nodes(node("n1", size=capacity)))
    driver.do(apps(*(app(f"app-{i}", queue) for i, queue in enumerate(queue_of_app))))
    return driver


def wave(app_id: str, count: int, priority: int = 0, **size: int) -> list[Ask]:
    """Equal asks of one application."""
    return [ask(app_id, f"{app_id}-{i}", priority=priority, size=size) for i in range(count)]


@pytest.mark.row(30)
def test_root_is_as_large_as_the_cluster() -> None:
    """Root's maximum is the sum of all nodes, drained ones too, and follows every change."""
    driver = started("[{name: a}]", vcore=1000, memory=10)
    driver.do(nodes(node("n2", NodeAction.CREATE_DRAIN, vcore=500, gpu=1)))
    assert driver.views.queues(DEFAULT).max == {"vcore": 1500, "memory": 10, "gpu": 1}
    driver.do(nodes(node("n1", NodeAction.UPDATE, vcore=2000)))
    assert driver.views.queues(DEFAULT).max == {"vcore": 2500, "gpu": 1}
    driver.do(nodes(node("n2", NodeAction.DECOMISSION)))
    assert driver.views.queues(DEFAULT).max == {"vcore": 2000}


@pytest.mark.row(33)
@pytest.mark.parametrize("amounts", ["{memory: 10, gpu: 0}", "{gpu: 0}"])
def test_a_zero_forbids_the_type(amounts: str) -> None:
    """Where max says gpu 0, alone or beside memory 10, asks with a gpu never run and others do."""
    queues = f"[{{name: a, resources: {{max: {amounts}}}}}]"
    driver = started(queues, "root.a", vcore=9000, memory=100, gpu=4)
    effects = driver.do(
        asks(ask("app-0", "with", memory=1, gpu=1), ask("app-0", "without", memory=1))
    )
    assert keys(effects) == ["without"]


@pytest.mark.row(34)
def test_a_type_that_max_does_not_name_is_not_limited() -> None:
    """A queue with a maximum of memory alone takes as many cores as the cluster has."""
    queues = "[{name: a, resources: {max: {memory: 10}}}]"
    driver = started(queues, "root.a", vcore=9000, memory=100)
    effects = driver.do(asks(*wave("app-0", 12, vcore=1000)))
    assert len(keys(effects)) == 9


@pytest.mark.row(86)
def test_a_parent_limits_its_leaves_together() -> None:
    """With a parent's maximum of 10 two leaves never have more than 10 together."""
    queues = "[{name: p, resources: {max: {memory: 10}}, queues: [{name: a}, {name: b}]}]"
    driver = started(queues, "root.p.a", "root.p.b", memory=100)
    effects = driver.do(asks(*wave("app-0", 9, memory=1)), asks(*wave("app-1", 9, memory=1)))
    assert len(keys(effects)) == 10
    assert driver.views.queue(DEFAULT, "root.p").allocated == {"memory": 10}


@pytest.mark.row(87)
def test_siblings_share_by_their_guarantees() -> None:
    """Two leaves with guarantees of 1 and 3 and endless asks get 1 and 3 parts, at any time."""
    queues = (
        "[{name: a, resources: {guaranteed: {memory: 10}}},"
        " {name: b, resources: {guaranteed: {memory: 30}}}]"
    )
    driver = started(queues, "root.a", "root.b", memory=80)
    driver.send(asks(*wave("app-0", 100, memory=1), *wave("app-1", 100, memory=1)))
    order = [app_id for app_id, _, _ in placed(driver.run())]
    assert Counter(order) == {"app-0": 20, "app-1": 60}
    for end in range(4, 81, 4):
        assert abs(3 * order[:end].count("app-0") - order[:end].count("app-1")) <= 4


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
    queues = (
        "[{name: a, resources: {max: {memory: 10}}}, {name: b, resources: {max: {memory: 30}}}]"
    )
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


@pytest.mark.row(90)
def test_an_offset_lifts_a_queue_above_its_siblings() -> None:
    """With asks of equal priority the queue with an offset of 10 is served before the other."""
    queues = "[{name: a}, {name: b, properties: {priority.offset: '10'}}]"
    driver = started(queues, "root.a", "root.b", memory=4)
    driver.send(asks(*wave("app-0", 4, memory=1), *wave("app-1", 3, memory=1)))
    order = [app_id for app_id, _, _ in placed(driver.run())]
    assert order == ["app-1", "app-1", "app-1", "app-0"]


@pytest.mark.row(90)
def test_priorities_do_not_leak_out_of_a_fence() -> None:
    """However high the priorities inside a fence are, outside the queue counts by its offset."""
    queues = "[{name: a, properties: {priority.policy: fence, priority.offset: '1'}}, {name: b}]"
    driver = started(queues, "root.a", "root.b", memory=3)
    driver.send(asks(*wave("app-0", 2, 1000, memory=1), *wave("app-1", 2, 2, memory=1)))
    assert keys(driver.run()) == ["app-1-0", "app-1-1", "app-0-0"]


@pytest.mark.row(102)
def test_parents_are_always_fair() -> None:
    """A sort policy written on a parent changes nothing for its children: they share."""
    queues = (
        "[{name: p, properties: {application.sort.policy: fifo}, queues: [{name: a}, {name: b}]}]"
    )
    driver = started(queues, "root.p.a", "root.p.b", memory=10)
    driver.send(asks(*wave("app-0", 9, memory=1)))
    driver.send(asks(*wave("app-1", 9, memory=1)))
    assert Counter(app_id for app_id, _, _ in placed(driver.run())) == {"app-0": 5, "app-1": 5}


@pytest.mark.row(104)
def test_an_empty_dynamic_queue_disappears() -> None:
    """A queue made by placement is gone ten seconds after its last application at the latest."""
    driver = Driver()
    rules = "placementrules: [{name: provided, create: true}]"
    driver.do(register(config("[{name: a}]", rest=rules)), apps(app("app-0", "root.made.here")))
    assert not driver.views.queue(DEFAULT, "root.made.here").is_managed
    driver.do(remove_apps("app-0"))
    driver.wait(10.0)
    for gone in ("root.made.here", "root.made"):
        with pytest.raises(NotFound):
            driver.views.queue(DEFAULT, gone)
    assert driver.views.queue(DEFAULT, "root.a").is_managed


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
