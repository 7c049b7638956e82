"""Starts behind budgets over RMs: each partition plans with the amounts that the other RMs leave."""

import pytest

from extensions.backfill.test_maxima import BUDGET, SHARED, UNBOUNDED, world
from extensions.backfill.test_shadows import CONSERVATIVE, EASY, job, starts
from extensions.budgets.test_budgets import budgets
from licorne_core.extensions.backfill.extension import starts_of
from licorne_core.extensions.backfill.unplanned import REPLAN_TIME, RETRY_TIME
from licorne_core.extensions.budgets.messages import Budget, BudgetPattern, SetBudgets, SetBudgetSlices
from licorne_core.extensions.budgets.reports import budget_report
from licorne_core.messages.commands import Command, RemoveRm
from licorne_core.values.asks import GRACE
from licorne_core.values.ids import AppId, RmId
from licorne_core.values.resources import Resources
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
from support.core.driver import START, Driver, keys, placed, stopped

OF_LEAF = (BudgetPattern(queue="root.a"),)


def bound(vcore: int, slices: dict[RmId, Resources] | None = None) -> SetBudgets:
    """The budget of leaf `a`, with this limit and these slices."""
    return budgets(Budget(name="all", limit={"vcore": vcore}, members=OF_LEAF, slices=slices))


def sliced(one: int, two: int) -> SetBudgetSlices:
    """Slices of both RMs."""
    return SetBudgetSlices(budget="all", slices={RmId("rm1"): {"vcore": one}, RmId("rm2"): {"vcore": two}})


def of_two(bounds: SetBudgets = BUDGET, queues: str = UNBOUNDED) -> Driver:
    """A world in which another RM has an application in its leaf `a`."""
    driver = world(100, queues=queues, bounds=bounds)
    driver.do(register(config(UNBOUNDED), rm="rm2"), nodes(node("n", vcore=100), rm="rm2"))
    driver.do(apps(app("app", "root.a"), rm="rm2"))
    return driver


def uses(driver: Driver, key: str, vcore: int) -> list[str]:
    """Submit an ask of the other RM; return the allocated keys."""
    return keys(driver.do(asks(ask("app", key, vcore=vcore), rm="rm2")))


def ends(driver: Driver, key: str) -> list[str]:
    """Release an allocation of the other RM; return the allocated keys."""
    return keys(driver.do(releases(release("app", key), rm="rm2")))


def times(driver: Driver) -> dict[str, float]:
    """The times of the shadow starts of the first RM."""
    return {key: start for key, (start, _) in starts(driver).items()}


def test_a_start_holds_no_amounts_of_a_budget_against_another_rm() -> None:
    """Another RM may use amounts that a start needs; the start ends only if they are used when it is due."""
    driver = of_two()
    assert uses(driver, "always", 2) == ["always"]
    driver.do(asks(job("first", "runs", 4, 1000), job("second", "large", 8, 50)))
    assert times(driver) == {"large": 1000.0}
    assert placed(driver.do(asks(job("third", "late", 1, 1001, "n0")))) == []
    assert uses(driver, "takes", 1) == ["takes"]
    assert placed(driver.wait(1000)) == []
    assert times(driver) == {"large": 1000.0}
    assert placed(driver.do(releases(release("first", "runs")))) == []
    assert keys(driver.wait(GRACE)) == ["late"]
    assert times(driver) == {}
    ends(driver, "takes")
    assert times(driver) == {"large": 1000.0 + GRACE + 1001}


