"""Strict queues: no application passes the first one (spec § 5.2)."""

import pytest

from licorne_core.messages.commands import Command
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
    remove_apps,
)
from support.core.driver import Driver, keys

STRICT = config("[{name: a, properties: {application.sort.policy: strict}}]")


def waiting(text: str = STRICT) -> Driver:
    """Of 4 thousandths of a core 2 are used; one application waits for 4, and a younger one for 1."""
    driver = Driver(sweep=50)
    driver.do(register(text), nodes(node("n1", vcore=4)))
    for app_id, vcore in (("runs", 2), ("large", 4), ("small", 1)):
        driver.do(apps(app(app_id, "root.a")), asks(ask(app_id, app_id, vcore=vcore)))
        driver.wait(0.1)
    return driver


def test_no_application_passes_the_first_one() -> None:
    """A younger application that would fit waits until the first application has been placed."""
    driver = waiting()
    why = driver.explain("small").summary
    assert why == "application large comes first in strict queue root.a"
    assert keys(driver.do(releases(release("runs", "runs")))) == ["large"]
    assert keys(driver.do(releases(release("large", "large")))) == ["small"]


@pytest.mark.parametrize(
    "change",
    [
        releases(release("large")),
        remove_apps("large"),
        reload(STRICT.replace("strict", "fifo")),
        reload(STRICT.replace("strict", "fair")),
    ],
)
def test_the_first_application_blocks_the_next_while_it_waits(change: Command) -> None:
    """Younger applications start when the first one has no more asks, is removed, or the policy changes."""
    assert keys(waiting().do(change)) == ["small"]


def test_a_reload_makes_a_queue_strict_at_once() -> None:
    """From a reload to `strict` until a reload to `fifo` no application passes the first one."""
    driver = waiting(STRICT.replace("strict", "stateaware"))
    driver.do(reload(STRICT))
    assert keys(driver.do(nodes(node("n2", vcore=1)))) == []
    assert keys(driver.do(reload(STRICT.replace("strict", "fifo")))) == ["small"]


def test_priority_determines_the_first_application() -> None:
    """A strict queue is ordered as `fifo` is: by priority first, unless that is disabled."""
    driver = waiting()
    driver.do(apps(app("urgent", "root.a")))
    assert keys(driver.do(asks(ask("urgent", "urgent", vcore=1, priority=5)))) == ["urgent"]
