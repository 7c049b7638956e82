"""Estimated starts of asks without a shadow start, by the expected ends of allocations."""

from collections.abc import Mapping

import pytest

from licorne_core.extensions.backfill import projection
from licorne_core.extensions.backfill.extension import starts_of
from licorne_core.extensions.backfill.reports import ExpectedStart
from licorne_core.messages.commands import PredicatePolicy
from licorne_core.model.runtimes import FEWEST_SAMPLES, Confidence
from licorne_core.values.asks import GRACE, Ask, Shape
from licorne_core.values.ids import AllocationKey, AppId, NodeId, PartitionName, QueuePath
from licorne_core.values.tags import RUNTIME
from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.core.driver import START, Driver
from support.core.steps import last

DEFAULT = PartitionName("[rm1]default")
UNKNOWN = (None, Confidence.UNKNOWN)


def core(*sizes: int, queues: str = "[{name: a}]") -> Driver:
    """A core with nodes of these amounts of memory, which learns runtimes."""
    driver = Driver()
    some = (node(f"n{number}", memory=size) for number, size in enumerate(sizes, 1))
    driver.do(
        register(config(queues, properties="{backfill: easy}")), nodes(*some), apps(app("app", "root.a"))
    )
    return driver


def learn(driver: Driver, runtimes: Mapping[int, float], queue: str = "root.a") -> None:
    """Let asks of these sizes run for these numbers of seconds."""
    known = driver.partition.runtimes
    for size, seconds in runtimes.items():
        for _ in range(FEWEST_SAMPLES):
            known.learn(QueuePath(queue), Shape({"memory": size}), seconds)


def expected(driver: Driver, key: str, app_id: str = "app") -> tuple[float | None, str]:
    """The expected start in seconds after the start of the test, None if unknown, and its confidence."""
    start = last(driver.views.listed("expected_start", DEFAULT, app_id, key, driver.now))
    return (start.starts_at - START if start.starts_at else None), start.confidence


def test_an_ask_is_expected_to_start_when_one_node_has_room() -> None:
    """The estimate is the end that frees enough room on one node, not on two nodes together."""
    driver = core(4, 4)
    learn(driver, {3: 100.0, 2: 50.0})
    driver.do(asks(ask("app", "long", memory=3)))
    driver.wait(10)
    driver.do(asks(ask("app", "short", memory=2), ask("app", "wide", memory=4)))
    assert expected(driver, "wide") == (60.0, Confidence.LEARNT)


def test_an_estimate_counts_the_asks_ahead() -> None:
    """Asks ahead use freed room until their own expected ends."""
    driver = core(2)
    learn(driver, {2: 100.0, 1: 30.0})
    driver.do(asks(ask("app", "runs", memory=2)))
    driver.do(asks(*(ask("app", f"k{number}", memory=2) for number in range(3)), ask("app", "one", memory=1)))
    assert [expected(driver, f"k{number}")[0] for number in range(3)] == [100.0, 200.0, 300.0]
    assert expected(driver, "one")[0] == 400.0


def test_an_unknown_runtime_prevents_an_estimate() -> None:
    """An ask that needs the room of an ask ahead with an unknown runtime has no estimate."""
    driver = core(2)
    learn(driver, {2: 100.0})
    driver.do(asks(ask("app", "runs", memory=2)))
    driver.do(asks(ask("app", "odd", memory=1), ask("app", "small", memory=1), ask("app", "wide", memory=2)))
    assert expected(driver, "odd")[0] == 100.0
    assert expected(driver, "small")[0] == 100.0
    assert expected(driver, "wide") == UNKNOWN


def test_an_overdue_allocation_is_expected_to_end_soon() -> None:
    """An allocation beyond its expected runtime counts as ending soon, never at once."""
    driver = core(2)
    learn(driver, {2: 100.0})
    driver.do(asks(*(ask("app", key, memory=2) for key in ("runs", "first", "second"))))
    driver.wait(99)
    assert expected(driver, "second") == (200.0, Confidence.LEARNT)
    driver.wait(2 * GRACE)
    assert expected(driver, "second") == (200.0 + 2 * GRACE, Confidence.LEARNT)


