"""Budgets of hours: their events over time, and the usage retained for removed ones."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from licorne_core.extensions.hours.reports import HoursReport
from licorne_core.messages.checks import RuleCheck
from licorne_core.messages.kept import KeptByPartition
from licorne_core.values.ids import PartitionName, RmId
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
from support.core.driver import Driver, heard, placed
from support.core.dropped import DEFAULT, FULL_HOUR, drop_partition, drop_queue, started
from support.core.steps import last, listed

BUDGET = "properties: {budget.gpu-hours: %s}"


def of_hours(hours: str) -> str:
    """A configuration with a queue `a` of this budget of GPU-hours, and a queue `b` without a budget."""
    return config(f"[{{name: a, {BUDGET % hours}}}, {{name: b}}]")


def told(driver: Driver) -> list[str]:
    """The events of budgets of hours since the previous call."""
    lines = [line for line in heard(driver) if "BUDGET_" in line]
    driver.facts.clear()
    return lines


def used(driver: Driver, partition: PartitionName = DEFAULT) -> float:
    """The GPU-hours that the queue has used in the present window."""
    reports: list[HoursReport] = driver.views.queue(partition, "root.a").extended["hours_budgets"]
    [report] = reports
    return report.used


def test_a_used_up_budget_has_one_event() -> None:
    """There is one event when the last hour is used, whatever is submitted, and one at the next window."""
    driver = started(of_hours("1/hour"), gpu=6)
    assert told(driver) == []
    driver.wait(600.0)
    driver.do(*(asks(ask("x", key, gpu=1)) for key in ("k2", "k3", "k4")))
    driver.do(releases(release("x", "k1")))
    end = FULL_HOUR + 3600.0
    [line] = told(driver)
    assert line == (
        "QUEUE root.a SET DETAILS_NONE gpu: BUDGET_EXHAUSTED: 1 of 1 gpu-hours of this hour used, "
        f"nothing new starts with gpu before {end:.0f}"
    )
    driver.wait(end - driver.now)
    assert told(driver) == [
        "QUEUE root.a SET DETAILS_NONE gpu: BUDGET_AVAILABLE: 0 of 1 gpu-hours of this hour used"
    ]


@pytest.mark.parametrize("last", [1, 5])
def test_the_end_of_hours_is_exact_for_any_growth_of_usage(last: int) -> None:
    """Whether usage grows slightly or much, the hours are used up exactly at the computed time."""
    driver = started(of_hours("24/day"), gpu=1)
    for key, gpu in (("k2", 1), ("k3", last)):
        driver.wait(600.0)
        driver.do(asks(ask("x", key, gpu=gpu)))
    left = (24 * 3600 - 600 - 2 * 600) / (2 + last)
    driver.wait(left - 0.001)
    assert told(driver) == []
    driver.wait(0.002)
    [line] = told(driver)
    assert "BUDGET_EXHAUSTED" in line


CHANGES = {
    "raised": ("2/hour", "1 of 2 gpu-hours of this hour used"),
    "another window": ("1/day", "0 of 1 gpu-hours of this day used"),
    "removed": ("", "gpu-hours are not bounded any more"),
}


@pytest.mark.parametrize(("hours", "text"), CHANGES.values(), ids=CHANGES)
def test_a_reload_of_hours_has_an_event(hours: str, text: str) -> None:
    """A reload has an event if it removes a budget, or raises it above or lowers it below the usage."""
    driver = started(of_hours("1/hour"), gpu=6)
    driver.wait(600.0)
    driver.do(releases(release("x", "k1")))
    told(driver)
    driver.do(reload(of_hours(hours) if hours else config("[{name: a}, {name: b}]")))
    assert told(driver) == [f"QUEUE root.a SET DETAILS_NONE gpu: BUDGET_AVAILABLE: {text}"]
    driver.do(reload(of_hours("0/hour")))
    [line] = told(driver)
    assert "BUDGET_EXHAUSTED" in line


def test_a_budget_of_zero_has_one_event() -> None:
    """A new window of a budget of zero has no event."""
    driver = started(of_hours("0/hour"), gpu=1)
    driver.wait(3 * 3600.0)
    [line] = told(driver)
    assert "BUDGET_EXHAUSTED: 0 of 0" in line


Drop = Callable[[Driver], None]


def _drop_budget(driver: Driver) -> None:
    driver.do(reload(config("[{name: a}, {name: b}]")))


def _drop_all_and_register(driver: Driver) -> None:
    """Drop the partition, then register the RM without it but with its usage; the test adds it again."""
    drop_partition(driver)
    memory = dict(listed(driver.views.memory(RmId("rm1"))))
    driver.do(replace(register(config("[{name: b}]", name="other")), memory=memory))


@pytest.mark.parametrize("drop", [drop_queue, _drop_budget, drop_partition, _drop_all_and_register])
def test_used_hours_outlive_removal_from_the_configuration(drop: Drop) -> None:
    """A queue, budget or partition that is removed and added again has no more hours than before."""
    driver = started(of_hours("1/hour"), gpu=6)
    driver.wait(600.0)
    driver.do(releases(release("x", "k1")), apps(app("y", "root.b")))
    driver.wait(60.0)
    drop(driver)
    driver.wait(60.0)
    driver.do(reload(of_hours("1/hour")))
    assert used(driver) == pytest.approx(1.0, abs=1e-6)
    driver.do(nodes(node("n1", vcore=9, gpu=9)), apps(app("z", "root.a")))
    assert not placed(driver.do(asks(ask("z", "k2", gpu=1))))
    assert placed(driver.wait(FULL_HOUR + 3600.0 - driver.now)) == [("z", "k2", "n1")]


def test_usage_of_a_removed_partition_is_retained() -> None:
    """The usage of a removed partition is retained, and counted once when the partition is added again."""
    driver = started(of_hours("2/hour"), gpu=6)
    driver.wait(600.0)
    drop_partition(driver)
    [(name, kept)] = listed(driver.views.memory(RmId("rm1")))
    assert name == DEFAULT
    assert [hours.used for hours in kept["hours"].values()] == [3600 * 10**6]
    driver.do(reload(of_hours("2/hour").replace("name: default", "name: Default")))
    [(name, kept)] = listed(driver.views.memory(RmId("rm1")))
    assert [hours.used for hours in kept["hours"].values()] == [3600 * 10**6]
    assert used(driver, name) == pytest.approx(1.0, abs=1e-6)


def memory_of(driver: Driver) -> KeptByPartition:
    """The state retained for the RM's partitions."""
    driver.views.now = lambda: driver.now
    return dict(listed(driver.views.memory(RmId("rm1"))))


