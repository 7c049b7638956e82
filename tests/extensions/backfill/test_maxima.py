"""Shadow starts of asks that maxima of queues, limits of users or budgets block."""

import pytest

from extensions.backfill.test_shadows import CONSERVATIVE, EASY, at, job, starts
from extensions.budgets.test_budgets import budgets
from licorne_core.extensions.backfill.extension import starts_of
from licorne_core.extensions.backfill.start_search import MOST_RESTARTS
from licorne_core.extensions.backfill.unplanned import RETRY_TIME
from licorne_core.extensions.budgets.messages import Budget, BudgetPattern, SetBudgets
from licorne_core.messages.commands import Tick
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.ids import AppId, QueuePath
from licorne_core.values.slices import Tuning
from licorne_core.values.tags import RUNTIME
from licorne_core.views.census import census
from licorne_core.views.explain import explain
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
from support.core.driver import START, Driver, placed, stopped
from support.core.steps import last

MAXIMUM = "[{name: a, resources: {max: {vcore: 10m}}}, {name: b}]"
"""A leaf `a` with a maximum, and a leaf without one."""

LIMIT = "[{name: a, limits: [{limit: '', users: [ann], maxresources: {vcore: 10m}}]}, {name: b}]"
"""A leaf `a` with a limit for the user of all applications."""


UNBOUNDED = "[{name: a}, {name: b}]"

BUDGET = budgets(Budget(name="all", limit={"vcore": 10}, members=(BudgetPattern(queue="root.a"),)))
"""A budget for leaf `a` in all partitions."""

BOUNDS = pytest.mark.parametrize(
    ("queues", "bounds"), [(MAXIMUM, None), (UNBOUNDED, BUDGET)], ids=["queue", "budget"]
)


def world(
    *sizes: int, queues: str = MAXIMUM, properties: str = CONSERVATIVE, bounds: SetBudgets | None = None
) -> Driver:
    """Nodes of these sizes, applications `first`, `second` and `third` in leaf `a`, and `other` in `b`."""
    driver = Driver()
    driver.do(*(() if bounds is None else (bounds,)))
    driver.do(register(config(queues, rest="nodesortpolicy: fair", properties=properties)))
    driver.do(nodes(*(node(f"n{number}", vcore=size) for number, size in enumerate(sizes))))
    for name, leaf in (("first", "a"), ("second", "a"), ("third", "a"), ("other", "b")):
        driver.do(apps(app(name, f"root.{leaf}")))
        driver.now += 0.001
    driver.now = START
    return driver


GUARANTEE = (
    "[{name: p, resources: {max: {vcore: 10m}}, queues: [{name: a}, "
    "{name: b, resources: {guaranteed: {vcore: 5m}}, properties: {preemption.delay: 1s}}]}]"
)
"""A parent with a maximum, and two leaves, one of which is guaranteed half of the maximum."""


@pytest.mark.parametrize("properties", [EASY, CONSERVATIVE], ids=["easy", "conservative"])
def test_a_guarantee_precedes_starts_behind_the_maximum_of_a_queue_above(properties: str) -> None:
    """An ask that is guaranteed its amounts passes a start, or preempts beside it; the start is moved."""
    driver = Driver()
    driver.do(register(config(GUARANTEE, rest="nodesortpolicy: fair", properties=properties)))
    driver.do(nodes(*(node(f"n{number}", vcore=10) for number in range(4))))
    driver.do(apps(app("first", "root.p.a"), app("due", "root.p.b")))
    driver.do(asks(*(ask("first", f"r{n}", vcore=3, policy="x", tags={RUNTIME: "100"}) for n in range(3))))
    driver.do(asks(ask("first", "large", vcore=8, tags={RUNTIME: "50"})))
    assert starts(driver).keys() == {"large"}
    assert starts(driver)["large"][0] == 100.0
    driver.do(asks(ask("due", "small", vcore=1, tags={RUNTIME: "20"})))
    driver.do(asks(ask("due", "preempts", vcore=1, policy="o", tags={RUNTIME: "500"})))
    (victim,) = stopped(driver.wait(3.0))
    assert placed(driver.do(releases(release("first", victim)))) == [("due", "preempts", "n0")]
    assert starts(driver)["large"][0] == 100.0
    assert placed(driver.do(asks(ask("due", "passes", vcore=2)))) == [("due", "passes", "n1")]
    assert starts(driver)["large"][0] == 503.0


