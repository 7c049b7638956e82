"""Preemption on nodes with planned starts: which keep their nodes, and which give way."""

import pytest

from extensions.backfill.test_shadows import CONSERVATIVE, EASY, at, starts
from licorne_core.messages.commands import NodeAction
from licorne_core.values.asks import Ask
from licorne_core.values.tags import RUNTIME
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
from support.core.driver import Driver, placed, reserved, stopped

QUEUES = (
    "[{name: a}, {name: b, resources: {guaranteed: {vcore: 8m}}, properties: {preemption.delay: 1s}}, "
    "{name: c, resources: {guaranteed: {vcore: 10m, memory: 9}}}]"
)
"""A leaf without a guarantee, one whose asks preempt, and one that holds starts within its guarantee."""

MODES = pytest.mark.parametrize("properties", [EASY, CONSERVATIVE], ids=["easy", "conservative"])


RECLAIMS = QUEUES.replace(
    "resources: {guaranteed: {vcore: 8m}}, properties: {", "properties: {preemption.reclaim: fair-share, "
)
"""The same, but asks of the second leaf preempt up to its fair share alone."""


def world(*sizes: int, properties: str = EASY, queues: str = QUEUES) -> Driver:
    """Nodes of these sizes, and the applications `low`, `due` and `kept` in the three leaves."""
    driver = Driver()
    driver.do(register(config(queues, rest="nodesortpolicy: fair", properties=properties)))
    driver.do(nodes(*(node(f"n{number}", vcore=size, memory=9) for number, size in enumerate(sizes))))
    driver.do(apps(app("low", "root.a"), app("due", "root.b"), app("kept", "root.c")))
    return driver


def job(app_id: str, key: str, vcore: int, seconds: int | None = None, *, priority: int = 0) -> Ask:
    """An ask that may be stopped; one of `due` may preempt."""
    tags = {} if seconds is None else {RUNTIME: str(seconds)}
    policy = "os" if app_id == "due" else "s"
    return ask(app_id, key, vcore=vcore, policy=policy, tags=tags, priority=priority)


def after(driver: Driver, seconds: float) -> list[str]:
    """Wait, and confirm all stops; return the victims and the asks that start in their room."""
    victims = stopped(driver.wait(seconds))
    effects = driver.do(releases(*(release("low", key) for key in victims)))
    return [*victims, *(key for _, key, _ in placed(effects))]


@MODES
@pytest.mark.parametrize("holder", ["due", "low"])
def test_a_queue_below_its_guarantee_preempts_on_the_only_node(properties: str, holder: str) -> None:
    """A start of the queue itself is no obstacle; one of a queue that may lose resources is planned again."""
    driver = world(10, properties=properties)
    driver.do(asks(job("low", "long", 6, 500), job("low", "short", 4, 100)))
    if holder == "low":
        driver.do(asks(job("low", "large", 10, 50)))
        assert starts(driver)["large"] == (500.0, ["n0"])
    driver.do(asks(job("due", "waits", 5, 700)))
    assert ("waits" in starts(driver)) is (holder == "due" or properties == CONSERVATIVE)
    assert after(driver, 2.0) == ["long", "waits"]
    assert starts(driver) == ({"large": (702.0, ["n0"])} if holder == "low" else {})


@MODES
def test_a_start_on_all_nodes_gives_way_on_one_of_them(properties: str) -> None:
    """Once the preempting ask is placed on one node, the start of the gang moves as a whole."""
    driver = world(5, 5, properties=properties)
    driver.do(apps(app("gang", "root.a", gang={"vcore": 10})))
    driver.do(asks(job("low", "first", 5, 500), job("low", "second", 5, 100)))
    tags = {RUNTIME: "50"}
    members = [ask("gang", f"g{i}", placeholder=True, group="g", vcore=5, tags=tags) for i in range(2)]
    driver.do(asks(*members))
    assert starts(driver) == {"g0": (500.0, ["n0", "n1"])}
    driver.do(asks(job("due", "waits", 5, 600)))
    (victim,) = stopped(driver.wait(2.0))
    assert starts(driver)["g0"][0] == 500.0
    assert placed(driver.do(releases(release("low", victim))))[0][1] == "waits"
    assert starts(driver)["g0"] == (602.0, ["n0", "n1"])


@pytest.mark.parametrize("size", [2, 3, 8], ids=["fits now", "room for both", "needs all"])
@MODES
def test_a_start_within_a_guarantee_keeps_its_node(properties: str, size: int) -> None:
    """Nothing is stopped there, whatever the ask needs; it waits, and the start begins in time."""
    driver = world(10, properties=properties)
    driver.do(asks(job("low", "short", 5, 100), job("low", "long", 3)))
    driver.do(asks(job("kept", "large", 7, 50)))
    driver.do(asks(job("due", "waits", size)))
    assert after(driver, 5.0) == []
    assert starts(driver)["large"] == (100.0, ["n0"])
    at(driver, 100.0)
    assert placed(driver.do(releases(release("low", "short")))) == [("kept", "large", "n0")]