def test_an_ask_blocked_by_a_maximum_has_an_estimate() -> None:
    """An ask blocked by the maximum of its queue is expected to start when usage in the queue ends."""
    driver = core(9, queues="[{name: a, resources: {max: {memory: 2}}}]")
    learn(driver, {2: 100.0})
    driver.do(asks(ask("app", "runs", memory=2), ask("app", "waits", memory=2)))
    assert expected(driver, "waits") == (100.0, Confidence.LEARNT)


def test_members_of_a_gang_have_the_same_estimate() -> None:
    """All members are expected to start when the whole gang has room, not when the first of them has."""
    driver = core(2, 2, 2)
    learn(driver, {2: 100.0, 1: 50.0})
    driver.do(asks(ask("app", "a", memory=2), ask("app", "b", memory=1), ask("app", "c", memory=1)))
    driver.wait(10)
    driver.do(asks(ask("app", "d", memory=2)))
    members = (ask("gang", f"p{n}", memory=2, placeholder=True, group="g") for n in range(3))
    driver.do(apps(app("gang", "root.a", gang={"memory": 6})))
    driver.do(asks(*members))
    assert [expected(driver, f"p{n}", "gang")[0] for n in range(3)] == [150.0] * 3


def test_a_gang_for_one_domain_starts_when_that_has_room() -> None:
    """A gang without a shadow start is expected when one rack has room, not when two racks together have."""
    driver = Driver()
    properties = "{backfill: easy, topology.levels: rack}"
    driver.do(register(config("[{name: a}]", properties=properties)), apps(app("app", "root.a")))
    for name, rack, seconds in (("n1", "r1", 10), ("n2", "r2", 20), ("n3", "r2", 30), ("n4", "", 40)):
        driver.do(nodes(node(name, attributes={"rack": rack}, memory=2)))
        driver.do(asks(ask("app", name, memory=2, tags={RUNTIME: str(seconds)})))
    for name in ("first", "second"):
        tags = {"licorne/topology": "required=rack", RUNTIME: "100"}
        driver.do(apps(app(name, "root.a", gang={"memory": 4}, tags=tags)))
        driver.do(asks(*(ask(name, f"p{n}", memory=2, placeholder=True, group="g") for n in range(2))))
    assert expected(driver, "p0", "first")[0] == 30.0
    assert expected(driver, "p0", "second")[0] == 130.0


def test_an_ask_that_requires_a_node_is_expected_there() -> None:
    """Room on other nodes does not help an ask that requires its node."""
    driver = core(2, 2)
    learn(driver, {2: 100.0})
    driver.do(asks(ask("app", "k1", memory=2)))
    driver.wait(10)
    driver.do(asks(ask("app", "k2", memory=2)))
    (busy,) = driver.partition.nodes.by_id[NodeId("n2")].allocations
    driver.do(asks(ask("app", "own", memory=2, required_node="n2")))
    assert (busy.key, expected(driver, "own")[0]) == ("k2", 110.0)


def test_an_ask_that_would_delay_a_shadow_start_is_expected_after_the_holder() -> None:
    """An ask that does not end in time is expected at the end of the holder; one that does starts at once."""
    driver = core(4)

    def job(key: str, size: int, seconds: int) -> Ask:
        return ask("app", key, memory=size, tags={"licorne/runtime": str(seconds)})

    driver.do(asks(job("runs", 3, 100)), asks(job("holder", 4, 50)))
    driver.send(asks(job("long", 1, 101), job("short", 1, 100)))
    assert expected(driver, "holder") == (100.0, Confidence.DECLARED)
    assert expected(driver, "long") == (150.0, Confidence.DECLARED)
    assert expected(driver, "short") == (0.0, Confidence.DECLARED)