@pytest.mark.parametrize(
    ("queues", "bounds"),
    [(MAXIMUM, None), (LIMIT, None), (UNBOUNDED, BUDGET)],
    ids=["queue", "user", "budget"],
)
@pytest.mark.parametrize("properties", [EASY, CONSERVATIVE], ids=["easy", "conservative"])
def test_an_ask_blocked_by_a_maximum_holds_a_start(
    queues: str, bounds: SetBudgets | None, properties: str
) -> None:
    """The start follows the ends of charged allocations; asks that end before it, or leave it room, pass."""
    driver = world(100, queues=queues, properties=properties, bounds=bounds)
    driver.do(asks(job("first", "runs", 6, 100), job("first", "small", 1)))
    driver.do(asks(job("second", "large", 8, 50)))
    assert starts(driver) == {"large": (100.0, ["n0"])}
    effects = driver.do(asks(job("third", "long", 2), job("third", "ends", 2, 100), job("third", "rest", 1)))
    assert placed(effects) == [("third", "ends", "n0"), ("third", "rest", "n0")]
    assert placed(driver.do(asks(job("other", "apart", 80)))) == [("other", "apart", "n0")]
    at(driver, 100.0)
    effects = driver.do(releases(release("third", "ends"), release("first", "runs")))
    assert placed(effects) == [("second", "large", "n0")]
    assert starts(driver) == {"long": (150.0, ["n0"])}
    at(driver, 150.0)
    assert placed(driver.do(releases(release("second", "large")))) == [("third", "long", "n0")]


def test_starts_under_a_maximum_are_planned_around_each_other() -> None:
    """A start is planned in the gap before another start if it ends in time, otherwise after that start."""
    driver = world(100)
    driver.do(asks(job("first", "runs", 6, 100), job("second", "large", 10, 50)))
    driver.do(asks(job("third", "gap", 5, 60), job("third", "after", 5, 120)))
    driver.do(releases(release("first", "nothing")))
    assert starts(driver) == {
        "large": (100.0, ["n0"]),
        "gap": (150.0, ["n0"]),
        "after": (150.0, ["n0"]),
    }
    assert placed(driver.do(asks(job("third", "fits", 4, 100)))) == [("third", "fits", "n0")]


def test_starts_behind_one_maximum_leave_a_start_to_another_maximum() -> None:
    """Of 17 asks behind one maximum 16 hold a start; of two behind another maximum one holds a start."""
    driver = world(100, queues=MAXIMUM.replace("{name: b}", "{name: b, resources: {max: {vcore: 5m}}}"))
    driver.do(asks(job("first", "runs", 10, 100), job("other", "also", 5, 100)))
    driver.do(asks(*(job("first", f"w{number:02}", 10, 10) for number in range(17))))
    assert list(starts(driver)) == [f"w{number:02}" for number in range(16)]
    driver.do(asks(job("other", "one", 5, 10), job("other", "two", 5, 10)))
    assert list(starts(driver))[16:] == ["one"]
    assert starts(driver)["one"][0] == 100.0


def test_without_known_ends_there_is_no_start_behind_a_maximum() -> None:
    """An ask for more than the maximum has no start either."""
    driver = world(100)
    driver.do(
        asks(job("first", "runs", 6)), asks(job("second", "large", 8, 50), job("second", "huge", 11, 9))
    )
    assert starts(driver) == {}
    at(driver, 3.0)
    assert placed(driver.do(releases(release("first", "runs")))) == [("second", "large", "n0")]


@BOUNDS
def test_a_gang_blocked_by_a_maximum_holds_one_start_for_all_members(
    queues: str, bounds: SetBudgets | None
) -> None:
    """The start waits for the amounts of all members; the nodes that are busy longest are held."""
    driver = world(4, 4, 4, queues=queues, bounds=bounds)
    driver.do(asks(job("first", "X", 4, 100), job("first", "Y", 3, 40)))
    driver.do(apps(app("gang", "root.a", gang={"vcore": 8})))
    tags = {RUNTIME: "60"}
    members = [ask("gang", f"g{i}", placeholder=True, group="g", vcore=4, tags=tags) for i in range(2)]
    driver.do(asks(*members))
    assert {key: (start, sorted(there)) for key, (start, there) in starts(driver).items()} == {
        "g0": (100.0, ["n0", "n1"])
    }
    assert placed(driver.do(asks(job("third", "late", 3, 101)))) == []
    assert placed(driver.do(asks(job("third", "ends", 3, 99)))) == [("third", "ends", "n2")]
    at(driver, 100.0)
    gone = [release("first", "X"), release("first", "Y"), release("third", "ends")]
    assert sorted(key for _, key, _ in placed(driver.do(releases(*gone)))) == ["g0", "g1"]


