"""Asks preempt up to the fair share of their queue, and all queues keep their shares (docs/reclaiming.md)."""

from random import Random
from typing import Any

import pytest

from licorne_core.messages.commands import TerminationType
from licorne_core.messages.effects import Effect
from licorne_core.messages.preemption import PreemptionRule
from licorne_core.model.apps.requests import RequestState
from licorne_core.standard.preemption.extension import preemption_of
from licorne_core.standard.preemption.keys import RECLAIM
from licorne_core.standard.preemption.laws import Law
from licorne_core.standard.preemption.shares import DueShares, divided
from licorne_core.values.asks import Ask
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
    remove_apps,
)
from support.core.driver import Driver, released
from support.preemption.asking import NOW, A, B, cluster, parent, queue, refusal, runs, served, waits
from support.preemption.building import build
from support.preemption.records import Cluster, NodeRecord, QueueRecord, Size
from support.seeds import lively

C = "root.c"
WHY = TerminationType.PREEMPTED_BY_SCHEDULER


@pytest.mark.parametrize(
    ("amount", "siblings", "parts"),
    [
        pytest.param(40, [(100, 20), (12, 10), (30, 0), (0, 10)], [28, 12, 0, 0], id="the one of the page"),
        pytest.param(40, [(100, 0), (12, 0), (30, 0)], [14, 12, 14], id="equal without guarantees"),
        pytest.param(30, [(100, 10), (100, 5)], [20, 10], id="in proportion to guarantees"),
        pytest.param(31, [(100, 10), (100, 5), (5, 0)], [20, 10, 0], id="what rounding leaves is nobody's"),
        pytest.param(30, [(100, 40), (100, 20), (5, 0)], [20, 10, 0], id="guarantees that exceed it"),
        pytest.param(
            30, [(8, 40), (100, 20)], [8, 20 + 2], id="a guarantee without demand is left to others"
        ),
        pytest.param(30, [(12, 10), (9, 5), (4, 0), (40, 0)], [12, 9, 4, 5], id="what those with one leave"),
        pytest.param(5, [(5, 0), (5, 0)], [2, 2], id="rounded down"),
        pytest.param(0, [(5, 1), (5, 0)], [0, 0], id="nothing"),
    ],
)
def test_amounts_are_divided_fairly(amount: int, siblings: list[tuple[int, int]], parts: list[int]) -> None:
    """Queues with guarantees share in proportion to these; only then the other queues share equally."""
    wanted, due = zip(*siblings, strict=True)
    assert divided(amount, wanted, due) == parts


def fair(path: str, guaranteed: Size | None = None, most: Size | None = None, **settings: Any) -> QueueRecord:
    """A queue whose asks preempt up to its fair share."""
    return queue(path, guaranteed, most, extended=((RECLAIM, True),), **settings)


def usage(world: Cluster, asking: str, number: int = 20) -> dict[str, int]:
    """The usage of the leaves after this number of asks of the queue, each of which preempts if it may."""
    after = served(world, [f"{asking}-w{one}" for one in range(number)])
    return {one.path: after.settled(one.path, "vcore") for one in after.queues if one.is_leaf}


