"""For equal asks that preempt at the same time the fewest victims are stopped."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from random import Random

import pytest

from licorne_core.messages.commands import TerminationType
from licorne_core.messages.effects import Effect
from licorne_core.model.apps.requests import RequestState
from licorne_core.standard.preemption.laws import Law
from licorne_core.standard.preemption.search import SearchRefusal
from licorne_core.values.asks import Ask
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, release, releases
from support.core.driver import START, Driver, placed, released
from support.oracle.together import AsOne
from support.preemption.asking import ENDLESS, keys
from support.preemption.brute_force import BruteForce
from support.preemption.building import build
from support.preemption.drawing import Drawing
from support.preemption.records import Cluster
from support.seeds import lively
from support.worlds import Step, compare
from support.worlds.playing import REST

EQUALS = 3
DELAY = 1
WHY = TerminationType.PREEMPTED_BY_SCHEDULER


def town(queues: str, sizes: list[int], properties: str = "") -> Driver:
    """Nodes of these sizes in bytes, and queues whose asks preempt after a second."""
    driver = Driver()
    text = config(f"[{{name: mine, resources: {{guaranteed: {{memory: 99}}}}{properties}}}, {queues}]")
    driver.do(register(text.replace("submitacl: '*'", "submitacl: '*', properties: {preemption.delay: 1s}")))
    driver.do(nodes(*[node(f"n{number}", memory=size) for number, size in enumerate(sizes)]))
    driver.do(apps(app("mine", "root.mine")))
    return driver


def full(number: int, size: int, properties: str = "") -> Driver:
    """A core with this number of nodes, each filled by one job of a queue without a guarantee."""
    driver = town(f"{{name: others, properties: {{{properties}}}}}", [size] * number)
    driver.do(apps(app("others", "root.others")))
    jobs = [ask("others", f"j{n}", policy="s", on_node=f"n{n}", memory=size) for n in range(number)]
    driver.do(asks(*jobs))
    return driver


def want(driver: Driver, *keys: str, size: int = 1) -> list[Effect]:
    """Submit asks that may preempt."""
    return driver.do(asks(*[ask("mine", key, policy="o", memory=size) for key in keys]))


def obeyed(driver: Driver, effects: list[Effect]) -> tuple[list[str], list[str]]:
    """Confirm stops until no more are requested; return the victims, and the placed asks."""
    gone, started = [], [key for _, key, _ in placed(effects)]
    while told := released(effects):
        gone += [key for _, key, *_ in told]
        effects = driver.do(releases(*[release(app_id, key, why=WHY) for app_id, key, *_ in told]))
        started += [key for _, key, _ in placed(effects)]
    return gone, started


def test_one_large_job_is_stopped_for_six_small_asks() -> None:
    """Room of the first victim that the first ask does not need is promised to the other asks."""
    driver = full(6, 8)
    want(driver, *"abcdef")
    gone, started = obeyed(driver, driver.wait(DELAY))
    assert len(gone) == 1
    assert sorted(started) == [*"abcdef"]


def test_explain_names_the_victim_of_a_promise() -> None:
    """All asks with a promise in the room of a victim are explained as waiting for that victim."""
    driver = full(2, 8)
    want(driver, "a", "b")
    driver.wait(DELAY)
    told = {driver.explain("mine", key).summary for key in "ab"}
    assert told == {"node n0 is kept for it, and waits for the end of others/j0"}


def test_present_victims_are_used_first() -> None:
    """Asks submitted while the first ask waits for its victim cause no further stop."""
    driver = full(3, 3)
    effects: list[Effect] = []
    for key in "abc":
        want(driver, key)
        effects += driver.wait(0.3)
    effects += driver.wait(2 * DELAY)
    gone, started = obeyed(driver, effects)
    assert len(gone) == 1
    assert sorted(started) == [*"abc"]


def test_the_room_of_a_victim_is_promised_once() -> None:
    """If two promises leave too little room for a third ask, another job is stopped."""
    driver = full(3, 5)
    driver.do(nodes(node("small0", memory=1), node("small1", memory=1)))
    want(driver, "a", "b", size=2)
    want(driver, "c", size=3)
    gone, started = obeyed(driver, driver.wait(DELAY))
    assert len(gone) == 2
    assert sorted(started) == ["a", "b", "c"]


def test_promised_room_is_not_used_by_other_asks() -> None:
    """Other asks may use only the part of a victim's room that is not promised."""
    driver = full(1, 3)
    want(driver, "a", "b")
    driver.do(asks(ask("others", "x", memory=1), ask("others", "y", memory=1)))
    _, started = obeyed(driver, driver.wait(DELAY))
    assert sorted(started) == ["a", "b", "x"]


def test_no_victim_is_stopped_for_asks_that_may_not_run() -> None:
    """If only one of two applications may start, a small job is stopped, not the large job for both."""
    driver = town("{name: others}", [2, 2, 8], ", maxapplications: 1")
    driver.do(apps(app("others", "root.others"), app("b", "root.mine"), app("c", "root.mine")))
    driver.do(
        asks(
            *[ask("others", f"j{n}", policy="s", on_node=f"n{n}", memory=m) for n, m in enumerate([2, 2, 8])]
        )
    )
    driver.do(asks(*[ask(one, one, policy="o", memory=2) for one in "bc"]))
    assert obeyed(driver, driver.wait(DELAY)) == (["j0"], ["b"])