@BOUNDS
def test_an_ask_that_would_delay_a_start_under_a_maximum_is_explained(
    queues: str, bounds: SetBudgets | None
) -> None:
    """The explanation names the holder and the maximum; the census counts such asks separately."""
    driver = world(100, queues=queues, bounds=bounds)
    driver.do(asks(job("first", "runs", 6, 100)), asks(job("second", "large", 9, 50)))
    driver.do(asks(job("third", "late", 2, 101)))
    starts_of(driver.partition).shadows.give_up(
        next(one for one in starts_of(driver.partition).shadows if one.request.key == "late"), driver.now
    )
    report = last(explain(driver.partition, driver.partition.applications[AppId("third")], "late"))
    (check,) = [one for one in report.checks if one.code == "MAXIMUM_HELD"]
    assert (
        report.summary
        == check.message()
        == (
            "would delay the shadow start of ask large of application second, for which some of the maximum "
            f"of {'queue root.a' if bounds is None else 'budget all'} is held: it declares no end before that"
        )
    )
    counts = last(census(driver.partition))
    assert counts is not None
    assert counts.pending[QueuePath("root.a"), "MAXIMUM_HELD"] == 1
    report = last(explain(driver.partition, driver.partition.applications[AppId("second")], "large"))
    assert "MAXIMUM_HELD" not in [one.code for one in report.checks]


@BOUNDS
def test_asks_blocked_by_held_amounts_are_tried_when_these_are_free(
    queues: str, bounds: SetBudgets | None
) -> None:
    """Amounts become free by an end that was not expected, and by the withdrawal of the holder."""
    driver = world(100, queues=queues, properties=EASY, bounds=bounds)
    driver.do(asks(job("first", "runs", 6, 100), job("first", "long", 1)))
    driver.do(asks(job("second", "large", 9, 50)))
    assert placed(driver.do(asks(job("third", "late", 1, 200)))) == []
    assert placed(driver.do(releases(release("first", "long")))) == [("third", "late", "n0")]
    assert placed(driver.do(asks(job("third", "later", 2, 200, "n0")))) == []
    assert placed(driver.do(releases(release("second", "large")))) == [("third", "later", "n0")]


def test_a_reload_changes_what_starts_hold() -> None:
    """A maximum that is added or removed counts at once for the starts that are held."""
    driver = world(100, queues=LIMIT)
    driver.do(asks(job("first", "runs", 6, 100)), asks(job("second", "large", 9, 50)))
    driver.do(reload(config(MAXIMUM, rest="nodesortpolicy: fair", properties=CONSERVATIVE)))
    assert starts(driver) == {"large": (100.0, ["n0"])}
    assert placed(driver.do(asks(job("third", "late", 4, 200)))) == []
    free = config(UNBOUNDED, rest="nodesortpolicy: fair", properties=CONSERVATIVE)
    assert [key for _, key, _ in placed(driver.do(reload(free)))] == ["large", "late"]


def test_a_difference_in_held_amounts_is_noticed() -> None:
    """The recount compares the amounts that quotas hold with the shadow starts."""
    driver = world(100)
    driver.do(asks(job("first", "runs", 6, 100)), asks(job("second", "large", 9, 50)))
    own = starts_of(driver.partition)
    own.recount(driver.partition.applications, settled=True)
    (shadow,) = own.shadows
    for quota in shadow.held.quotas:
        quota.claims.clear()
    with pytest.raises(InvariantBroken):
        own.recount(driver.partition.applications, settled=True)


SHARED = "[{name: a, resources: {max: {vcore: %sm}}}, {name: b}]"


@pytest.mark.parametrize(
    ("most", "then"),
    [
        ("9", {"large": 100.0, "next": 150.0}),
        ("8", {"large": 100.0, "next": 150.0}),
        ("7", {"next": 100.0}),
        ("2", {}),
    ],
)
def test_a_lowered_maximum_moves_the_starts_that_no_longer_fit(most: str, then: dict[str, float]) -> None:
    """Starts above the maximum are planned again in order of publication; larger asks have no start."""
    driver = world(100, queues=SHARED % 14)
    driver.do(asks(job("first", "runs", 9, 100), job("second", "large", 8, 50), job("third", "next", 6, 50)))
    assert {key: start for key, (start, _) in starts(driver).items()} == {"large": 100.0, "next": 100.0}
    driver.do(reload(config(SHARED % most, rest="nodesortpolicy: fair", properties=CONSERVATIVE)))
    assert {key: start for key, (start, _) in starts(driver).items()} == then


