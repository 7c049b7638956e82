"""Fairness with memory: queues and users are ordered by past usage."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from math import log

import pytest

from licorne_core.extensions.fair_memory import NAME
from licorne_core.extensions.fair_memory.decayed import Decayed
from licorne_core.extensions.fair_memory.extension import FairMemory
from licorne_core.extensions.fair_memory.messages import UsageOwner
from licorne_core.messages.commands import NodeAction
from licorne_core.messages.effects import Effect
from licorne_core.messages.kept import KeptByPartition
from licorne_core.values.ids import QueuePath, RmId
from licorne_core.values.slices import Tuning
from support.core.builders import (
    app,
    apps,
    ask,
    asks,
    config,
    node,
    nodes,
    register,
    release,
    releases,
    reload,
)
from support.core.driver import START, Driver, placed
from support.core.dropped import DEFAULT, drop_partition, drop_queue, started
from support.core.steps import listed

HALF_LIFE = 60.0
QUEUES = "[{name: a}, {name: b}]"


class Cluster:
    """A cluster with room for a number of asks at a time, each of which runs for a fixed time."""

    def __init__(self, text: str, slots: int, *, tuning: Tuning | None = None) -> None:
        """Register, and submit an application to each queue."""
        self.driver = Driver(tuning=tuning, sweep=50)
        self.driver.do(register(text), nodes(node("n1", vcore=slots)))
        self.asked = 0
        self.running: list[tuple[float, str, str]] = []
        self.order: list[str] = []

    def want(self, app_id: str, count: int) -> None:
        """Submit this number of further asks of an application."""
        keys = [f"k{self.asked + number:05}" for number in range(count)]
        self.asked += count
        self._follow(self.driver.do(asks(*(ask(app_id, key, vcore=1) for key in keys))), 0.0)

    def run(self, until: float, each: float) -> None:
        """Run until a time; each allocation ends after this number of seconds."""
        driver = self.driver
        while True:
            ends = [end for end, _, _ in self.running]
            now = min([until, *ends])
            self._follow(driver.wait(now - driver.now), each)
            over = [(app_id, key) for end, app_id, key in self.running if end <= now]
            if not over and now >= until:
                return
            self.running = [one for one in self.running if one[0] > now]
            for app_id, key in over:
                self._follow(driver.do(releases(release(app_id, key))), each)

    def _follow(self, effects: Iterable[Effect], each: float) -> None:
        for app_id, key, _ in placed(effects):
            self.order.append(app_id)
            self.running.append((self.driver.now + each, app_id, key))


def account_of(driver: Driver, owner: UsageOwner) -> Decayed:
    """The account of a queue, or of a user in it."""
    own = driver.scheduler.partitions[DEFAULT].points.named(NAME)
    assert isinstance(own, FairMemory)
    return own.usage[owner]


def decayed(driver: Driver, path: str, user: str = "") -> float:
    """The present decayed usage of a queue, or of a user in it, in thousandths of a core times seconds."""
    return account_of(driver, UsageOwner(QueuePath(path), user)).at(driver.now).get("vcore", 0.0)


def test_queues_are_ordered_by_past_usage() -> None:
    """After a queue has run alone for a half-life, its sibling runs until both sums are equal."""
    each = 2.0
    cluster = Cluster(config(QUEUES, properties=f"{{fairshare.half-life: {HALF_LIFE:g}s}}"), 1)
    driver = cluster.driver
    driver.do(apps(app("a", "root.a"), app("b", "root.b")))
    cluster.want("a", 200)
    cluster.running = [(driver.now + each, *one[1:]) for one in cluster.running]
    cluster.run(START + 60.0, each)
    assert set(cluster.order) == {"a"}
    # A has used the only slot for a half-life. From now on only B runs, until its sum is equal.
    a_sum = HALF_LIFE / log(2) * 0.5
    assert decayed(driver, "root.a") == pytest.approx(a_sum, rel=1e-6)
    cluster.want("b", 200)
    begin = len(cluster.order)
    cluster.run(START + 240.0, each)
    ran = cluster.order[begin:]
    # Both sums are equal after s seconds: a_sum * 2^-s/H = H / ln 2 * (1 - 2^-s/H).
    meet = HALF_LIFE * log(1 + a_sum * log(2) / HALF_LIFE) / log(2)
    lead = ran.index("a", 2) if "a" in ran[:2] else ran.index("a")
    assert abs(lead - meet / each) <= 1.5
    after = ran[lead:]
    assert all(abs(after[:n].count("a") - after[:n].count("b")) <= 1 for n in range(len(after)))


def test_running_allocations_raise_past_usage_between_two_decisions() -> None:
    """While an allocation runs, the usage of its queue rises above the older usage of another queue."""
    driver = Driver()
    driver.do(
        register(config("[{name: a}, {name: b}, {name: c}]", properties="{fairshare.half-life: 1h}")),
        nodes(node("n1", vcore=2)),
        apps(app("a", "root.a"), app("b", "root.b"), app("c", "root.c")),
        asks(ask("c", "c-1", vcore=1), ask("a", "a-1", vcore=1)),
    )
    driver.wait(20.0)
    driver.do(releases(release("a", "a-1")))
    driver.do(asks(ask("b", "b-1", vcore=1)))
    driver.do(asks(ask("a", "a-2", vcore=1), ask("b", "b-2", vcore=1)))
    driver.wait(60.0)
    assert [key for _, key, _ in placed(driver.do(releases(release("c", "c-1"))))] == ["a-2"]


def test_usage_is_divided_by_the_weight() -> None:
    """Siblings of weights 1 and 0.25 run four asks to one; a sibling of weight 0 only if no other waits."""
    queues = (
        "[{name: a}, {name: b, properties: {fairshare.weight: '0.25'}}, "
        "{name: c, properties: {fairshare.weight: '0'}}]"
    )
    cluster = Cluster(config(queues, properties="{fairshare.half-life: 1h}"), 1)
    cluster.driver.do(apps(app("a", "root.a"), app("b", "root.b"), app("c", "root.c")))
    cluster.want("c", 20)
    cluster.want("a", 300)
    cluster.want("b", 300)
    cluster.running = [(START + 2.0, *one[1:]) for one in cluster.running]
    cluster.run(START + 400.0, 2.0)
    ran = cluster.order[1:]
    assert "c" not in ran
    assert ran.count("a") / ran.count("b") == pytest.approx(4.0, rel=0.1)


def test_users_of_a_fair_leaf_are_ordered_by_past_usage() -> None:
    """A user without usage precedes a user with past usage if both submit at the same time."""
    text = config(
        "[{name: a, properties: {application.sort.policy: fair, fairshare.half-life: 60s}}]",
    )
    cluster = Cluster(text, 1)
    driver = cluster.driver
    driver.do(apps(app("old", "root.a", user="ann")))
    cluster.want("old", 1)
    cluster.running = [(driver.now + 5.0, *one[1:]) for one in cluster.running]
    driver.do(apps(app("a-next", "root.a", user="ann"), app("b-next", "root.a", user="bob")))
    cluster.want("a-next", 3)
    cluster.want("b-next", 3)
    cluster.run(START + 16.0, 5.0)
    assert cluster.order == ["old", "b-next", "a-next", "b-next"]
    assert decayed(driver, "root.a", "bob") > decayed(driver, "root.a", "ann") * 0.4


def test_users_without_past_usage_are_ordered_by_present_usage() -> None:
    """A user with one application receives as much as a user with nine."""
    text = config("[{name: a, properties: {application.sort.policy: fair, fairshare.half-life: 1h}}]")
    driver = Driver()
    driver.do(register(text), nodes(node("n1", vcore=20)), apps(app("ann", "root.a", user="ann")))
    driver.do(apps(*(app(f"ben{number}", "root.a", user="ben") for number in range(9))))
    names = ["ann", *(f"ben{number}" for number in range(9))]
    made = (ask(name, f"{name}-{number}", vcore=1) for name in names for number in range(20))
    assert [app_id for app_id, *_ in placed(driver.do(asks(*made)))].count("ann") == 10


def test_a_dynamic_queue_that_is_created_again_has_its_past_usage() -> None:
    """A dynamic queue that was removed when empty has its usage when it is created again."""
    text = config(
        "[{name: a, parent: true}]",
        properties="{fairshare.half-life: 1h}",
        rest="placementrules: [{name: provided, create: true}]",
    )
    driver = Driver()
    driver.do(register(text), nodes(node("n1", vcore=4)), apps(app("x", "root.a.ann")))
    driver.do(asks(ask("x", "k1", vcore=4)))
    driver.wait(100.0)
    driver.do(releases(release("x", "k1")))
    driver.wait(3600.0)
    assert driver.scheduler.partitions[DEFAULT].tree.get("root.a.ann") is None
    driver.do(apps(app("y", "root.a.ann")))
    assert decayed(driver, "root.a.ann") == pytest.approx(400 / 2, rel=0.02)


def memory_of(driver: Driver) -> KeptByPartition:
    """The state retained for the RM's partitions."""
    driver.views.now = lambda: driver.now
    return dict(listed(driver.views.memory(RmId("rm1"))))