@pytest.mark.parametrize(
    ("hours", "then"),
    [("13:00-14:00", []), ("14:00-15:00", ["long", "short", "waits"])],
    ids=["open", "closed"],
)
@MODES
def test_a_start_of_a_closed_leaf_gives_way_to_a_guarantee(
    properties: str, hours: str, then: list[str]
) -> None:
    """Within its guarantee, too: it may not start before the opening, and the ask is starved now."""
    queues = QUEUES.replace("{name: c,", f"{{name: c, properties: {{opening.hours: '{hours}'}},")
    driver = world(10, properties=properties, queues=queues)
    driver.do(asks(job("low", "short", 7, 100), job("low", "long", 3, 5000)))
    driver.do(asks(job("kept", "large", 7, 50)))
    assert starts(driver)["large"] == (100.0 if then == [] else 800.0, ["n0"])
    driver.do(asks(job("due", "waits", 8)))
    assert sorted(after(driver, 5.0)) == then


@pytest.mark.parametrize(
    ("holder", "size", "then"),
    [
        ("due", 6, ["large", "long", "waits"]),
        ("due", 7, ["large", "long"]),
        ("kept", 6, ["large", "long", "waits"]),
        ("kept", 7, []),
    ],
)
def test_a_start_within_a_guarantee_is_no_obstacle_if_it_is_not_delayed(
    holder: str, size: int, then: list[str]
) -> None:
    """Its room is left beside the ask, or it is planned after the ask: both asks may preempt on the node."""
    driver = world(10, properties=CONSERVATIVE)
    driver.do(asks(job("low", "long", 10, 1000)))
    driver.do(asks(job(holder, "large", 4, 5000)), asks(job("due", "waits", size, 5000)))
    assert starts(driver)["large"] == (1000.0, ["n0"])
    assert sorted(after(driver, 3.0)) == then


@MODES
def test_an_ask_behind_a_start_within_a_guarantee_preempts_once_the_start_is_gone(properties: str) -> None:
    """The failed search is repeated, although nothing has ended on the node."""
    driver = world(10, properties=properties)
    driver.do(asks(job("low", "short", 7, 100), job("low", "long", 3)))
    driver.do(asks(job("kept", "large", 7, 50)))
    driver.do(asks(job("due", "waits", 8)))
    assert after(driver, 5.0) == []
    driver.do(releases(release("kept", "large")))
    assert sorted(after(driver, 16.0)) == ["long", "short", "waits"]


def test_two_equal_asks_preempt_beside_a_start_within_a_guarantee() -> None:
    """The node of the start is no host for either, and the others are; nor is room there counted for them."""
    driver = world(10, 6)
    driver.do(
        asks(job("low", "short", 4, 100), job("low", "big", 6), job("low", "l1", 3), job("low", "l2", 3))
    )
    driver.do(asks(job("kept", "large", 4, 50)))
    where = starts(driver)["large"][1]
    driver.do(asks(job("due", "one", 3), job("due", "two", 3)))
    effects = driver.wait(3.0)
    for _ in range(2):
        found = placed(driver.do(releases(*(release("low", key) for key in stopped(effects)))))
        assert all(node_id not in where for _, _, node_id in found)
        effects = driver.wait(3.0)
    assert starts(driver)["large"] == (100.0, where)


@pytest.mark.parametrize(("used", "gives_way"), [(6, False), (7, True), (10, True)])
def test_a_start_gives_way_if_its_queue_would_exceed_its_guarantee_with_it(
    used: int, gives_way: bool
) -> None:
    """All amounts of the start count, beside what the queue uses."""
    driver = world(10 + used)
    driver.do(asks(job("low", "other", 10, 36_000), job("kept", "runs", used)))
    driver.do(asks(job("kept", "large", 4, 50)))
    assert starts(driver)["large"][0] == 36_000.0
    driver.do(asks(job("due", "waits", 8)))
    assert after(driver, 3.0) == (["other", "waits"] if gives_way else [])


@pytest.mark.parametrize("held", [True, False], ids=["start", "no start"])
def test_no_start_gives_way_to_a_fair_share(held: bool) -> None:
    """An ask that reclaims its share has victims stopped on nodes without starts only."""
    driver = world(10, queues=RECLAIMS)
    driver.do(asks(job("low", "long", 5, 500), job("low", "short", 5, 100)))
    if held:
        driver.do(asks(job("low", "large", 10, 50)))
    driver.do(asks(job("due", "waits", 5)))
    assert after(driver, 3.0) == ([] if held else ["long", "waits"])


def test_only_types_of_the_start_decide_if_it_gives_way() -> None:
    """A queue above its guarantee of one type keeps its start in another."""
    driver = world(20)
    driver.do(asks(ask("low", "other", vcore=5, memory=9, policy="s", tags={RUNTIME: "100"})))
    driver.do(asks(job("kept", "runs", 11)))
    driver.do(asks(ask("kept", "large", memory=8, tags={RUNTIME: "50"})))
    driver.do(asks(ask("due", "waits", vcore=8, memory=8, policy="os")))
    assert after(driver, 3.0) == []
    assert starts(driver) == {"large": (100.0, ["n0"])}