def test_an_exceeded_maximum_of_another_resource_moves_no_start() -> None:
    """Memory used beyond a lowered maximum does not matter to a start that needs no memory."""
    queues = "[{name: a, resources: {max: {vcore: 10m, memory: %s}}}, {name: b}]"
    driver = world(100, queues=queues % 2)
    driver.do(nodes(node("large", memory=9)), asks(ask("first", "uses", memory=2)))
    driver.do(asks(job("first", "runs", 6, 100), job("second", "large", 8, 50)))
    driver.do(reload(config(queues % 1, rest="nodesortpolicy: fair", properties=CONSERVATIVE)))
    assert starts(driver) == {"large": (100.0, ["n0"])}


def test_a_start_ruled_out_by_a_lowered_maximum_blocks_no_ask() -> None:
    """An ask that would have delayed the start before the reload is placed after it."""
    driver = world(100)
    driver.do(asks(job("first", "runs", 6, 86400)), asks(job("second", "large", 8, 50)))
    driver.do(reload(config(SHARED % 7, rest="nodesortpolicy: fair", properties=CONSERVATIVE)))
    assert placed(driver.do(asks(job("third", "one", 1, 100000)))) == [("third", "one", "n0")]


@pytest.mark.parametrize(
    ("work", "most", "is_quiet"),
    [
        (4_000, MOST_RESTARTS + 1, False),
        (1, 30 * (MOST_RESTARTS + 1), False),
        # Two steps for each node (for its ends and for charges), one for each rack, and the last step.
        (1, 2 * 6 + 3 + 1, True),
    ],
    ids=["at once", "in turns", "only time passes"],
)
def test_a_search_for_a_gang_in_a_domain_takes_few_turns(work: int, most: int, is_quiet: bool) -> None:
    """Changes below the maximum restart the search a bounded number of times; lapse of time does not."""
    driver = Driver(tuning=Tuning(fill_work=work))
    properties = "{backfill: easy, topology.levels: 'zone, rack'}"
    driver.do(register(config(MAXIMUM, properties=properties)), apps(app("runs", "root.a")))
    for rack in range(3):
        attributes = {"zone": "z", "rack": f"r{rack}"}
        driver.do(nodes(*(node(f"r{rack}-{number}", attributes=attributes, vcore=4) for number in range(2))))
    tags = {RUNTIME: "1000"}
    driver.do(asks(*(ask("runs", f"x{number}", vcore=1, tags=tags) for number in range(10))))
    driver.send(apps(app("job", "root.a", gang={"vcore": 2}, tags={"licorne/topology": "required=rack"})))
    members = [
        ask("job", f"p{number}", placeholder=True, group="g", vcore=1, tags=tags) for number in range(2)
    ]
    driver.send(asks(*members))
    turns = 0
    while not starts(driver):
        driver.send(Tick(decisions=16))
        driver.now += 0.02
        turns += 1
        assert turns <= most
        if is_quiet:
            continue
        if turns % 2:
            driver.send(releases(release("runs", f"x{turns // 2}")))
        else:
            again = ask("runs", f"x{turns // 2 - 1}", vcore=1, priority=9, tags=tags)
            driver.send(asks(again))


def test_charges_of_a_quota_are_read_once_for_all_starts() -> None:
    """For each start under the maximum, and each ask that would delay one, only changed charges are read."""
    driver = Driver(sweep=1_000_000)
    driver.do(register(config(SHARED % 200, properties=CONSERVATIVE)))
    driver.do(nodes(*(node(f"n{number}", vcore=40) for number in range(10))))
    driver.do(*(apps(app(name, "root.a")) for name in ("first", "second", "third")))
    driver.do(asks(*(job("first", f"runs{number}", 1, 1000 + number % 7) for number in range(200))))
    own, quota = starts_of(driver.partition), driver.partition.applications[AppId("first")].leaf
    driver.do(asks(*(job("second", f"large{number}", 20, 500) for number in range(8))))
    assert len(starts(driver)) == 8
    table = own.charges.of(quota)
    for number in range(10):
        driver.do(releases(release("first", f"runs{number}")))
        driver.send(asks(job("third", f"ends{number}", 1, 900)))
    assert own.charges.of(quota) is table
    assert table.version <= 200 + 20


