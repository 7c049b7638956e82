"""Plans of configurations, case by case; `tests/properties/test_plans.py` has random worlds."""

from collections.abc import Callable
from copy import deepcopy
from itertools import count

import pytest

from licorne_core.config.properties import settings_of
from licorne_core.config.schema import QueueSettings
from licorne_core.extensions.budgets.messages import Budget, BudgetPattern, SetBudgets
from licorne_core.extensions.budgets.reports import budget_reports
from licorne_core.messages.commands import Hold, PredicatePolicy, SetHold, UpdateConfiguration
from licorne_core.messages.plans import ConfigurationPlan
from licorne_core.values.asks import Ask
from licorne_core.values.ids import RmId
from licorne_core.whatif.configuration import PROPERTY_DEFAULTS
from licorne_core.whatif.queues import MOST
from support.core.builders import RM, app, apps, ask, asks, config, node, nodes, register, reload
from support.core.driver import Driver

LIMITED = "limits: [{limit: l, users: ['*'], maxresources: {vcore: 2m}, maxapplications: 1}]"
QUOTA = "preemption: {quotapreemptionenabled: true}"


def settled(
    queues: str,
    *wanted: Ask,
    rest: str = "",
    predicates: PredicatePolicy | None = None,
    nodes_: int = 1,
) -> Driver:
    """A core with nodes of 10 milli-cores, the application `a` in root.a, `b` in root.b, and these asks."""
    driver = Driver()
    driver.do(register(config(queues, rest=rest), predicates=predicates))
    driver.do(nodes(*(node(f"n{i}", vcore=10) for i in range(nodes_))))
    driver.do(apps(app("a", "root.a"), app("b", "root.b")))
    driver.do(asks(*wanted))
    return driver


def planned(driver: Driver, queues: str, *, rest: str = "") -> ConfigurationPlan:
    """The plan of another configuration."""
    return plan_of(driver, reload(config(queues, rest=rest)))


def plan_of(
    driver: Driver, command: UpdateConfiguration, spent: Callable[[], float] = lambda: 0.0
) -> ConfigurationPlan:
    """The plan of a command."""
    plan = deepcopy(driver.scheduler).plan_configuration(command, driver.now, spent)
    assert isinstance(plan, ConfigurationPlan)
    return plan


def several(app_id: str, number: int, vcore: int) -> list[Ask]:
    """Some asks of an application, which may be preempted."""
    return [ask(app_id, f"{app_id}{i}", policy="s", vcore=vcore) for i in range(number)]


@pytest.mark.row(120)
def test_a_plan_has_the_victims_of_a_lowered_maximum() -> None:
    """A victim is listed with the seconds until its stop, and the queue with its excess."""
    slow = "properties: {quota.preemption.delay: 20s}"
    driver = settled(
        f"[{{name: a, resources: {{max: {{vcore: 8m}}}}, {slow}}}, {{name: b}}]",
        *several("a", 4, vcore=2),
        rest=QUOTA,
    )
    plan = planned(
        driver, f"[{{name: a, resources: {{max: {{vcore: 4m}}}}, {slow}}}, {{name: b}}]", rest=QUOTA
    )
    assert [queue.over_max for queue in plan.queues] == [{"vcore": 4}]
    assert [(one.rule, 20 <= one.seconds <= 21) for one in plan.victims] == [("quota", True)] * 2
    assert plan.complete
    assert plan.horizon == 25.0


def test_a_plan_covers_one_hour() -> None:
    """A plan looks an hour ahead; with a longer delay of enforcement it is incomplete."""
    slow = "properties: {quota.preemption.delay: 2h}"
    driver = settled("[{name: a}, {name: b}]", *several("a", 4, vcore=2), rest=QUOTA)
    plan = planned(
        driver, f"[{{name: a, resources: {{max: {{vcore: 4m}}}}, {slow}}}, {{name: b}}]", rest=QUOTA
    )
    assert (plan.complete, plan.horizon, plan.victims) == (False, 3600.0, [])


