"""The recount of each extension detects an error in its books; some extensions have more such tests."""

from collections.abc import Callable
from typing import Any

import pytest

from extensions.notice.test_notices import town, wanted
from licorne_core.extensions.budgets.messages import Budget, BudgetPattern, SetBudgets
from licorne_core.extensions.budgets.shared import budgets_of
from licorne_core.partitions.partition import Partition
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.ids import AppId
from licorne_core.views.audit.invariants import check_invariants
from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.core.driver import Driver

Slip = Callable[[Partition, Any], object]


def busy(properties: str, **tags: str) -> Driver:
    """A leaf with these properties, in which one application runs two asks and the ask of another waits."""
    driver = Driver()
    driver.do(
        register(config(f"[{{name: a, properties: {{{properties}}}}}]")),
        nodes(node("n1", vcore=3)),
        apps(app("app", "root.a", tags=tags), app("other", "root.a")),
        asks(*(ask("app", f"k{n}", vcore=1, group="g") for n in range(2))),
        asks(ask("other", "waits", vcore=3)),
    )
    return driver


def preempting() -> Driver:
    """A core with a victim under notice."""
    driver = town()
    assert wanted(driver, "needs") == ["young"]
    return driver


def bounded() -> Driver:
    """A core with a budget that has usage."""
    driver = busy("")
    driver.do(SetBudgets(budgets=(Budget(name="company", limit={"vcore": 9}, members=(BudgetPattern(),)),)))
    return driver


SLIPS: dict[str, tuple[Callable[[], Driver], Slip, str]] = {
    "ageing": (
        lambda: busy("ageing: 1/1h"),
        lambda part, own: setattr(own._ages[part.applications[AppId("other")]], "oldest", 1.0),
        "A4: .*ageing",
    ),
    "hours": (
        lambda: busy("budget.vcore-hours: 5/day"),
        lambda part, own: setattr(part.tree.get("root.a"), "interests", 0),
        "F2: queue root.a",
    ),
    "fair_memory": (
        lambda: busy("application.sort.policy: fair, fairshare.half-life: 1h"),
        lambda part, own: next(iter(own.usage.values())).amounts.update(vcore=7),
        "F1: ",
    ),
    "notice": (
        preempting,
        lambda part, own: part.timers.clear(),
        "L1: .*notice",
    ),
    "elastic": (
        lambda: busy("", **{"licorne/gang-min": "2"}),
        lambda part, own: setattr(part.applications[AppId("app")].gang.units, "size", 5),
        "G1: ",
    ),
    "state_aware": (
        lambda: busy("application.sort.policy: stateaware"),
        lambda part, own: setattr(part.tree.get("root.a"), "interests", 0),
        "L1: root.a has an admission",
    ),
    "budgets": (
        bounded,
        lambda part, own: budgets_of(part.rm.core).book.accounts["company"].total.allocated.update(vcore=9),
        "B1: budget company",
    ),
}
"""A core at work, a fault in the books of an extension, and the message of the audit."""


@pytest.mark.parametrize("name", SLIPS)
def test_the_recount_of_an_extension_detects_an_error(name: str) -> None:
    """The audit passes before the error, and afterwards fails with a text that names the difference."""
    scene, slip, said = SLIPS[name]
    driver = scene()
    check_invariants(driver.scheduler)
    partition = driver.partition
    slip(partition, partition.check_context.extensions[name])
    with pytest.raises(InvariantBroken, match=said):
        check_invariants(driver.scheduler)
