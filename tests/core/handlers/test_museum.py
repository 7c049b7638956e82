"""Known bugs of other schedulers, each as a test of the right outcome."""

from licorne_core.messages.commands import TerminationType
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, release, releases
from support.core.driver import Driver, keys, stopped

POOR = "{name: poor, resources: {guaranteed: {memory: 2}}, properties: {preemption.delay: 5s}}"
FAMILY = """{name: p, resources: {guaranteed: {memory: 4}}, properties: {preemption.delay: 5s},
  queues: [{name: a}, {name: b}]}"""


def started(queues: str, *names: str) -> Driver:
    """A core with these queues, and nodes of one byte of memory each."""
    driver = Driver()
    driver.do(register(config(queues)), nodes(*(node(name, memory=1) for name in names)))
    return driver


def test_siblings_below_one_guarantee_do_not_preempt_each_other() -> None:
    """Neither of two siblings preempts the other: otherwise each victim would preempt in turn, endlessly."""
    driver = started(f"[{FAMILY}, {{name: other}}]", "n1", "n2", "n3")
    driver.do(apps(app("one", "root.p.a"), app("two", "root.p.b"), app("rest", "root.other")))
    driver.do(asks(*(ask("one", f"a{i}", policy="so", memory=1) for i in (1, 2))))
    driver.do(asks(ask("rest", "r1", memory=1, priority=9)))
    driver.do(asks(ask("two", "b1", policy="so", memory=1)))
    assert stopped(driver.wait(60)) == []
    # An allocation without a guarantee may be preempted if its priority is not higher.
    driver.do(asks(ask("two", "b2", policy="so", memory=1, priority=9)))
    assert stopped(driver.wait(60)) == ["r1"]


def test_a_promise_ends_with_its_ask() -> None:
    """After the removal of the beneficiary, the room of its victim is free for any ask."""
    driver = started(f"[{{name: rich}}, {POOR}]", "n1", "n2")
    driver.do(apps(app("rich", "root.rich"), app("poor", "root.poor")))
    driver.do(asks(*(ask("rich", f"r{i}", policy="so", memory=1) for i in (1, 2))))
    driver.do(asks(ask("poor", "p1", policy="so", memory=1)))
    (victim,) = stopped(driver.wait(5))
    driver.do(releases(release("poor", "p1")))
    driver.do(asks(ask("rich", "r3", memory=1)))
    why = TerminationType.PREEMPTED_BY_SCHEDULER
    assert keys(driver.do(releases(release("rich", victim, why=why)))) == ["r3"]
