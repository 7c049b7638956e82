"""Plans of submissions, case by case; `tests/properties/test_plans.py` has random worlds."""

from copy import deepcopy

import pytest

from licorne_core.messages.commands import NewApplication, PredicatePolicy
from licorne_core.messages.plans import SubmissionPlan
from licorne_core.values.asks import Ask
from licorne_core.values.ids import RmId
from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.core.driver import Driver

QUEUES = (
    "[{name: a, properties: {preemption.delay: 3s}}, "
    "{name: b, properties: {preemption.delay: 3s}, resources: {guaranteed: {vcore: 4m}}}]"
)


def settled(rest: str = "", queues: str = QUEUES) -> Driver:
    """A core with a node of 10 milli-cores, 8 of which root.a uses."""
    driver = Driver()
    driver.do(register(config(queues, rest=rest)))
    driver.do(nodes(node("n", vcore=10)), apps(app("old", "root.a")))
    driver.do(asks(*(ask("old", f"k{i}", policy="s", vcore=2) for i in range(4))))
    return driver


def planned(driver: Driver, new: NewApplication, *wanted: Ask) -> SubmissionPlan:
    """The plan of an application and its asks."""
    return deepcopy(driver.scheduler).plan_submission(RmId("rm1"), new, wanted, driver.now)


@pytest.mark.row(120)
def test_a_plan_has_the_victims_for_the_application() -> None:
    """Victims are stopped after the delay of preemption; then the application's ask is placed."""
    plan = planned(settled(), app("new", "root.b"), ask("new", "w", policy="o", vcore=4))
    [victim] = plan.victims
    assert (victim.app_id, victim.rule, victim.beneficiary_key) == ("old", "guarantee", "w")
    assert (victim.queue, victim.node_id, victim.resources) == ("root.a", "n", {"vcore": 2})
    [placed] = plan.asks
    assert (placed.node_id, placed.seconds) == ("n", victim.seconds)
    assert 3.0 <= victim.seconds <= plan.horizon == 8.0


def test_a_plan_has_the_blocker_of_an_ask_and_its_preemption() -> None:
    """The plan of an ask has the check that blocks it, and the reason why nothing is preempted."""
    plan = planned(settled(), app("new", "root.a"), ask("new", "w", policy="o", vcore=4))
    [waits] = plan.asks
    assert (waits.node_id, waits.code) == ("", "QUEUE_MAX_EXCEEDED")
    stopped, _, preemption = waits.message.partition("; ")
    assert stopped == "exceeds the cluster by vcore=2m"
    assert preemption == "no queue from root.a up is guaranteed any of vcore=4m"


@pytest.mark.parametrize(
    ("rules", "new", "queue", "rule"),
    [
        ("", app("new", "root.a"), "root.a", ""),
        ("placementrules: [{name: provided}]", app("new", "root.a"), "root.a", "provided"),
        (
            "placementrules: [{name: tag, value: to, create: true}, {name: fixed, value: a}]",
            app("new", tags={"to": "x"}),
            "root.x",
            "tag",
        ),
        (
            "placementrules: [{name: tag, value: to}, {name: fixed, value: a}]",
            app("new", tags={"to": "x"}),
            "root.a",
            "fixed",
        ),
        ("placementrules: [{name: user}]", app("new"), "root.default", "default"),
        (
            "placementrules: [{name: user}]",
            app("new", tags={"application.create.force": "true"}),
            "root.@recovery@",
            "recovery",
        ),
    ],
    ids=["none", "provided", "tag", "fixed", "default", "recovery"],
)
def test_a_plan_has_the_placement_rule(rules: str, new: NewApplication, queue: str, rule: str) -> None:
    """The plan has the rule and its queue, which is created on the copy only."""
    more = ", {name: default}" if rule == "default" else ""
    plan = planned(settled(rules, f"[{{name: a}}{more}]"), new)
    assert (plan.accepted, plan.queue, plan.rule) == (True, queue, rule)


def test_a_plan_has_the_reason_of_a_rejection() -> None:
    """The plan of a rejected application has the reason sent to the RM, and the partition if known."""
    plan = planned(settled(), app("old", "root.a"))
    assert plan == SubmissionPlan(
        accepted=False,
        rejection="adding application old to partition [rm1]default, but application already existed",
        partition="[rm1]default",
    )
    assert planned(settled(), app("new", partition="no")).partition == ""


def test_a_gang_is_planned_with_the_quota_in_its_own_tags() -> None:
    """A gang is checked against its own quota, in a new namespace or an existing one."""
    driver = settled("placementrules: [{name: tag, value: to, create: true}]", "[{name: a}]")

    def gang(app_id: str, wanted: int, quota: int) -> NewApplication:
        tag = {"namespace.resourcequota": f'{{"resources":{{"vcore":{{"value":{quota}}}}}}}'}
        return app(app_id, tags={"to": "ns", **tag}, gang={"vcore": wanted})

    refused = planned(driver, gang("one", 5, 3))
    assert refused.rejection == (
        "queue root.ns cannot fit application one: task group request map[vcore:5] "
        "larger than max queue allocation map[vcore:3]"
    )
    driver.do(apps(gang("two", 3, 3)))
    larger = planned(driver, gang("three", 5, 6))
    assert (larger.accepted, larger.queue) == (True, "root.ns")


def test_a_core_is_copied_while_an_ask_waits_for_an_answer() -> None:
    """A core with an assumed ask can be copied for a plan."""
    driver = Driver()
    driver.do(register(config("[{name: a}]"), predicates=PredicatePolicy()))
    driver.do(nodes(node("n", vcore=5)), apps(app("old", "root.a")))
    for key in ("k1", "k2"):
        driver.do(asks(ask("old", key, vcore=3, predicate="p")))
    [placed] = planned(driver, app("new", "root.a"), ask("new", "w", vcore=2)).asks
    assert (placed.node_id, placed.seconds) == ("n", 0.0)