@pytest.mark.row(120)
def test_a_plan_lists_users_above_a_limit() -> None:
    """A user above the limit of a wildcard is listed with usage of resources and applications."""
    driver = settled("[{name: a}, {name: b}]", *several("a", 2, vcore=2), *several("b", 1, vcore=2))
    [limit] = planned(driver, "[{name: a}, {name: b}]", rest=LIMITED).exceeded_limits
    assert (limit.kind, limit.name, limit.queue) == ("user", "ann", "root")
    assert (limit.used, limit.limit) == ({"vcore": 6}, {"vcore": 2})
    assert (limit.applications, limit.max_applications) == (2, 1)


def test_a_plan_respects_budgets() -> None:
    """A plan of a higher maximum places only asks within the remaining budget over all RMs."""
    driver = settled("[{name: a, resources: {max: {vcore: 2m}}}, {name: b}]", *several("a", 4, vcore=2))
    budget = Budget(name="all", limit={"vcore": 4}, members=(BudgetPattern(),))
    driver.do(SetBudgets(budgets=[budget]))
    plan = planned(driver, "[{name: a}, {name: b}]")
    assert [one.key for one in plan.placed] == ["a1"]
    assert {one.code for one in plan.blocked} == {"BUDGET_EXCEEDED"}
    assert budget_reports(driver.views)[0].used == {"vcore": 2}


def test_a_plan_lists_drained_and_removed_queues() -> None:
    """A queue with an application in or below it is listed once as drained, and others as removed."""
    driver = settled("[{name: a, parent: true, queues: [{name: x}]}, {name: b}, {name: c}]")
    driver.do(apps(app("x", "root.a.x")), asks(*several("x", 1, vcore=2)))
    others = "[{name: b, properties: {color: red}}, {name: d}]"

    def changes(queues: str) -> dict[str, tuple[str, int]]:
        plan = planned(driver, queues)
        return {queue.path: (queue.change, queue.applications) for queue in plan.queues}

    drained = {"root.a": ("draining", 1), "root.a.x": ("draining", 1)}
    assert changes(others) == {
        **drained,
        "root.b": ("changed", 1),
        "root.c": ("removed", 0),
        "root.d": ("added", 0),
    }
    driver.do(reload(config(others)))
    assert changes("[{name: b}, {name: d}]") == {"root.b": ("changed", 1)}


def test_a_plan_removes_a_partition() -> None:
    """Allocations of a partition that would be removed are victims, and its pending asks are blocked."""
    driver = Driver()
    text = config("[{name: a}]") + config("[{name: a}]", name="second").partition("\n")[2]
    driver.do(register(text))
    driver.do(nodes(node("n", partition="second", vcore=3)))
    driver.do(apps(app("a", "root.a", partition="second")))
    driver.do(asks(*(ask("a", f"k{i}", partition="second", vcore=2) for i in range(2))))
    plan = planned(driver, "[{name: a}]")
    assert [(one.key, one.node_id, one.rule) for one in plan.victims] == [("k0", "n", "partition-removed")]
    assert [(one.key, one.code, one.code_before) for one in plan.blocked] == [
        ("k1", "PARTITION_REMOVED", "QUEUE_MAX_EXCEEDED")
    ]
    assert {queue.path: queue.change for queue in plan.queues} == {
        "root": "removed",
        "root.a": "removed",
    }


def test_a_plan_lists_asks_with_another_blocker() -> None:
    """Asks whose blocking check would change are listed with both checks, and other asks are not."""
    driver = settled(
        "[{name: a, resources: {max: {vcore: 2m}}}, {name: b}]",
        *several("a", 2, vcore=2),
        *several("b", 1, vcore=99),
    )
    plan = planned(driver, "[{name: a}, {name: b}]", rest=LIMITED)
    [stopped] = [one for one in plan.blocked if one.app_id == "a"]
    assert (stopped.code_before, stopped.code) == ("QUEUE_MAX_EXCEEDED", "USER_QUOTA_EXCEEDED")
    assert stopped.message == "exceeds the limit of user ann in queue root by vcore=2m"
    same = "[{name: a, resources: {max: {vcore: 2m}}, properties: {color: red}}, {name: b}]"
    assert planned(driver, same).blocked == []


def test_a_plan_excludes_other_rms() -> None:
    """Asks of another RM are neither decided nor reported."""
    driver = settled("[{name: a}, {name: b}]")
    driver.do(register(config("[{name: a}]"), rm="rm2"))
    driver.do(nodes(node("n", vcore=10), rm="rm2"), apps(app("a", "root.a"), rm="rm2"))
    driver.send(asks(ask("a", "theirs", vcore=1), rm="rm2"))
    plan = planned(driver, "[{name: a, properties: {color: red}}, {name: b}]")
    assert (plan.placed, plan.blocked, plan.complete) == ([], [], True)


