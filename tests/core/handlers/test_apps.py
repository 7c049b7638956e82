"""Applications as an RM sees them: their order, states and refusals."""

from collections import Counter

import pytest

from licorne_core.values.asks import Ask
from licorne_core.values.ids import PartitionName
from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.core.driver import START, Driver, placed
from support.core.reports import applications_in

DEFAULT = PartitionName("[rm1]default")
FAIR = "application.sort.policy: fair"


def leaf(*properties: str, memory: int = 100, at: tuple[float, ...] = (0.0, 1.0)) -> Driver:
    """A core with one leaf and one node; applications app-0, app-1, … are submitted at these times."""
    driver = Driver()
    driver.do(register(config(f"[{{name: a, properties: {{{', '.join(properties)}}}}}]")))
    driver.do(nodes(node("n1", memory=memory)))
    for number, seconds in enumerate(at):
        driver.now = START + seconds
        driver.do(apps(app(f"app-{number}", "root.a")))
    return driver


def wave(app_id: str, count: int, priority: int = 0) -> list[Ask]:
    """This number of equal asks of one application."""
    return [ask(app_id, f"{app_id}-{i}", priority=priority, memory=1) for i in range(count)]


def served(driver: Driver) -> list[str]:
    """Run until the core is idle; return the application of each allocation, in order."""
    return [app_id for app_id, _, _ in placed(driver.run())]


@pytest.mark.row(93, 95)
def test_fifo_runs_applications_at_the_same_time() -> None:
    """In a fifo queue all applications run; an application without asks delays no other."""
    driver = leaf(at=(0.0, 1.0, 2.0))
    effects = driver.do(asks(*wave("app-1", 2)), asks(*wave("app-2", 2)))
    assert Counter(app_id for app_id, _, _ in placed(effects)) == {"app-1": 2, "app-2": 2}
    assert driver.app("app-0").state == "New"
    running = {a.app_id for a in applications_in(driver.views, DEFAULT) if a.state == "Running"}
    assert running == {"app-1", "app-2"}


@pytest.mark.row(94)
def test_fair_gives_applications_equal_usage() -> None:
    """Two applications with endless asks in a fair queue end with equal usage."""
    driver = leaf(FAIR, memory=20)
    driver.send(asks(*wave("app-0", 50), *wave("app-1", 50)))
    order = served(driver)
    assert Counter(order) == {"app-0": 10, "app-1": 10}
    assert all(abs(Counter(order[:n])["app-0"] * 2 - n) <= 1 for n in range(20))