def test_no_victim_is_stopped_for_asks_that_would_delay_a_start() -> None:
    """If a shadow start leaves room under the maximum for one of two asks, a small job is stopped for one."""
    driver = Driver()
    amounts = "{guaranteed: {memory: 6}, max: {memory: 6}}"
    mine = leaf("mine", "reserve.after: 1h", 0)
    p = f"{{name: p, resources: {amounts}, queues: [{mine}, {{name: second}}]}}"
    properties = "{backfill: easy, preemption.delay: 1s}"
    driver.do(register(config(f"[{p}, {{name: others}}]", properties=properties)))
    driver.do(nodes(*[node(f"n{number}", memory=size) for number, size in enumerate([1, 1, 8, 7])]))
    owners = {"mine": "root.p.mine", "second": "root.p.second", "others": "root.others"}
    driver.do(apps(*[app(app_id, queue) for app_id, queue in owners.items()]))
    sizes = enumerate([1, 1, 8])
    driver.do(asks(*[ask("others", f"j{n}", policy="s", on_node=f"n{n}", memory=m) for n, m in sizes]))
    ends = {"licorne/runtime": "100"}
    driver.do(asks(ask("others", "beside", memory=5, tags=ends), ask("second", "runs", memory=2, tags=ends)))
    driver.do(asks(ask("second", "large", memory=5)))
    want(driver, "a", "b")
    assert obeyed(driver, driver.wait(DELAY)) == (["j0"], ["a"])
    assert "MAXIMUM_HELD" in [one.code for one in driver.explain("mine", "b").checks]


def test_a_victim_under_notice_frees_no_room_for_others() -> None:
    """Room of a victim under notice, which may be spared, is promised to no other ask."""
    driver = full(2, 8, "preemption.notice: 60s")
    want(driver, "a")
    driver.wait(DELAY)
    want(driver, "b")
    driver.wait(DELAY)
    driver.do(releases(release("mine", "a")))
    gone, started = obeyed(driver, driver.wait(60))
    assert len(gone) == 1
    assert started == ["b"]


@pytest.mark.parametrize(("properties", "stopped"), [("", 2), ("preemption.notice: 60s", 4)])
def test_two_larger_jobs_are_stopped_for_four_asks(properties: str, stopped: int) -> None:
    """Two jobs of size 2 are stopped, not four of size 1; with a notice each ask has its own victim."""
    driver = town(f"{{name: others, properties: {{{properties}}}}}", [1, 1, 1, 1, 4])
    driver.do(apps(app("others", "root.others"), app("more", "root.mine")))
    small = [ask("others", f"j{n}", policy="s", on_node=f"n{n}", memory=1) for n in range(4)]
    large = [ask("others", f"l{n}", policy="s", on_node="n4", memory=2) for n in range(2)]
    driver.do(asks(*small, *large))
    driver.do(asks(*[ask("more", key, policy="o", memory=1) for key in "ab"]))
    want(driver, "c", "d")
    effects = driver.wait(DELAY)
    gone, started = obeyed(driver, effects if stopped == 2 else driver.wait(60))
    assert (len(gone), sorted(started)) == (stopped, [*"abcd"])


def test_an_exclusive_reservation_is_not_shared() -> None:
    """With exclusive reservations no other ask may use the room of a victim."""
    driver = town("{name: others}", [8, 8], ", properties: {reservation.exclusive: 'true'}")
    driver.do(apps(app("others", "root.others")))
    driver.do(asks(*[ask("others", f"j{n}", policy="s", on_node=f"n{n}", memory=8) for n in range(2)]))
    want(driver, "a", "b")
    gone, _ = obeyed(driver, driver.wait(DELAY))
    assert len(gone) == 2


@pytest.mark.parametrize(("tags", "stopped"), [({"licorne/started": str(int(START) - 100)}, 1), ({}, 0)])
def test_a_reported_start_counts_for_the_minimum_runtime(tags: dict[str, str], stopped: int) -> None:
    """The runtime of a recovered allocation counts from its start if the RM has reported that."""
    driver = town("{name: others, properties: {preemption.minimum.runtime: 60s}}", [1])
    driver.do(apps(app("others", "root.others")))
    driver.do(asks(ask("others", "j", policy="s", on_node="n0", memory=1, tags=tags)))
    want(driver, "a")
    assert len(released(driver.wait(DELAY))) == stopped


def trio(seed: int) -> Cluster:
    """A random cluster of regular allocations, and three equal asks."""
    drawing = Drawing(seed)
    drawing.by_cost = False
    drawn = drawing.cluster()
    *others, ask = drawn.requests
    regular = [replace(one, originator=False, opted_in=True) for one in others]
    asks = [replace(ask, key=f"ask{n}", predicate=None, hold=None, created=float(n)) for n in range(EQUALS)]
    return replace(drawn, requests=(*regular, *asks))


