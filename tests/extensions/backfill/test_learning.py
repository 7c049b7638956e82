"""Runtimes are learnt only from allocations that the RM ends itself."""

from collections.abc import Callable

import pytest

from extensions.stops.building import kill
from licorne_core.messages.commands import NodeAction, TerminationType
from licorne_core.model.runtimes import FEWEST_SAMPLES, Confidence
from licorne_core.values.ids import AppId
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
from support.core.driver import Driver

KEYS = [f"k{i}" for i in range(FEWEST_SAMPLES)]


@pytest.fixture
def driver() -> Driver:
    """As many allocations of one shape as a learnt runtime needs, all started at once."""
    driver = Driver()
    driver.do(
        register(config("[{name: a}]", properties="{backfill: easy}")),
        nodes(node("n1", memory=9)),
        apps(app("app", "root.a"), app("next", "root.a")),
    )
    driver.do(asks(*(ask("app", key, memory=1) for key in KEYS)))
    driver.now += 60.0
    return driver


def learnt(driver: Driver) -> tuple[float | None, Confidence]:
    """The expected runtime of the next ask."""
    partition = driver.partition
    return partition.runtimes.expected(partition.applications[AppId("next")], ask("next", "k", memory=1))


def release_each(driver: Driver, why: TerminationType = TerminationType.STOPPED_BY_RM) -> None:
    """The RM releases each allocation by its key."""
    driver.do(releases(*(release("app", key, why=why) for key in KEYS)))


def release_all(driver: Driver) -> None:
    """The RM releases everything of the application."""
    driver.do(releases(release("app")))


def remove_application(driver: Driver) -> None:
    """The RM removes the application with its running allocations."""
    driver.do(remove_apps("app"))


@pytest.mark.parametrize("end", [release_each, release_all, remove_application], ids=lambda end: end.__name__)
def test_a_runtime_is_learnt_from_an_end_by_the_rm(driver: Driver, end: Callable[[Driver], None]) -> None:
    """However the RM ends allocations, their runtime is learnt for their leaf and shape."""
    end(driver)
    assert learnt(driver) == (60.0, Confidence.LEARNT)


def fail_on_rm(driver: Driver) -> None:
    """The RM reports that it could not run the allocations."""
    release_each(driver, TerminationType.SCHEDULING_FAILED_ON_RM)


def preempt(driver: Driver) -> None:
    """The RM reports the allocations as preempted."""
    release_each(driver, TerminationType.PREEMPTED_BY_SCHEDULER)


def lose_node(driver: Driver) -> None:
    """The node of the allocations is removed."""
    driver.do(nodes(node("n1", memory=9, action=NodeAction.DECOMISSION)))


def stop(driver: Driver) -> None:
    """An operator stops the application, and the RM confirms the end of each."""
    driver.do(kill("app"))
    release_each(driver)


@pytest.mark.parametrize("end", [fail_on_rm, preempt, lose_node, stop], ids=lambda end: end.__name__)
def test_no_runtime_is_learnt_from_a_run_cut_short(driver: Driver, end: Callable[[Driver], None]) -> None:
    """A run that was cut short is no evidence of the length of the next one."""
    end(driver)
    assert learnt(driver) == (None, Confidence.UNKNOWN)


def test_no_runtime_is_learnt_from_a_replayed_allocation(driver: Driver) -> None:
    """The start of a replayed allocation is unknown, and so is its runtime."""
    running = (ask("app", f"old-{key}", memory=1, on_node="n1") for key in KEYS)
    driver.do(asks(*running))
    driver.do(releases(*(release("app", f"old-{key}") for key in KEYS)))
    assert learnt(driver) == (None, Confidence.UNKNOWN)


def test_no_runtime_is_learnt_from_a_placeholder(driver: Driver) -> None:
    """A placeholder runs no work, so its time is not learnt."""
    wanted = (ask("app", f"p-{key}", memory=1, placeholder=True, group="g") for key in KEYS)
    driver.do(asks(*wanted))
    driver.do(releases(*(release("app", f"p-{key}") for key in KEYS)))
    assert learnt(driver) == (None, Confidence.UNKNOWN)