@pytest.mark.parametrize("most", [1, 2, 3, 5, 8])
def test_an_estimate_is_bounded_in_work(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An estimate that would examine too much gives no number, and pauses on its way."""
    driver = core(*[1] * 20)
    learn(driver, {1: 100.0})
    driver.do(asks(*(ask("app", f"k{number:02}", memory=1) for number in range(22))))
    monkeypatch.setattr(projection, "STEP", 1)

    def steps() -> list[ExpectedStart | None]:
        return list(driver.views.listed("expected_start", DEFAULT, "app", "k21", driver.now))

    *pauses, found = steps()
    assert (found, len(pauses) > 20) == (ExpectedStart(starts_at=START + 100.0, confidence="learnt"), True)
    monkeypatch.setattr(projection, "MOST_LOOKS", most)
    *pauses, found = steps()
    assert (found, len(pauses) < most + 30) == (ExpectedStart(starts_at=0.0, confidence="unknown"), True)


def test_an_ask_with_too_many_ahead_has_no_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound of work only the number of asks ahead is given; an earlier ask has an estimate."""
    driver = core(1)
    learn(driver, {1: 100.0})
    driver.do(asks(*(ask("app", f"k{number:02}", memory=1) for number in range(40))))
    assert expected(driver, "k39") == (3900.0, Confidence.LEARNT)
    monkeypatch.setattr(projection, "MOST_LOOKS", 100)
    found = last(driver.views.listed("expected_start", DEFAULT, "app", "k39", driver.now))
    assert found == ExpectedStart(starts_at=0.0, confidence="unknown", asks_ahead=37)
    assert expected(driver, "k03") == (300.0, Confidence.LEARNT)


def test_an_estimate_does_not_cost_asks_times_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last of many asks on many nodes has an estimate: full nodes are not examined for each ask."""
    driver = core(*[1] * 60)
    learn(driver, {1: 100.0})
    driver.do(asks(*(ask("app", f"k{number:03}", memory=1) for number in range(300))))
    monkeypatch.setattr(projection, "MOST_LOOKS", 6_000)
    assert expected(driver, "k299") == (400.0, Confidence.LEARNT)


def waiting_for_one_end(on_nodes: int, running: int, classes: int) -> Driver:
    """Full nodes with equal ends, and waiting asks of this number of classes, each as large as a node."""
    driver = core(*[running] * on_nodes)
    driver.do(
        *[
            asks(
                *(ask("app", f"r{one}", memory=1, tags={RUNTIME: "100"}) for one in range(on_nodes * running))
            )
        ]
    )
    wants = (
        ask("app", f"k{one:02}", memory=running, tags={RUNTIME: str(500 + one)}) for one in range(classes)
    )
    driver.do(asks(*wants))
    return driver


def test_ends_at_the_same_time_are_examined_once_for_each_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 150 allocations that end together on a node, the last of 20 classes still has an estimate."""
    driver = waiting_for_one_end(1, 150, 20)
    monkeypatch.setattr(projection, "MOST_LOOKS", 2_500)
    assert expected(driver, "k19")[0] is not None


def test_an_estimate_does_not_exceed_its_bound_of_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound holds even if all nodes are freed at the same time for many classes."""
    driver = waiting_for_one_end(30, 1, 40)
    partition = driver.partition
    own, app = starts_of(partition), partition.applications[AppId("app")]
    most = 3_000
    monkeypatch.setattr(projection, "MOST_LOOKS", most)
    guess = projection.Projection(
        partition, own.shadows, own.ends, app, app.requests[AllocationKey("k39")], driver.now
    )
    looks = [guess.looks for _ in guess.steps()]
    assert looks[-1] <= most + 1


def test_an_estimate_says_that_the_rm_was_not_asked() -> None:
    """Only the estimate of an ask that needs a predicate check is marked as made without the RM."""
    driver = core(1)
    policy = PredicatePolicy(deadline=1.0)
    driver.do(register(config("[{name: a}]", properties="{backfill: easy}"), rm="picky", predicates=policy))
    tags = {RUNTIME: "100"}
    driver.do(nodes(node("n1", memory=1), rm="picky"), apps(app("app", "root.a"), rm="picky"))
    driver.do(asks(*(ask("app", f"k{number}", memory=1, tags=tags) for number in range(3)), rm="picky"))
    driver.do(asks(ask("app", "own", memory=1, predicate="P", tags=tags), rm="picky"))
    partition = PartitionName("[picky]default")
    found = [
        last(driver.views.listed("expected_start", partition, "app", key, driver.now))
        for key in ("k2", "own")
    ]
    assert [(one.starts_at > 0.0, one.unasked) for one in found] == [(True, False), (True, True)]
