"""Budgets of hours over time: their events, and what is remembered of those that are not in force."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from licorne_core.messages.fairness import KeptHours, PartitionMemory, UsageOwner
from licorne_core.model.fair_shares import KeptMemory
from licorne_core.model.memory import MOST_IDLE
from licorne_core.values.ids import PartitionName, QueuePath, RmId
from licorne_core.values.windows import Window
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
from support.core.steps import listed

DEFAULT = PartitionName("[rm1]default")
FULL_HOUR = 1_000_800.0
BUDGET = "properties: {budget.gpu-hours: %s}"


def of_hours(hours: str) -> str:
    """A configuration with one queue that has so many hours, and one that has none."""
    return config(f"[{{name: a, {BUDGET % hours}}}, {{name: b}}]")


def started(text: str, *, gpu: int) -> Driver:
    """A core at a full hour, with so much running in the queue."""
    driver = Driver()
    driver.now = FULL_HOUR
    driver.views.now = lambda: driver.now
    driver.do(register(text), nodes(node("n1", vcore=9, gpu=9)), apps(app("x", "root.a")))
    driver.do(asks(ask("x", "k1", gpu=gpu)))
    return driver


def told(driver: Driver) -> list[str]:
    """The events of hours since the last time."""
    lines = [line for line in heard(driver) if "BUDGET_" in line]
    driver.facts.clear()
    return lines


def used(driver: Driver, partition: PartitionName = DEFAULT) -> float:
    """GPU-hours that the queue has used in the present window."""
    [report] = driver.views.queue(partition, "root.a").hours_budgets
    return report.used


def test_hours_that_run_out_are_told_once() -> None:
    """One event when the last hour is used, whatever asks come, and one when a window begins."""
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
def test_hours_run_out_in_time_however_usage_has_grown(last: int) -> None:
    """Usage that grows a little or by much, long before, uses up the hours at the moment that follows."""
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
def test_a_configuration_that_gives_hours_is_told(hours: str, text: str) -> None:
    """A budget that lets asks through again says so; one that is lowered again has run out anew."""
    driver = started(of_hours("1/hour"), gpu=6)
    driver.wait(600.0)
    driver.do(releases(release("x", "k1")))
    told(driver)
    driver.do(reload(of_hours(hours) if hours else config("[{name: a}, {name: b}]")))
    assert told(driver) == [f"QUEUE root.a SET DETAILS_NONE gpu: BUDGET_AVAILABLE: {text}"]
    driver.do(reload(of_hours("0/hour")))
    [line] = told(driver)
    assert "BUDGET_EXHAUSTED" in line


def test_a_budget_of_nothing_is_told_once() -> None:
    """A window that changes nothing has no event."""
    driver = started(of_hours("0/hour"), gpu=1)
    driver.wait(3 * 3600.0)
    [line] = told(driver)
    assert "BUDGET_EXHAUSTED: 0 of 0" in line


Drop = Callable[[Driver], None]


def _drop_queue(driver: Driver) -> None:
    driver.do(reload(config("[{name: b}]")))
    driver.wait(60.0)
    assert driver.scheduler.partitions[DEFAULT].tree.get("root.a") is None


def _drop_budget(driver: Driver) -> None:
    driver.do(reload(config("[{name: a}, {name: b}]")))


def _drop_partition(driver: Driver) -> None:
    driver.do(reload(config("[{name: b}]", name="other")))
    assert DEFAULT not in driver.scheduler.partitions


def _drop_all_and_register(driver: Driver) -> None:
    """The RM registers without the partition, with what is kept, and gets it back by a reload."""
    _drop_partition(driver)
    memory = dict(listed(driver.views.memory(RmId("rm1"))))
    driver.do(replace(register(config("[{name: b}]", name="other")), memory=memory))


@pytest.mark.parametrize("drop", [_drop_queue, _drop_budget, _drop_partition, _drop_all_and_register])
def test_used_hours_outlive_a_reload(drop: Drop) -> None:
    """Queue, budget or partition that are dropped and brought back have no more hours than before."""
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


def test_a_dropped_partition_is_kept_until_it_is_back() -> None:
    """What a partition used is told with the memory of the RM while it is gone, and once when it is back."""
    driver = started(of_hours("2/hour"), gpu=6)
    driver.wait(600.0)
    _drop_partition(driver)
    [(name, kept)] = listed(driver.views.memory(RmId("rm1")))
    assert name == DEFAULT
    assert [hours.used for hours in kept.hours.values()] == [3600 * 10**6]
    driver.do(reload(of_hours("2/hour").replace("name: default", "name: Default")))
    [(name, kept)] = listed(driver.views.memory(RmId("rm1")))
    assert [hours.used for hours in kept.hours.values()] == [3600 * 10**6]
    assert used(driver, name) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("drop", [_drop_queue, _drop_partition])
def test_decayed_usage_outlives_a_reload(drop: Drop) -> None:
    """Usage of queue and user decays while they are gone, and counts when they are back."""
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
        shares = [one.scheduler.partitions[DEFAULT].shares for one in (driver, same)]
        sums = [one.usage[owner].at_step(int(driver.now))["gpu"] for one in shares]
        assert sums[0] == pytest.approx(sums[1], rel=1e-9)
        assert sums[0] > 0


def test_decayed_usage_outlives_its_half_life() -> None:
    """A half-life that is switched off and on again does not make usage before it vanish."""
    text = config("[{name: a}]", properties="{fairshare.half-life: 1h}")
    driver = started(text, gpu=6)
    driver.wait(600.0)
    driver.do(reload(config("[{name: a}]")))
    driver.wait(3600.0)
    driver.do(reload(text))
    report = driver.views.queue(DEFAULT, "root.a").fair_share
    assert report is not None
    # An hour without a half-life counts for nothing, and halves what was used before.
    assert report.decayed["gpu"] == pytest.approx(0.5 * 600 / 3600 * 6, rel=0.06)


def kept(count: int) -> PartitionMemory:
    """What a partition remembers of so many queues."""
    hours = {
        (QueuePath(f"root.q{number}"), "gpu"): KeptHours(10**12, 1, 0, Window.WEEK) for number in range(count)
    }
    return PartitionMemory(hours=hours)


def test_what_dropped_partitions_leave_is_bounded() -> None:
    """Of too many queues in all of them, those of the partition go that was dropped first."""
    memory = KeptMemory({})
    for name, count in (("one", 4_000), ("two", 4_000), ("three", 4_000), ("none", 0)):
        memory.keep(PartitionName(name), kept(count))
    assert list(memory.by_name) == ["two", "three"]
    memory.keep(PartitionName("huge"), kept(MOST_IDLE + 1))
    assert list(memory.by_name) == ["huge"]
    assert len(memory.by_name[PartitionName("huge")].hours) == MOST_IDLE