@pytest.mark.parametrize(
    ("queues", "running", "rests"),
    [
        pytest.param([fair(A), queue(B)], {B: 20}, {A: 10, B: 10}, id="half of two"),
        pytest.param([queue(A), queue(B)], {B: 20}, {A: 0, B: 20}, id="nothing without the property"),
        pytest.param(
            [fair(A), queue(B), queue(C)],
            {B: 20},
            {A: 10, B: 10, C: 0},
            id="without demand it does not count",
        ),
        pytest.param(
            [fair(A), queue(B), queue(C)], {B: 15, C: 5}, {A: 7, B: 8, C: 5}, id="at its share it gives none"
        ),
        pytest.param(
            [fair(A, {"vcore": 4}), queue(B, {"vcore": 6})], {B: 20}, {A: 8, B: 12}, id="beside guarantees"
        ),
        pytest.param(
            [fair(A), queue(B, {"vcore": 12}), queue(C)],
            {B: 12, C: 8},
            {A: 4, B: 12, C: 4},
            id="a guarantee is kept",
        ),
        pytest.param(
            [fair(A, most={"vcore": 6}), queue(B)], {B: 20}, {A: 6, B: 14}, id="a maximum below its share"
        ),
        pytest.param(
            [parent("root.p"), fair("root.p.x"), queue("root.p.y"), queue(B)],
            {"root.p.y": 4, B: 16},
            {"root.p.x": 6, "root.p.y": 4, B: 10},
            id="level by level: first from outside",
        ),
        pytest.param(
            [parent("root.p"), fair("root.p.x"), queue("root.p.y"), queue(B), queue(C)],
            {"root.p.y": 8, B: 9, C: 3},
            {"root.p.x": 4, "root.p.y": 4, B: 9, C: 3},
            id="level by level: from inside where the parent has its share",
        ),
        pytest.param(
            [parent("root.p", {"vcore": 8}), fair("root.p.x"), queue("root.p.y"), queue(B, {"vcore": 12})],
            {"root.p.y": 8, B: 12},
            {"root.p.x": 4, "root.p.y": 4, B: 12},
            id="siblings under one guarantee",
        ),
        pytest.param(
            [
                *[parent("root.p"), parent("root.p.q"), fair("root.p.q.x"), queue("root.p.q.y")],
                *[queue("root.p.z"), queue(B)],
            ],
            {"root.p.q.y": 3, "root.p.z": 9, B: 8},
            {"root.p.q.x": 3, "root.p.q.y": 3, "root.p.z": 6, B: 8},
            id="three levels",
        ),
    ],
)
def test_a_queue_that_asks_for_everything_gets_its_fair_share(
    queues: list[QueueRecord], running: dict[str, int], rests: dict[str, int]
) -> None:
    """A leaf that requests all of 20 cores preempts up to its fair share."""
    first = next(iter(rests))
    world = cluster(
        queues,
        *[runs(leaf, *range(number)) for leaf, number in running.items()],
        waits(first, *range(20)),
        vcore=20,
    )
    assert usage(world, first) == rests


def test_amounts_beyond_the_maximum_of_a_queue_are_divided() -> None:
    """Demand of C above its maximum does not count: A and B divide the remaining amount."""
    world = cluster(
        [fair(A), queue(B), queue(C, most={"vcore": 4})],
        *[runs(B, *range(16)), runs(C, *range(4)), waits(A, *range(20)), waits(C, *range(10))],
        vcore=20,
    )
    assert usage(world, A) == {A: 8, B: 8, C: 4}


def test_an_allocation_larger_than_the_excess_is_not_stopped() -> None:
    """B has 10 cores and a share of 7: no job of 5 cores is stopped, although A is below its share."""
    world = cluster(
        [fair(A), queue(B)],
        *[runs(B, 0, 1, vcore=5), runs(A, 0, 1, vcore=2)],
        *[waits(A, 1, 2, 3, vcore=2), waits(B, 1, vcore=5)],
        vcore=15,
    )
    found = refusal(world, f"{A}-w1")
    assert (found.law, found.share, found.settled) == (Law.NOT_ENOUGH, {"vcore": 7}, {"vcore": 4})


def test_a_queue_keeps_its_share_of_the_decisive_resource() -> None:
    """A queue keeps its share of the resource type of which it uses the larger fraction."""
    size = {"vcore": 1, "memory": 5}
    world = cluster(
        [fair(A), queue(B)],
        runs(B, *range(12), size=size),
        waits(A, *range(20), size=size),
        waits(B, *range(20), size=size),
        nodes=(NodeRecord(name="n1", capacity={"vcore": 12, "memory": 96}),),
    )
    after = served(world, [f"{A}-w{number}" for number in range(20)])
    assert [after.settled(path, "vcore") for path in (A, B)] == [6, 6]


def test_a_victim_has_the_decisive_resource() -> None:
    """If B exceeds only its share of GPUs, its jobs without GPUs are not victims."""
    world = cluster(
        [fair(A), fair(B), queue(C)],
        runs(B, *range(10), size={"vcore": 1}, node="n1"),
        runs(B, 20, 21, 22, size={"gpu": 1}, node="n2"),
        runs(C, *range(20), size={"vcore": 1}, node="n2"),
        waits(A, 0, 1, size={"vcore": 1, "gpu": 1}),
        waits(B, *range(4), size={"vcore": 1}),
        nodes=(
            NodeRecord(name="n1", capacity={"vcore": 10, "gpu": 1}),
            NodeRecord(name="n2", capacity={"vcore": 20, "gpu": 3}),
        ),
    )
    after = served(world, [f"{A}-w0", f"{A}-w1"])
    assert [(after.settled(path, "vcore"), after.settled(path, "gpu")) for path in (A, B, C)] == [
        (1, 1),
        (10, 2),
        (19, 0),
    ]