def test_past_usage_outlives_the_registration() -> None:
    """A core that continues from state 45 seconds old has the usage within one percent."""
    text = config("[{name: a}]", properties="{fairshare.half-life: 60s}")
    first = Driver()
    first.do(register(text), nodes(node("n1", vcore=4)), apps(app("x", "root.a")))
    first.do(asks(ask("x", "k1", vcore=3)))
    first.wait(90.0)
    memory = memory_of(first)
    first.wait(45.0)
    second = Driver()
    second.now = first.now
    second.do(replace(register(text), memory=memory), nodes(node("n1", vcore=4)), apps(app("x", "root.a")))
    assert decayed(second, "root.a") == pytest.approx(decayed(first, "root.a"), rel=0.01)
    second.do(asks(ask("x", "k1", vcore=3, on_node="n1")))
    for driver in (first, second):
        driver.wait(100.0)
    assert decayed(second, "root.a") == pytest.approx(decayed(first, "root.a"), rel=0.01)


def test_usage_from_long_ago_is_not_extrapolated() -> None:
    """Usage is counted for at most ten minutes after the state was saved; afterwards it only decays."""
    text = config(QUEUES, properties="{fairshare.half-life: 1h}")
    first, second = Driver(), Driver()
    first.do(register(text), nodes(node("n1", vcore=4)), apps(app("x", "root.a")))
    first.do(asks(ask("x", "k1", vcore=4)))
    memory = memory_of(first)
    second.now = first.now + 600.0 + 3600.0
    second.do(replace(register(text), memory=memory))
    at_most = 4 * 3600 / log(2) * (1 - 0.5 ** (600 / 3600))
    assert decayed(second, "root.a") == pytest.approx(at_most / 2, rel=1e-6)