@pytest.mark.parametrize("where", ["planned", "elsewhere"])
@BOUNDS
def test_a_late_start_moves_the_next_start_under_its_maximum(
    where: str, queues: str, bounds: SetBudgets | None
) -> None:
    """The next start moves by the delay, on whichever node the late one runs; asks that end by then pass."""
    driver = world(10, 10, queues=queues, bounds=bounds)
    driver.do(asks(job("first", "runs", 6, 100, "n0"), job("second", "A", 8, 100), job("third", "B", 8, 100)))
    assert {key: start for key, (start, _) in starts(driver).items()} == {"A": 100.0, "B": 200.0}
    (there,) = starts(driver)["A"][1]
    if where == "elsewhere":
        driver.do(asks(job("other", "o", 4 if there == "n0" else 10, 1000, there)))
    at(driver, 102.0)
    ((_, _, chosen),) = placed(driver.do(releases(release("first", "runs"))))
    assert (chosen == there) == (where == "planned")
    assert starts(driver)["B"][0] == 202.0
    at(driver, 103.0)
    assert [key for _, key, _ in placed(driver.do(asks(job("third", "beside", 2, 1000))))] == ["beside"]


def test_a_gang_that_waited_for_held_amounts_uses_those_of_its_start() -> None:
    """A gang blocked by held amounts before it had a start is not blocked by its own held amounts."""
    driver = world(10, 6, 3, properties="{backfill: conservative, reservation.max.nodes: '0'}")
    driver.do(asks(job("first", "r", 4, 100, "n0")))
    driver.do(asks(job("other", "x", 6, 300, "n0"), job("other", "y", 2, 300, "n1")))
    driver.do(asks(job("second", "large", 8, 50)), apps(app("gang", "root.a", gang={"vcore": 6})))
    tags = {RUNTIME: "1000"}
    members = [ask("gang", f"g{i}", placeholder=True, group="g", vcore=3, tags=tags) for i in range(2)]
    driver.do(asks(*members))
    driver.do(asks(job("other", "z", 3, 90, "n2")))
    effects = driver.do(releases(release("second", "large"), release("first", "r")))
    assert [key for _, key, _ in placed(effects)] == ["g0", "g1"]


def test_a_gang_blocked_before_it_had_a_start_may_start_elsewhere() -> None:
    """If a planned node is late and others are free, the amounts of its own start do not block the gang."""
    driver = world(6, 4, 4, 4, 3, 3, 3)
    daemons = [job("other", f"daemon{i}", 4, node_id=f"n{i}") for i in (2, 3)]
    driver.do(asks(job("first", "r", 2, 100, "n0"), job("other", "late", 4, 140, "n1"), *daemons))
    driver.do(asks(job("second", "large", 6, 50)), apps(app("gang", "root.a", gang={"vcore": 8})))
    tags = {RUNTIME: "1000"}
    members = [ask("gang", f"g{i}", placeholder=True, group="g", vcore=4, tags=tags) for i in range(2)]
    driver.do(asks(*members))
    assert starts(driver) == {"large": (100.0, ["n0"]), "g0": (150.0, ["n0", "n1"])}
    at(driver, 100.0)
    assert [key for _, key, _ in placed(driver.do(releases(release("first", "r"))))] == ["large"]
    at(driver, 150.0)
    assert placed(driver.do(releases(release("second", "large")))) == []
    at(driver, 150.5)
    effects = driver.do(releases(*(release("other", f"daemon{i}") for i in (2, 3))))
    assert sorted(node_id for _, _, node_id in placed(effects)) == ["n2", "n3"]


def test_a_pause_behind_a_limit_ends_with_the_application() -> None:
    """Users whose asks have ended do not lengthen the pauses of later users."""
    limits = "[{name: a, limits: [{limit: '', users: ['*'], maxresources: {vcore: 50m}}]}]"
    driver = world(1000, queues=limits.replace("}]}]", "}]}, {name: b}]"))
    for number in range(40):
        name = f"of{number}"
        driver.do(apps(app(name, "root.a", user=name)))
        # All sizes differ, so that no runtime is learnt.
        driver.do(asks(job(name, "runs", 50 - number), job(name, "waits", 41)))
        driver.wait(1.0)
        driver.do(releases(release(name, "waits"), release(name, "runs")))
    driver.wait(RETRY_TIME)
    driver.do(apps(app("new", "root.a", user="new")))
    driver.do(asks(job("new", "runs", 8), job("new", "waits", 45)))
    driver.do(asks(job("new", "ends", 9, 100)))
    driver.do(releases(release("new", "runs")))
    assert starts(driver) == {}
    driver.wait(RETRY_TIME + 1.0)
    assert [*starts(driver)] == ["waits"]