def served(cluster: Cluster, *, together: bool = True) -> tuple[int, int]:
    """Serve the three asks one after the other; return the numbers of served asks and of victims."""
    starts = stopped = 0
    for number in range(EQUALS):
        built, key = build(cluster), f"ask{number}"
        app, request = built.request(key)
        equals = partial(int, EQUALS - number if together else 1)
        found = built.search.find(app, request, cluster.now, steps=ENDLESS, most=1, equals=equals)
        gone: list[str] = []
        if not isinstance(found, SearchRefusal):
            name, gone = str(found[0].node.node_id), keys(found[0].victims)
        elif found.law is Law.WAITS_FOR_RELEASES:
            tried = BruteForce(cluster, next(one for one in cluster.requests if one.key == key))
            hosts = [one for one in cluster.nodes if tried.may_host(one) and tried.is_enough(one, ())]
            name = min(one.name for one in hosts)
        else:
            continue
        starts, stopped = starts + 1, stopped + len(gone)
        left = [one for one in cluster.requests if one.key not in (*gone, key)]
        (ask,) = [one for one in cluster.requests if one.key == key]
        runs = replace(ask, state=RequestState.ALLOCATED, node=name, started=cluster.now)
        cluster = replace(cluster, requests=(*left, runs))
    return starts, stopped


@pytest.mark.worlds(first=9_100_000, size=100)
def test_equal_asks_stop_the_fewest_victims(part: range) -> None:
    """As many asks as possible are served, with the fewest victims that an exhaustive search finds."""
    better = 0
    for seed in part:
        cluster = trio(seed)
        tried = BruteForce(cluster, cluster.requests[-EQUALS])
        if tried.rules.entitled is None:
            continue
        tries = (AsOne(tried, count) for count in range(EQUALS, 0, -1))
        sets = ((one.number, one.best()) for one in tries if one.rules.is_due())
        most = next(((count, len(found)) for count, found in sets if found is not None), (0, 0))
        starts, stopped = served(cluster)
        assert starts >= most[0], seed
        assert starts > most[0] or stopped == most[1], seed
        better += served(cluster, together=False)[1] > stopped
    assert better > lively(len(part)) // 100


TERMS = ["", "", "preemption.victim.order: cost", "reservation.exclusive: 'true'"]


def leaf(name: str, terms: str, due: int) -> str:
    """A leaf with these properties and this guarantee."""
    return f"{{name: {name}, properties: {{{terms}}}, resources: {{guaranteed: {{memory: {due}}}}}}}"


def crowd(seed: int) -> list[Step]:
    """Steps with a full cluster, and equal preempting asks of several applications, some submitted later."""
    rng = Random(seed)
    due = rng.randint(2, 9)
    kept = [rng.choice([0, rng.randint(1, 6)]) for _ in "bc"]
    most = due + kept[0] + rng.choice([0, 2, 4, 99])
    b, c = [leaf(name, "", amount) for name, amount in zip("bc", kept, strict=True)]
    mine = leaf("mine", rng.choice(TERMS), due)
    p = f"{{name: p, resources: {{max: {{memory: {most}}}}}, queues: [{mine}, {b}]}}"
    text = config(f"[{p}, {c}]", properties="{preemption.delay: 1s}")
    there = [node(f"n{n}", memory=rng.randint(3, 8)) for n in range(rng.randint(2, 4))]
    steps = [Step(START, one) for one in (register(text), nodes(*there))]
    owners = {"m1": "root.p.mine", "m2": "root.p.mine", "b1": "root.p.b", "c1": "root.c"}
    steps.append(Step(START, apps(*[app(app_id, queue) for app_id, queue in owners.items()])))

    def draw(key: str, who: Sequence[str], size: int, now: float) -> Ask:
        policy = "o" if key[0] == "w" else rng.choice(["s", "s", "s", ""])
        origin = rng.random() < 0.1
        return ask(rng.choice(who), key, policy=policy, originator=origin, memory=size, created=now)

    now = START
    for number in range(14):
        now += rng.choice([0.0, 1.0])
        size = rng.choice([1, 1, 2, 3])
        steps.append(Step(now, asks(draw(f"j{number}", ["b1", "c1"], size, now))))
        steps.append(Step(now, REST))
    size = rng.choice([1, 1, 2, 3])
    for number in range(rng.randint(2, 6)):
        wanted = draw(f"w{number}", ["m1", "m2"], size, now - rng.choice([0, 5]))
        steps.append(Step(now, asks(wanted)))
    for _ in range(8):
        now += rng.choice([0.5, 1.0])
        steps.append(Step(now, REST))
    return steps


@pytest.mark.worlds(first=9_200_000, size=20)
def test_core_and_oracle_agree_with_equal_asks(part: range) -> None:
    """Core and oracle agree on equal asks with maxima, guarantees, costs and exclusive reservations."""
    assert sum(compare(crowd(seed)) for seed in part) > 5 * lively(len(part))