@pytest.mark.parametrize("tuning", [Tuning(), Tuning(fill_work=1), Tuning(slice_size=1)])
def test_the_slice_size_does_not_change_the_order(tuning: Tuning) -> None:
    """The size of slices, and with it the number of turns, changes neither the order nor a total."""

    def play(how: Tuning | None) -> tuple[list[str], float]:
        cluster = Cluster(config(QUEUES, properties="{fairshare.half-life: 10s}"), 3, tuning=how)
        cluster.driver.do(apps(app("a", "root.a"), app("b", "root.b")))
        cluster.want("a", 60)
        cluster.run(cluster.driver.now + 7.3, 1.7)
        cluster.want("b", 60)
        cluster.run(cluster.driver.now + 20.0, 1.7)
        return cluster.order, decayed(cluster.driver, "root.a")

    assert play(tuning) == play(None)


def test_the_order_of_users_follows_the_size_of_the_cluster() -> None:
    """The order of users follows a change of the cluster's size in the same turn."""
    driver = Driver()
    text = config("[{name: a, properties: {application.sort.policy: fair, fairshare.half-life: 1h}}]")
    driver.do(register(text), nodes(node("n1", vcore=4, gpu=4)))
    driver.do(apps(app("x", "root.a", user="ann"), app("y", "root.a", user="bob")))
    driver.do(asks(ask("x", "k1", gpu=1)), asks(ask("y", "k2", vcore=2)))
    driver.wait(100.0)
    assert not placed(driver.do(asks(ask("x", "k3", vcore=3), ask("y", "k4", vcore=3))))
    # Ann has a quarter of all GPUs and Bob half of the cores; later Ann has all GPUs, and Bob less than half.
    smaller = nodes(node("n1", NodeAction.UPDATE, vcore=5, gpu=1))
    assert placed(driver.do(smaller)) == [("y", "k4", "n1")]


@pytest.mark.parametrize("drop", [drop_queue, drop_partition])
def test_decayed_usage_outlives_a_reload(drop: Callable[[Driver], None]) -> None:
    """Usage of a queue and its users decays while reloads leave the queue out, and counts again later."""
    text = config(
        "[{name: a, properties: {application.sort.policy: fair}}]", properties="{fairshare.half-life: 1h}"
    )
    driver, same = started(text, gpu=6), started(text, gpu=6)
    for one in (driver, same):
        one.wait(600.25)
        one.do(releases(release("x", "k1")))
    drop(driver)
    driver.do(reload(text))
    same.wait(driver.now - same.now)
    for owner in (UsageOwner(QueuePath("root.a"), ""), UsageOwner(QueuePath("root.a"), "ann")):
        sums = [account_of(one, owner).at_step(int(driver.now))["gpu"] for one in (driver, same)]
        assert sums[0] == pytest.approx(sums[1], rel=1e-9)
        assert sums[0] > 0


def test_decayed_usage_outlives_a_disabled_half_life() -> None:
    """A half-life that is disabled and enabled again does not remove usage."""
    text = config("[{name: a}]", properties="{fairshare.half-life: 1h}")
    driver = started(text, gpu=6)
    driver.wait(600.0)
    driver.do(reload(config("[{name: a}]")))
    driver.wait(3600.0)
    driver.do(reload(text))
    report = driver.views.queue(DEFAULT, "root.a").extended["fair_share"]
    assert report is not None
    # The hour without a half-life adds nothing, and halves the usage before it.
    assert report.decayed["gpu"] == pytest.approx(0.5 * 600 / 3600 * 6, rel=0.06)
