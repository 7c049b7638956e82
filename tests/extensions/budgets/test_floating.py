"""Floating resources: licences that no node has, which only budgets and maxima bound."""

from licorne_core.extensions.budgets.messages import Budget, BudgetPattern, SetBudgets
from licorne_core.messages.commands import NodeAction
from licorne_core.messages.reasons import QueueCheck
from licorne_core.values.ids import PartitionName
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, release, releases
from support.core.driver import Driver, keys
from support.core.steps import last

DEFAULT = PartitionName("[one]default")
LICENCES = Budget(name="all", limit={"licence": 2}, members=(BudgetPattern(),))


def floats(*budgets: Budget) -> SetBudgets:
    """A configuration of budgets in which licences float."""
    return SetBudgets(budgets=budgets, floating=frozenset({"licence"}))


def joined(*rms: str, queues: str = config("[{name: a}]")) -> Driver:
    """RMs with a node `n` and an application `app` in root.a each."""
    driver = Driver()
    for rm in rms:
        driver.do(register(queues, rm=rm), nodes(node("n", memory=100), rm=rm))
        driver.do(apps(app("app", "root.a"), rm=rm))
    return driver


def wants(driver: Driver, rm: str, *names: str, **size: int) -> list[str]:
    """Submit asks of an RM; return the keys of all allocations that follow."""
    return keys(driver.do(asks(*(ask("app", name, size=size) for name in names), rm=rm)))


def test_a_floating_type_needs_no_node() -> None:
    """Licences are bounded by the budget only, from the time at which they float."""
    driver = joined("one", "two")
    assert wants(driver, "one", "early", memory=1, licence=1) == []
    assert keys(driver.do(floats(LICENCES))) == ["early"]
    driver.do(nodes(node("later", memory=100), rm="two"))
    assert wants(driver, "two", "k1", "k2", memory=60, licence=1) == ["k1"]
    assert keys(driver.do(releases(release("app", "early"), rm="one"))) == ["k2"]


def test_no_report_of_nodes_shows_a_floating_type() -> None:
    """Nodes, partitions and root report the RM's amounts; the usage of queues includes floating types."""
    driver = joined("one")
    driver.do(floats(LICENCES))
    assert wants(driver, "one", "k", memory=1, licence=1) == ["k"]
    there = driver.views.node(DEFAULT, "n")
    assert [there.capacity, there.allocated] == [{"memory": 100}, {"memory": 1}]
    assert driver.views.partition(DEFAULT).capacity == {"memory": 100}
    root = driver.views.queue(DEFAULT, "root")
    assert (root.max, root.headroom, root.allocated["licence"]) == ({"memory": 100}, {"memory": 99}, 1)
    driver.do(asks(ask("app", "large", memory=500), rm="one"))
    found = last(driver.views.explain(DEFAULT, "app", "large")).checks
    assert [check.max for check in found if isinstance(check, QueueCheck)] == [None, {"memory": 100}]


def test_a_resized_node_still_has_floating_types() -> None:
    """Updates of a node's capacity, even repeated ones, do not change the node's floating types."""
    driver = joined("one")
    driver.do(floats(LICENCES), nodes(node("n", NodeAction.UPDATE, memory=50), rm="one"))
    assert wants(driver, "one", "k", memory=1, licence=1) == ["k"]
    assert driver.views.node(DEFAULT, "n").available == {"memory": 49}
    assert driver.do(nodes(node("n", NodeAction.UPDATE, memory=50), rm="one")) == []
    assert wants(driver, "one", "next", memory=1, licence=1) == ["next"]


def test_a_maximum_may_bound_a_floating_type() -> None:
    """A queue's maximum of licences applies besides the budget, and is reported."""
    driver = joined("one", queues=config("[{name: a, resources: {max: {licence: 1}}}]"))
    driver.do(floats())
    assert wants(driver, "one", "k1", "k2", memory=1, licence=1) == ["k1"]
    assert driver.views.queue(DEFAULT, "root.a").max == {"licence": 1}


def test_a_type_that_no_longer_floats_needs_a_node() -> None:
    """After licences stop floating, allocations continue, and new asks wait for a node that has licences."""
    driver = joined("one")
    driver.do(floats())
    assert wants(driver, "one", "k1", memory=1, licence=1) == ["k1"]
    assert driver.do(SetBudgets(budgets=())) == []
    assert wants(driver, "one", "k2", memory=1, licence=1) == []
    assert driver.views.node(DEFAULT, "n").available == {"memory": 99, "licence": -1}