def test_a_plan_ends_when_its_cpu_time_is_used_up() -> None:
    """A plan that has used up its CPU time is incomplete, and takes no more turns."""
    driver = settled("[{name: a, resources: {max: {vcore: 1m}}}, {name: b}]")
    driver.do(asks(*(ask("a", f"k{i}", vcore=1) for i in range(9))))
    looks = count(1)
    command = reload(config("[{name: a}, {name: b}]"))
    plan = plan_of(driver, command, lambda: next(looks) / 4)
    assert not plan.complete
    spent = plan_of(driver, command, lambda: 1.0)
    assert (spent.complete, spent.placed, spent.queues != []) == (False, [], True)


def test_a_plan_has_bounded_lists_and_full_counts() -> None:
    """Each list has at most a thousand entries, with a count of all entries."""
    driver = settled("[{name: a, resources: {max: {vcore: 0m}}}, {name: b}]", nodes_=150)
    driver.do(asks(*(ask("a", f"k{i}", vcore=1) for i in range(MOST + 7))))
    plan = planned(driver, "[{name: a}, {name: b}]")
    assert (len(plan.placed), plan.counts.placed) == (MOST, MOST + 7)


def defaults(text: str) -> dict[tuple[str, str], tuple[str, str]]:
    """The value and origin of each default, by path and name."""
    driver = settled("[{name: a}, {name: b}]")
    plan = plan_of(driver, reload(text))
    return {(one.path, one.name): (one.value, one.origin) for one in plan.defaults}


def test_values_in_the_text_are_not_listed_as_defaults() -> None:
    """A value in the text is not listed, even if it equals the default; a null value is."""
    text = config(
        "[{name: a, maxapplications: 0, submitacl: null, resources: {max: {vcore: 1}}}, {name: b}]",
        rest="nodesortpolicy: fair\npreemption: {enabled: true}",
    )
    found = defaults(text)
    assert ("root.a", "maxapplications") not in found
    assert ("root.a", "resources.max") not in found
    assert ("", "nodesortpolicy") not in found
    assert ("", "preemption.enabled") not in found
    assert found["root.a", "submitacl"] == ("nobody but who may submit above", "default")
    assert found["root.a", "resources.guaranteed"] == ("none", "default")
    assert found["root.b", "resources.max"] == ("unlimited", "default")
    assert found["", "preemption.quotapreemptionenabled"] == ("false", "default")
    assert not {"resources.max", "resources.guaranteed"} & {n for p, n in found if p == "root"}


def test_inherited_values_name_their_ancestor() -> None:
    """The origin of an inherited property is the nearest ancestor that sets it; other values are defaults."""
    text = (
        "partitions: [{name: default, queues: [{name: root, submitacl: '*', "
        "properties: {color: red, preemption.delay: 9s, priority.offset: 5}, queues: ["
        "{name: c, properties: {color: blue}, queues: [{name: x}]}, {name: d}]}]}]"
    )
    found = defaults(text)
    assert found["root.c.x", "property color"] == ("blue", "root.c")
    assert found["root.d", "property color"] == ("red", "root")
    assert found["root.c.x", "property preemption.delay"] == ("9s", "root")
    assert found["root.c.x", "property priority.offset"] == ("0", "default")
    assert found["root", "property application.sort.policy"] == ("fifo", "default")
    assert ("root.c", "property color") not in found


def test_listed_defaults_are_those_in_force() -> None:
    """Each listed default has the same effect in a configuration as a missing property."""
    said = {key: value for key, value in PROPERTY_DEFAULTS.items() if value not in NO_VALUES}
    assert settings_of(said) == QueueSettings()
    unsaid: list[tuple[str, str]] = []
    settings_of({key: value for key, value in PROPERTY_DEFAULTS.items() if key not in said}, unsaid)
    assert len(unsaid) == len(PROPERTY_DEFAULTS) - len(said)


NO_VALUES = {"none", "never", "off"}
"""Words for missing values."""