def test_a_start_keeps_its_time_if_an_ask_that_preempts_leaves_it_its_room() -> None:
    """It is not planned again on the cleared node: others use so much of its budget that it would be lost."""
    leaf = "{name: %s, resources: {guaranteed: {vcore: 8m}}, properties: {preemption.delay: 1s}}"
    driver = of_two(queues=f"[{leaf % 'a'}, {leaf % 'b'}, {{name: c}}]")
    driver.do(apps(app("low", "root.c")))
    driver.do(asks(ask("low", "runs", vcore=100, policy="s", tags={RUNTIME: "1000"})))
    driver.do(asks(job("second", "large", 8, 50)))
    assert uses(driver, "takes", 5) == ["takes"]
    driver.do(asks(ask("other", "waits", vcore=6, policy="os")))
    assert stopped(driver.wait(2.0)) == ["runs"]
    assert keys(driver.do(releases(release("low", "runs")))) == ["waits"]
    assert times(driver) == {"large": 1000.0}
    assert ends(driver, "takes") == ["large"]


@pytest.mark.parametrize("slices", [None, {RmId("rm1"): {"vcore": 8}, RmId("rm2"): {"vcore": 2}}])
def test_a_start_that_waits_for_a_node_survives_what_others_use_of_its_budget(
    slices: dict[RmId, Resources] | None,
) -> None:
    """Another RM has the budget for a moment; the node remains held for the start."""
    driver = of_two(bound(10, slices))
    driver.do(
        asks(job("other", "runs", 97, 1000), job("second", "large", 8, 50), job("other", "next", 3, 2000))
    )
    assert times(driver) == {"large": 1000.0}
    if slices is None:
        uses(driver, "x", 10)
    else:
        driver.do(sliced(0, 10))
    driver.wait(RETRY_TIME)
    assert times(driver) == {"large": 1000.0}
    if slices is None:
        ends(driver, "x")
    else:
        driver.do(sliced(8, 2))
    driver.wait(1000 - RETRY_TIME)
    assert keys(driver.do(releases(release("other", "runs")))) == ["large"]


@pytest.mark.parametrize("returns", ["limit", "usage"])
def test_an_ask_that_others_leave_too_little_is_planned_as_soon_as_they_leave_enough(returns: str) -> None:
    """It holds no start before; then it holds one at once, so that no later ask passes it."""
    driver = of_two()
    uses(driver, "x", 5)
    driver.do(asks(job("first", "runs", 3, 1000), job("second", "large", 8, 50)))
    assert times(driver) == {}
    if returns == "limit":
        driver.do(bound(15))
    else:
        ends(driver, "x")
    assert times(driver) == {"large": 1000.0}
    assert placed(driver.do(asks(job("third", "late", 5, 1001)))) == []


@pytest.mark.parametrize("groups", ["gggg", "ffgg"], ids=["one task group", "two"])
@pytest.mark.parametrize("gone", [[0, 1], [2, 3]], ids=["first", "last"])
def test_a_gang_that_others_leave_too_little_is_planned_once_it_has_fewer_members(
    groups: str, gone: list[int]
) -> None:
    """It needs 8 of the 5 that another RM leaves, and 4 after the release of two members, of any group."""
    driver = of_two()
    uses(driver, "takes", 5)
    driver.do(asks(job("first", "runs", 3, 1000)))
    driver.do(apps(app("gang", "root.a", tags={RUNTIME: "50"}, gang={"vcore": 8})))
    members = [ask("gang", f"p{i}", vcore=2, group=groups[i], placeholder=True) for i in range(4)]
    driver.do(asks(*members))
    driver.do(releases(*(release("gang", f"p{i}") for i in gone)))
    driver.wait(RETRY_TIME)
    assert list(times(driver).values()) == [1000.0]
    staying = [one.key for i, one in enumerate(members) if i not in gone]
    assert keys(driver.do(releases(release("first", "runs")))) == staying