def hours_check(driver: Driver, app_id: str, key: str) -> RuleCheck:
    """The check of a budget of hours in the explanation of an ask."""
    told = last(driver.views.explain(DEFAULT, app_id, key))
    (found,) = [check for check in told.checks if isinstance(check, RuleCheck) and check.kind == "hours"]
    return found


def test_no_allocation_starts_once_the_hours_are_used_up() -> None:
    """At the limit asks for the resource wait, also in queues below; allocations continue to their end.

    In the next window the asks start by themselves.
    """
    queues = "[{name: a, properties: {budget.gpu-hours: 1/hour}, queues: [{name: b}]}, {name: c}]"
    driver = Driver()
    driver.now = full_hour = 1_000_800.0
    driver.do(register(config(queues)), nodes(node("n1", vcore=9, gpu=9)))
    driver.do(apps(app("x", "root.a.b"), app("y", "root.c")), asks(ask("x", "k1", gpu=6)))
    driver.wait(599.999)
    assert placed(driver.do(asks(ask("x", "k2", gpu=1, vcore=1)))) == [("x", "k2", "n1")]
    driver.wait(0.001)
    assert not placed(driver.do(asks(ask("x", "k3", gpu=1, vcore=1))))
    assert placed(driver.do(asks(ask("x", "k4", vcore=1)))) == [("x", "k4", "n1")]
    assert placed(driver.do(asks(ask("y", "k5", gpu=1, vcore=1)))) == [("y", "k5", "n1")]
    check = hours_check(driver, "x", "k3")
    assert (check.passed, check.code, check.until) == (False, "BUDGET_EXHAUSTED", full_hour + 3600.0)
    told = "nothing new starts with it before the window ends"
    assert check.message() == f"1 of 1 gpu-hours of this hour used in queue root.a: {told}"
    assert driver.views.queue(DEFAULT, "root.a").allocated == {"gpu": 7, "vcore": 2}
    assert not placed(driver.wait(2999.9))
    assert placed(driver.wait(0.1)) == [("x", "k3", "n1")]
    [report] = driver.views.queue(DEFAULT, "root.a").extended["hours_budgets"]
    assert (report.used, report.resets_at, report.spent) == (0.0, full_hour + 7200.0, False)


def test_a_raised_budget_starts_waiting_asks() -> None:
    """A raised budget lets waiting asks start at once, and usage of the window still counts."""
    queues = "[{{name: a, properties: {{budget.gpu-hours: {hours}/day}}}}]"
    driver = Driver()
    driver.do(register(config(queues.format(hours=1))), nodes(node("n1", gpu=9)), apps(app("x", "root.a")))
    driver.do(asks(ask("x", "k1", gpu=4)))
    driver.wait(1800.0)
    assert not placed(driver.do(asks(ask("x", "k2", gpu=1))))
    assert placed(driver.do(reload(config(queues.format(hours=3))))) == [("x", "k2", "n1")]
    driver.wait(720.0 + 1.0)
    assert not placed(driver.do(asks(ask("x", "k3", gpu=1))))


def test_usage_while_the_rm_is_not_registered_is_bounded() -> None:
    """Usage while the RM is not registered is counted for at most ten minutes."""
    text = config("[{name: a, properties: {budget.vcore-hours: 100/month}}]")
    first, second = Driver(), Driver()
    first.do(register(text), nodes(node("n1", vcore=4000)), apps(app("x", "root.a")))
    first.do(asks(ask("x", "k1", vcore=3000)))
    memory = memory_of(first)
    second.now = first.now + 3600.0
    second.do(replace(register(text), memory=memory))
    second.views.now = lambda: second.now
    [report] = second.views.queue(DEFAULT, "root.a").extended["hours_budgets"]
    assert report.used == pytest.approx(3000 * 600 / 3600)


def test_hours_outlive_the_registration() -> None:
    """A core that continues from state 45 seconds old has the used hours within one percent."""
    text = config("[{name: a, properties: {budget.vcore-hours: 4000m/day}}]")
    first = Driver()
    first.do(register(text), nodes(node("n1", vcore=4)), apps(app("x", "root.a")))
    first.do(asks(ask("x", "k1", vcore=3)))
    first.wait(90.0)
    memory = memory_of(first)
    first.wait(45.0)
    second = Driver()
    second.now = first.now
    second.do(replace(register(text), memory=memory), nodes(node("n1", vcore=4)), apps(app("x", "root.a")))
    second.do(asks(ask("x", "k1", vcore=3, on_node="n1")))
    for driver in (first, second):
        driver.wait(100.0)
    second.views.now = lambda: second.now
    hours = [used(driver) for driver in (first, second)]
    assert hours[1] == pytest.approx(hours[0], rel=0.01)
    assert hours[0] > 0