def test_an_update_without_a_text_is_planned_with_the_default() -> None:
    """An update without a text is planned with the scheduler's default configuration."""
    driver = settled("[{name: a}, {name: b}]")
    plan = plan_of(driver, UpdateConfiguration(rm_id=RmId("rm1")))
    assert {queue.path: queue.change for queue in plan.queues} == {
        "root": "changed",
        "root.a": "draining",
        "root.b": "draining",
    }


def test_limits_that_were_exceeded_before_are_marked() -> None:
    """A limit that is exceeded as much as before is marked; a limit that becomes tighter is not."""
    wanted = [*several("a", 2, vcore=2), *several("b", 1, vcore=2)]
    driver = settled("[{name: a}, {name: b}]", *wanted)
    driver.do(reload(config("[{name: a}, {name: b}]", rest=LIMITED)))
    plan = planned(driver, "[{name: a}, {name: b}, {name: c}]", rest=LIMITED)
    assert [limit.already for limit in plan.exceeded_limits] == [True]
    assert (plan.counts.exceeded_limits, plan.counts.newly_exceeded) == (1, 0)
    for tighter in (LIMITED.replace("2m", "1m"), LIMITED.replace("2m", "1m, memory: 1")):
        plan = planned(driver, "[{name: a}, {name: b}]", rest=tighter)
        assert [limit.already for limit in plan.exceeded_limits] == [False]
        assert plan.counts.newly_exceeded == 1


def test_queues_that_were_above_their_maxima_before_are_not_counted() -> None:
    """A queue with the same excess as before does not count; a queue with a lower maximum does."""
    driver = settled("[{name: a}, {name: b}]", *several("a", 4, vcore=2))
    tight = "[{name: a, resources: {max: {vcore: %dm}}, properties: {color: %s}}, {name: b}]"
    driver.do(reload(config(tight % (6, "red"))))
    plan = planned(driver, tight % (6, "blue"))
    [queue] = plan.queues
    assert (queue.over_max, queue.over_max_before) == ({"vcore": 2}, {"vcore": 2})
    assert plan.counts.queues_over_max == 0
    plan = planned(driver, tight % (5, "blue"))
    assert plan.queues[0].over_max == {"vcore": 3}
    assert plan.counts.queues_over_max == 1


def test_changed_queues_are_counted_beyond_the_end_of_the_list() -> None:
    """Beyond a thousand listed queues, further drained queues are counted."""
    names = [f"q{i:04}" for i in range(MOST + 5)]
    queues = ", ".join(f"{{name: {name}}}" for name in names)
    driver = settled(f"[{queues}, {{name: y}}, {{name: z}}]")
    driver.do(apps(app("last", "root.z")))
    colored = ", ".join(f"{{name: {name}, properties: {{color: red}}}}" for name in names)
    plan = planned(driver, f"[{colored}, {{name: y}}]")
    assert "draining" not in {queue.change for queue in plan.queues}
    assert (plan.counts.queues, plan.counts.queues_draining) == (MOST + 6, 1)


def test_newly_blocked_asks_are_counted() -> None:
    """Asks that a check blocks only after the update are counted as newly blocked."""
    driver = settled("[{name: a}, {name: b}]")
    driver.send(asks(*several("a", 3, vcore=2)))
    plan = planned(driver, "[{name: a, resources: {max: {vcore: 3m}}}, {name: b}]")
    assert (plan.counts.blocked, plan.counts.newly_blocked) == (2, 2)


def test_a_plan_of_an_rm_on_hold_is_incomplete() -> None:
    """The plan of an RM on hold has the reason of the hold, and lists the changed queues."""
    driver = settled("[{name: a, resources: {max: {vcore: 2m}}}, {name: b}]", *several("a", 2, vcore=2))
    driver.do(SetHold(rm_id=RmId(RM), hold=Hold.OUTBOX_FULL, on=True))
    plan = planned(driver, "[{name: a}, {name: b}]")
    assert (plan.complete, plan.holds) == (False, ("outbox full",))
    assert (plan.placed, [queue.path for queue in plan.queues]) == ([], ["root.a"])
    driver.do(SetHold(rm_id=RmId(RM), hold=Hold.OUTBOX_FULL, on=False))
    plan = planned(driver, "[{name: a}, {name: b}]")
    assert (plan.complete, plan.holds, plan.counts.placed) == (True, (), 1)