@pytest.mark.parametrize("gone", [0, 3], ids=["first", "last"])
def test_a_gang_keeps_its_start_if_a_member_is_withdrawn(gone: int) -> None:
    """It holds the start for its other members, until their end, also while others use most of the budget."""
    driver = of_two()
    driver.do(asks(job("first", "runs", 4, 1000)), apps(app("gang", "root.a", gang={"vcore": 8})))
    for i, group in enumerate("ffgg"):
        tags = {RUNTIME: "90" if i == gone else "50"}
        driver.do(asks(ask("gang", f"p{i}", vcore=2, group=group, placeholder=True, tags=tags)))
    uses(driver, "takes", 5)
    driver.do(releases(release("gang", f"p{gone}")))
    driver.wait(RETRY_TIME)
    (shadow,) = starts_of(driver.partition).shadows
    assert (shadow.start, shadow.expected_end, shadow.total) == (START + 1000, START + 1050, (("vcore", 6),))
    assert ends(driver, "takes") == [f"p{i}" for i in range(4) if i != gone]


def test_asks_stopped_by_held_amounts_of_a_slice_want_more_of_the_budget() -> None:
    """The RM wants what they need beside the held amounts; with a larger slice they are placed."""
    driver = of_two(bound(100, {RmId("rm1"): {"vcore": 8}}))
    driver.do(asks(job("other", "runs", 93, 1000), job("second", "large", 8, 50)))
    assert placed(driver.do(asks(job("third", "small", 2, 5000)))) == []
    assert budget_report(driver.views, "all").rms[RmId("rm1")].wanted == {"vcore": 2}
    assert keys(driver.do(sliced(10, 0))) == ["small"]
    assert budget_report(driver.views, "all").rms[RmId("rm1")].wanted == {}


def test_a_start_is_behind_the_present_budgets_of_its_application() -> None:
    """A start whose application leaves a budget takes no place behind it from others."""
    members = budgets(Budget(name="all", limit={"vcore": 10}, members=(BudgetPattern(queue="root.b"),)))
    driver = world(100, queues=SHARED % 10, properties=EASY, bounds=bound(10))
    driver.do(asks(job("first", "runs", 6, 1000), job("second", "large", 8, 50)))
    driver.do(asks(job("other", "apart", 6, 1000)))
    driver.do(members)
    driver.do(asks(job("other", "next", 8, 50)))
    assert times(driver) == {"large": 1000.0, "next": 1000.0}


def test_a_release_of_another_rm_lets_asks_pass_a_start() -> None:
    """An ask blocked by held amounts is tried at once, and a start may be earlier after a release."""
    driver = of_two()
    uses(driver, "more", 2)
    uses(driver, "most", 1)
    driver.do(asks(job("first", "runs", 2, 100), job("first", "long", 2, 300), job("second", "large", 5, 50)))
    assert times(driver) == {"large": 100.0}
    driver.do(asks(job("third", "late", 1, 400, "n0")))
    assert ends(driver, "most") == ["late"]
    assert times(driver) == {"large": 100.0}
    driver.do(asks(job("third", "next", 6, 400)))
    assert times(driver) == {"large": 100.0, "next": 300.0}
    assert ends(driver, "more") == ["large"]
    assert times(driver) == {"next": 100.0}


def test_an_rm_that_leaves_returns_its_part_of_a_budget() -> None:
    """When an RM is removed, the amounts that it used are given to an ask blocked by held amounts."""
    driver = of_two()
    uses(driver, "some", 2)
    driver.do(asks(job("first", "runs", 4, 100), job("first", "long", 2, 200), job("second", "large", 6, 50)))
    assert placed(driver.do(asks(job("third", "late", 1, 900, "n0")))) == []
    assert keys(driver.do(RemoveRm(rm_id=RmId("rm2")))) == ["late"]
    assert times(driver) == {"large": 100.0}