@pytest.mark.parametrize("since", [0.0, 95.0], ids=["in time", "overdue"])
def test_a_start_that_gives_way_moves_no_other(since: float) -> None:
    """It is planned again beside all others, also if it became overdue while the victim was being stopped."""
    driver = world(10, 10, properties=CONSERVATIVE)
    driver.do(asks(job("low", "first", 10, 100)))
    driver.do(asks(job("low", "second", 10, 300)))
    driver.do(asks(job("low", "yields", 8, 5000)))
    driver.do(asks(job("kept", "large", 8, 50)))
    assert starts(driver) == {"yields": (100.0, ["n0"]), "large": (300.0, ["n1"])}
    at(driver, since)
    driver.do(asks(job("due", "waits", 8, 3000)))
    assert stopped(driver.wait(2.0)) == ["first"]
    driver.wait(9.0)
    assert placed(driver.do(releases(release("low", "first")))) == [("due", "waits", "n0")]
    assert starts(driver) == {"yields": (350.0, ["n1"]), "large": (300.0, ["n1"])}


def test_idle_room_of_a_start_that_gives_way_needs_no_victims() -> None:
    """The ask is placed at once, and the start is planned again."""
    driver = world(10)
    driver.do(asks(job("low", "short", 5, 100), job("low", "long", 3, 5000)))
    driver.do(asks(job("low", "large", 7, 50)))
    driver.do(asks(job("due", "waits", 2)))
    effects = driver.wait(3.0)
    assert (stopped(effects), placed(effects)) == ([], [("due", "waits", "n0")])
    assert starts(driver) == {"large": (5000.0, ["n0"])}


@MODES
def test_an_ask_that_lost_its_node_uses_what_is_promised_to_it_at_its_start(properties: str) -> None:
    """Its promise and its start are below the same maximum, which has no room for both."""

    def bound(vcore: int) -> str:
        queues = QUEUES.replace("10m", "13m")
        pool = f"[{{name: p, resources: {{max: {{vcore: {vcore}m}}}}, queues: {queues}}}]"
        return config(pool, rest="nodesortpolicy: fair", properties=properties)

    driver = Driver()
    driver.do(register(bound(23)), nodes(node("n0", vcore=10), node("n1", vcore=3), node("n2", vcore=10)))
    driver.do(apps(app("low", "root.p.a"), app("due", "root.p.b"), app("kept", "root.p.c")))
    for one in (
        job("low", "big", 8),
        job("kept", "short", 3, 100),
        job("kept", "other", 10),
        job("low", "small", 2),
    ):
        driver.do(asks(one))
    driver.do(asks(job("due", "waits", 2, 50)))
    assert stopped(driver.wait(2.0)) == ["big"]
    driver.do(nodes(node("n0", NodeAction.DECOMISSION)), reload(bound(13)))
    assert starts(driver) == {"waits": (100.0, ["n1"])}
    at(driver, 90.0)
    assert placed(driver.do(releases(release("kept", "short")))) == [("due", "waits", "n1")]


@MODES
def test_an_overdue_start_keeps_its_node_while_an_ask_waits_for_victims_there(properties: str) -> None:
    """It is planned again when the ask is placed, or does not come any more."""
    driver = world(10, properties=properties)
    driver.do(asks(job("low", "short", 5, 100), job("low", "long", 5, 500)))
    driver.do(asks(job("low", "large", 5, 50)))
    at(driver, 99.0)
    driver.do(asks(job("due", "waits", 5)))
    assert len(stopped(driver.wait(2.0))) == 1
    driver.wait(20.0)
    assert starts(driver)["large"] == (100.0, ["n0"])
    driver.do(releases(release("due", "waits")))
    assert starts(driver)["large"] != (100.0, ["n0"])


@pytest.mark.parametrize(
    ("properties", "left"),
    [(EASY, []), ("{reservation.max.nodes: '0'}", ["one"])],
    ids=["start", "reservation"],
)
def test_a_resized_ask_without_a_promise_leaves_a_node_that_others_use(
    properties: str, left: list[str]
) -> None:
    """A planned start, or a first reservation without a promise, is alone on its node but for promises."""
    driver = world(10, properties=properties)
    driver.do(asks(job("low", "short", 6, 100), job("low", "long", 4)))
    driver.do(asks(job("low", "large", 6, 50)))
    driver.do(asks(job("due", "one", 3, 20), job("due", "two", 3, 20)))
    driver.wait(2.0)
    assert reserved(driver).keys() == {"one", "two"}
    driver.send(asks(ask("due", "one", memory=1)))
    driver.send(asks(ask("due", "two", memory=1)))
    assert [*reserved(driver)] == left
