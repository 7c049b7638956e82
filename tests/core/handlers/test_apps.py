"""Applications as an RM sees them: their order, their states, and what is refused."""

from collections import Counter

import pytest

from licorne_core.messages.effects import AllocationsReleased
from licorne_core.values.asks import Ask
from licorne_core.values.ids import AllocationKey, AppId, PartitionName
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
from support.core.driver import START, Driver, placed, refused_apps, released, states
from support.core.reports import applications_in
from support.core.steps import listed

DEFAULT = PartitionName("[rm1]default")
FAIR = "application.sort.policy: fair"


def leaf(*properties: str, memory: int = 100, at: tuple[float, ...] = (0.0, 1.0)) -> Driver:
    """A core with one leaf and one node; app-0, app-1 ... are submitted at these times."""
    driver = Driver()
    driver.do(register(config(f"[{{name: a, properties: {{{', '.join(properties)}}}}}]")))
    driver.do(nodes(node("n1", memory=memory)))
    for number, seconds in enumerate(at):
        driver.now = START + seconds
        driver.do(apps(app(f"app-{number}", "root.a")))
    return driver


def wave(app_id: str, count: int, priority: int = 0) -> list[Ask]:
    """Equal asks of one application."""
    return [ask(app_id, f"{app_id}-{i}", priority=priority, memory=1) for i in range(count)]


def served(driver: Driver) -> list[str]:
    """Which applications are served, in order, until the core rests."""
    return [app_id for app_id, _, _ in placed(driver.run())]


# Order of applications


@pytest.mark.row(93, 95)
def test_fifo_runs_applications_side_by_side() -> None:
    """Applications of a fifo queue all run; one without asks delays nobody."""
    driver = leaf(at=(0.0, 1.0, 2.0))
    effects = driver.do(asks(*wave("app-1", 2)), asks(*wave("app-2", 2)))
    assert Counter(app_id for app_id, _, _ in placed(effects)) == {"app-1": 2, "app-2": 2}
    assert driver.views.application(DEFAULT, AppId("app-0")).state == "New"
    running = {a.app_id for a in applications_in(driver.views, DEFAULT) if a.state == "Running"}
    assert running == {"app-1", "app-2"}


@pytest.mark.row(94)
def test_fair_gives_applications_the_same() -> None:
    """In a fair queue two applications with endless asks end with the same usage."""
    driver = leaf(FAIR, memory=20)
    driver.send(asks(*wave("app-0", 50), *wave("app-1", 50)))
    order = served(driver)
    assert Counter(order) == {"app-0": 10, "app-1": 10}
    assert all(abs(Counter(order[:n])["app-0"] * 2 - n) <= 1 for n in range(20))


# Ends


@pytest.mark.row(107)
def test_removing_an_application_frees_all_it_has() -> None:
    """Its asks vanish, its allocations are all told released in one message, its id is free."""
    driver = leaf(memory=2)
    driver.do(asks(*wave("app-0", 5)))
    effects = driver.do(remove_apps("app-0"))
    why = ("STOPPED_BY_RM", "Application app-0 Removed")
    assert released(effects) == [("app-0", "app-0-0", *why), ("app-0", "app-0-1", *why)]
    assert sum(isinstance(effect, AllocationsReleased) for effect in effects) == 1
    assert states(effects, "app-0") == ["Completing"]
    root = driver.views.queue(DEFAULT, "root")
    assert (root.allocated, root.pending) == ({}, {})
    assert driver.do(remove_apps("app-0", "never-was")) == []
    assert refused_apps(driver.do(apps(app("app-0", "root.a")))) == {}


# What is refused


@pytest.mark.row(110)
def test_one_key_in_two_applications_is_two_allocations() -> None:
    """Applications may use the same key: each has its own allocation, and frees its own."""
    driver = leaf()
    effects = driver.do(asks(ask("app-0", "k", memory=1), ask("app-1", "k", memory=2)))
    assert placed(effects) == [("app-0", "k", "n1"), ("app-1", "k", "n1")]
    driver.do(releases(release("app-0", "k")))
    assert driver.views.queue(DEFAULT, "root").allocated == {"memory": 2}
    held = listed(driver.views.allocations(DEFAULT, AppId("app-1")))
    assert [allocation.key for allocation, *_ in held] == [AllocationKey("k")]