@pytest.mark.parametrize(
    ("change", "then"),
    [
        (bound(9), (["large"], {"next": 150.0})),
        (bound(7), (["next"], {})),
        (bound(20), None),
        (budgets(), None),
        (sliced(9, 1), (["large"], {"next": 150.0})),
        (sliced(7, 7), (["next"], {})),
        (sliced(2, 12), ([], {})),
        (bound(14, {RmId("rm2"): {"vcore": 14}}), ([], {})),
    ],
    ids=["9", "7", "20", "none", "slice of 9", "slice of 7", "slice of 2", "no slice"],
)
def test_a_changed_limit_or_slice_moves_starts(
    change: Command, then: tuple[list[str], dict[str, float]] | None
) -> None:
    """With more room asks start at once; with less, starts are planned again when they are due, or end."""
    slices: dict[RmId, Resources] = {RmId("rm1"): {"vcore": 14}}
    driver = of_two(bound(14, slices if isinstance(change, SetBudgetSlices) else None))
    driver.do(asks(job("first", "runs", 9, 100), job("second", "large", 8, 50), job("third", "next", 6, 50)))
    assert times(driver) == {"large": 100.0, "next": 100.0}
    if then is None:
        assert "large" in keys(driver.do(change))
        assert times(driver).get("next", 50.0) == 50.0
        return
    driver.do(change)
    driver.wait(100)
    assert times(driver) == {"large": 100.0, "next": 100.0}
    started = keys(driver.do(releases(release("first", "runs"))))
    assert started + keys(driver.wait(GRACE)) == then[0]
    assert times(driver) == then[1]


def test_budgets_and_maxima_are_planned_together() -> None:
    """A planned start exceeds neither its budget, nor a budget above it, nor the maximum of its queue."""
    queues = "[{name: a, resources: {max: {vcore: 11m}}}, {name: b}]"
    nested = (
        Budget(name="company", limit={"vcore": 12}, members=(BudgetPattern(queue="root.b"),)),
        Budget(name="company/a", limit={"vcore": 9}, members=OF_LEAF),
    )
    driver = world(100, queues=queues, bounds=budgets(*nested))
    driver.do(asks(job("first", "runs", 4, 100), job("other", "apart", 8, 200)))
    driver.do(asks(job("second", "large", 6, 50)))
    assert times(driver) == {"large": 200.0}
    driver.do(releases(release("other", "apart")))
    assert times(driver) == {"large": 100.0}
    driver.do(reload(config(queues.replace("11m", "5m"), properties=CONSERVATIVE)))
    assert times(driver) == {}


def test_new_members_of_a_budget_count_for_starts_that_are_held() -> None:
    """The usage of new members counts until its expected end, and starts hold amounts of the new budget."""
    driver = of_two(budgets(), SHARED % 13)
    driver.do(asks(job("first", "runs", 6, 100), job("second", "large", 8, 50)))
    assert times(driver) == {"large": 100.0}
    driver.do(bound(10))
    assert times(driver) == {"large": 100.0}
    (quota,) = [one for one in driver.partition.applications[AppId("first")].further if one.above]
    assert [*quota.claims] == [*starts_of(driver.partition).shadows]
    assert placed(driver.do(asks(job("third", "late", 3, 200, "n0")))) == []
    assert keys(driver.do(budgets())) == ["late"]
    assert times(driver) == {"large": 100.0}


@pytest.mark.parametrize(
    ("queues", "bounds", "change", "then"),
    [
        (SHARED % 10, None, reload(config(SHARED % 13, properties=CONSERVATIVE)), 100.0),
        (UNBOUNDED, BUDGET, bound(13), 200.0),
        (UNBOUNDED, bound(30, {RmId("rm1"): {"vcore": 10}}), sliced(13, 9), 200.0),
    ],
    ids=["queue", "limit", "slice"],
)
def test_a_higher_maximum_makes_a_start_earlier(
    queues: str, bounds: SetBudgets | None, change: Command, then: float
) -> None:
    """A raised maximum does so at once, a raised budget in the next turn after the usual time."""
    driver = world(100, queues=queues, bounds=bounds)
    driver.do(asks(job("first", "runs", 4, 100), job("first", "long", 5, 200), job("second", "large", 8, 50)))
    assert times(driver) == {"large": 200.0}
    driver.do(change)
    assert times(driver) == {"large": then}
    driver.wait(REPLAN_TIME)
    driver.do(asks(job("other", "any", 1, 1)))
    assert times(driver) == {"large": 100.0}