def test_a_gang_preempts_only_if_all_members_are_within_the_shares() -> None:
    """The share of the parent has room for one of three placeholders, and its other child is protected.

    No victim is stopped for the first placeholder, because the others would find none.
    """
    driver = Driver()
    p = (
        "{name: p, queues: [{name: x, properties: {preemption.delay: 1s, preemption.reclaim: fair-share}}, "
        "{name: y, properties: {preemption.policy: disabled}}]}"
    )
    driver.do(register(config(f"[{p}, {{name: b}}, {{name: c}}]")), nodes(node("n1", memory=20)))
    driver.do(apps(app("y", "root.p.y"), app("b", "root.b"), app("c", "root.c")))
    for key, counts in (("r", {"y": 5, "b": 13, "c": 2}), ("w", {"b": 10, "c": 10})):
        wanted = [(name, number) for name, count in counts.items() for number in range(count)]
        driver.do(asks(*[ask(name, f"{name}{key}{number}", policy="s", memory=1) for name, number in wanted]))
    driver.do(apps(app("g", "root.p.x", gang={"memory": 3})))
    driver.do(asks(*[ask("g", f"p{n}", policy="o", group="g", placeholder=True, memory=1) for n in range(3)]))
    assert not released(driver.wait(5))
    assert "its gang would not be complete" in driver.explain("g", "p0").checks[-1].message()


def test_the_cost_of_a_share_depends_only_on_siblings() -> None:
    """Shares are computed without examining allocations or nodes."""
    costs = []
    for number in (2, 40):
        names = [f"n{one}" for one in range(number)]
        built = build(
            cluster(
                [fair(A), queue(B), queue(C)],
                *[runs(B, one, node=name) for one, name in enumerate(names)],
                *[runs(A, one, node=name) for one, name in enumerate(names)],
                waits(A, 1),
                nodes=tuple(NodeRecord(name=name, capacity={"vcore": 2}) for name in names),
            )
        )
        app_, request = built.request(f"{A}-w1")
        found = built.search.find(app_, request, NOW)
        assert getattr(found, "law", None) is Law.OVER_FAIR_SHARE
        costs.append(built.search.work)
    assert costs == [3, 3]


@pytest.mark.parametrize(
    ("change", "work"),
    [
        pytest.param([], 0, id="nothing"),
        pytest.param([asks(ask("a", "more", memory=1))], 9, id="an ask"),
        pytest.param([nodes(node("n2", memory=1))], 9, id="a node"),
        pytest.param([nodes(*[node(f"m{one}") for one in range(99)])], 0, id="nodes without its type"),
    ],
)
def test_amounts_are_divided_once_and_again_after_a_change(change: list[Any], work: int) -> None:
    """With nine queues that want more than their shares, shares are computed only after changes."""
    driver, leaves = Driver(), list("abcdefghi")
    queues = ", ".join(f"{{name: {leaf}}}" for leaf in leaves)
    driver.do(
        register(config(f"[{queues}]", properties="{preemption.delay: 1s, preemption.reclaim: fair-share}")),
        nodes(node("n1", memory=18)),
        apps(*[app(leaf, f"root.{leaf}") for leaf in leaves]),
        asks(*[ask(leaf, f"{leaf}{one}", policy="o", memory=1) for leaf in leaves for one in range(3)]),
    )
    driver.wait(2)
    search = preemption_of(driver.partition.check_context).search
    before = search.work
    driver.do(*change)
    driver.wait(31)
    assert search.work - before == work


@pytest.mark.parametrize("had", [0, 9], ids=["nothing", "demand"])
def test_the_share_of_a_removed_queue_is_divided_again(had: int) -> None:
    """After the removal of a queue with demand amounts are divided again; without demand it had no share."""
    driver = Driver()
    properties = "{preemption.delay: 1s, preemption.reclaim: fair-share}"
    queues, rules = "[{name: a}, {name: p, parent: true}]", "placementrules: [{name: provided, create: true}]"
    driver.do(register(config(queues, rest=rules, properties=properties)), nodes(node("n1", memory=12)))
    driver.do(apps(app("a", "root.a"), app("x", "root.p.x"), app("y", "root.p.y")))
    wants = {"a": 9, "x": 9, "y": had}
    driver.do(
        asks(
            *[ask(name, f"{name}{one}", policy="o", memory=1) for name in wants for one in range(wants[name])]
        )
    )
    driver.wait(17)
    search, tree = preemption_of(driver.partition.check_context).search, driver.partition.tree
    before = search.work
    driver.do(remove_apps("y"))
    while tree.get("root.p.y") is not None:
        driver.wait(1)
    search.check()
    driver.wait(31)
    assert (search.work == before) is (had == 0)


@pytest.mark.parametrize(
    ("n2", "share"),
    [
        pytest.param({}, 10, id="open"),
        pytest.param({"schedulable": False}, 6, id="closed: what runs there counts"),
        pytest.param({"occupied": {"vcore": 4}}, 8, id="what others occupy does not"),
    ],
)
def test_usable_amounts_are_divided(n2: dict[str, Any], share: int) -> None:
    """Shares exclude amounts of other schedulers, and of a closed node all but the usage."""
    world = cluster(
        [fair(A), queue(B)],
        runs(B, *range(8)),
        runs(B, 20, 21, node="n2"),
        runs(A, 0, 1),
        waits(A, *range(20)),
        waits(B, *range(20)),
        nodes=(
            NodeRecord(name="n1", capacity={"vcore": 10}),
            NodeRecord(name="n2", capacity={"vcore": 10}, **n2),
        ),
    )
    built = build(world)
    assert DueShares(["vcore"], built.search.divisions).of(built.queue(A)) == {"vcore": share}


def test_victims_do_not_count_as_demand() -> None:
    """Amounts of victims are divided among siblings at once, not when the RM has stopped the victims."""
    world = cluster(
        [fair(A), queue(B)],
        runs(B, 0, 1),
        runs(B, 2, 3, 4, 5, state=RequestState.PREEMPTING),
        runs(A, 0, 1),
        waits(A, *range(20)),
        nodes=(NodeRecord(name="n1", capacity={"vcore": 10}),),
    )
    built = build(world)
    assert DueShares(["vcore"], built.search.divisions).of(built.queue(A)) == {"vcore": 8}


# Preemption over many turns

TURNS = 24
"""The total number of turns; in the second half no allocation is stopped."""
ENDS, TURNS_OF_AN_END = 4, 8
"""Number of jobs that end in a world, and of turns after each; in later turns no victim is stopped."""


def town(rng: Random) -> tuple[Driver, list[str]]:
    """A few nodes, and random queues that reclaim fair shares; the second value has the leaves."""
    driver = Driver()
    leaves: list[str] = []

    def drawn(path: str, depth: int) -> str:
        name = path.rpartition(".")[2]
        amounts = {}
        if rng.random() < 0.3:
            amounts["guaranteed"] = {"vcore": f"{rng.randint(2, 3) if depth else 1}"}
        if rng.random() < 0.2:
            amounts["max"] = {"vcore": "12", "memory": f"{rng.randint(12, 30) if depth else 12}"}
        below = ""
        if depth and rng.random() < 0.4:
            below = ", queues: [" + ", ".join(drawn(f"{path}.{one}", 0) for one in "xy") + "]"
        else:
            leaves.append(path)
        return f"{{name: {name}, resources: {amounts or '{}'}{below}}}"

    queues = ", ".join(drawn(f"root.{name}", 1) for name in "abc"[: rng.randint(2, 3)])
    driver.do(
        register(config(f"[{queues}]", properties="{preemption.delay: 1s, preemption.reclaim: fair-share}"))
    )
    sizes = [(rng.randint(3, 8) * 1000, rng.randint(5, 20)) for _ in range(rng.randint(1, 3))]
    driver.do(nodes(*[node(f"n{n}", vcore=v, memory=m) for n, (v, m) in enumerate(sizes)]))
    driver.do(apps(*[app(path, path) for path in leaves]))
    return driver, leaves


def drawn_ask(rng: Random, leaf: str, key: str) -> Ask:
    """A random ask for vcore, memory, or both."""
    size = {"vcore": rng.choice([1000, 1000, 2000, 3000]), "memory": rng.choice([1, 2, 5])}
    if rng.random() < 0.3:
        del size[rng.choice(sorted(size))]
    return ask(leaf, key, policy="so", size=size)


class Stubborn:
    """An RM that confirms all stops at once, and submits the victims as new asks."""

    def __init__(self, driver: Driver) -> None:
        """Start without asks."""
        self._driver = driver
        self._known: dict[tuple[str, str], Ask] = {}

    def want(self, wanted: list[Ask]) -> list[Effect]:
        """Submit these asks; return all effects until the core is idle."""
        self._known.update({(one.app_id, one.key): one for one in wanted})
        return self._driver.do(asks(*wanted))

    def end(self, rng: Random, number: int) -> int:
        """End a job, and submit it again; return the number of victims."""
        running = [
            (app_.app_id, one.key)
            for app_ in self._driver.partition.applications.values()
            for one in app_.booked()
        ]
        name = rng.choice(sorted(running))
        effects = self._driver.do(releases(release(*name)))
        return self._stop(effects + self.want([_again(self._known[name], number)]), number)

    def turn(self, number: int) -> int:
        """Let time pass; return the number of victims."""
        return self._stop(self._driver.wait(16), number)

    def _stop(self, effects: list[Effect], number: int) -> int:
        stopped = 0
        while gone := [one for one in released(effects) if one[2] == WHY.name]:
            stopped += len(gone)
            effects = self._driver.do(releases(*[release(app_id, key, why=WHY) for app_id, key, *_ in gone]))
            effects = effects + self.want(
                [_again(self._known[app_id, key], number) for app_id, key, *_ in gone]
            )
        return stopped


@pytest.mark.worlds(first=9_400_000, size=5)
def test_preemption_ends_after_few_turns(part: range) -> None:
    """Queues that want everything stop no victim a few turns after the start, and after each end of a job."""
    stopped = 0
    for seed in part:
        rng = Random(seed)
        driver, leaves = town(rng)
        rm = Stubborn(driver)
        for leaf in rng.sample(leaves, len(leaves)):
            rm.want([drawn_ask(rng, leaf, f"k{number}") for number in range(8)])
        told = [rm.turn(number) for number in range(TURNS)]
        stopped += sum(told)
        assert not any(told[TURNS // 2 :]), f"seed {seed}: {told}"
        for end in range(ENDS):
            first = TURNS + end * (TURNS_OF_AN_END + 1)
            told = [rm.end(rng, first), *[rm.turn(first + 1 + turn) for turn in range(TURNS_OF_AN_END)]]
            assert not any(told[TURNS_OF_AN_END // 2 :]), f"seed {seed}, end {end}: {told}"
    assert stopped > lively(len(part))


def _again(ask_: Ask, turn: int) -> Ask:
    """The ask that a controller submits in place of a victim, with a key of this turn."""
    sizes = ask_.ask_class.resources
    return ask(ask_.app_id, f"{ask_.key.partition('-')[0]}-{turn}", policy="so", size=sizes)


def test_explain_has_the_fair_share() -> None:
    """An explanation names the share that an ask would exceed, or below the share the lack of victims."""
    driver = Driver()
    a = "{name: a, properties: {preemption.delay: 1s, preemption.reclaim: fair-share}}"
    driver.do(register(config(f"[{a}, {{name: b, properties: {{preemption.minimum.runtime: 30s}}}}]")))
    driver.do(nodes(node("n1", memory=4)), apps(app("a", "root.a"), app("b", "root.b")))
    driver.do(asks(*[ask("b", f"b{number}", policy="s", memory=1) for number in range(4)]))
    driver.do(asks(*[ask("a", f"a{number}", policy="o", memory=1) for number in range(3)]))
    driver.wait(2)
    found = driver.explain("a", "a0").checks[-1]
    assert found.message() == (
        "no allocation may be a victim; queue root.a may reclaim up to its fair share of memory=2, "
        "and has memory=0"
    )
    gone = [key for _, key, *_ in released(driver.wait(30))]
    driver.do(releases(*[release("b", key, why=WHY) for key in gone]))
    driver.wait(16)
    (record,) = driver.partition.ledger.latest(key=gone[0])
    assert (len(gone), record.rule) == (2, PreemptionRule.FAIR_SHARE)
    found = driver.explain("a", "a2").checks[-1]
    assert found.message() == (
        "with memory=1 queue root.a would have more than its fair share of memory=2: it has memory=2"
    )
