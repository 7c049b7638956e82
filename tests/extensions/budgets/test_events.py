"""Events of asks that a budget blocks."""

from licorne_core.extensions.budgets.messages import Budget, BudgetPattern, SetBudgets
from licorne_core.messages.events.records import EventType
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
from support.core.driver import Driver, records

BOUND = SetBudgets(budgets=(Budget(name="all", limit={"memory": 3}, members=(BudgetPattern(),)),))


def limited(memory: int) -> str:
    """A leaf in which each user may use this amount of memory."""
    limit = f"{{limit: l, users: ['*'], maxresources: {{memory: {memory}}}}}"
    return config(f"[{{name: a, limits: [{limit}]}}]")


def waiting(memory: int) -> Driver:
    """A node with enough room, and a leaf in which each user is limited to this amount of memory."""
    driver = Driver()
    driver.do(register(limited(memory)), nodes(node("n1", memory=20)))
    return driver


def told(driver: Driver) -> list[str]:
    """The messages about asks since the previous call."""
    found = [one.message for one in records(driver) if one.type is EventType.REQUEST and one.message]
    driver.facts.clear()
    return found


def test_an_ask_above_a_budget_has_one_event_until_it_fits() -> None:
    """The event has the budget and the amount that remains of it over all RMs."""
    driver = waiting(20)
    driver.do(BOUND, apps(app("app", "root.a")), asks(ask("app", "k1", memory=2)))
    driver.do(asks(ask("app", "k2", memory=2)), nodes(node("n2", memory=1)))
    assert told(driver) == [
        "Request 'k2' exceeds budget 'all' (requested map[memory:2], available map[memory:1])"
    ]
    driver.do(releases(release("app", "k1")))
    assert told(driver) == ["Request 'k2' fits in budget 'all'"]


def test_limits_of_users_have_events_before_budgets() -> None:
    """An ask above a user's limit and a budget has an event of the limit, and of the budget once it fits."""
    driver = waiting(20)
    driver.do(BOUND, apps(app("app", "root.a")), asks(ask("app", "k1", memory=2)))
    driver.do(asks(ask("app", "k2", memory=2)))
    told(driver)
    driver.do(reload(limited(3)))
    user = "the available user quota"
    assert told(driver) == [
        f"Request 'k2' exceeds {user} (requested map[memory:2], available map[memory:1])",
        "Request 'k2' fits in budget 'all'",
    ]
    driver.do(reload(limited(20)))
    assert told(driver) == [
        f"Request 'k2' fits in {user}",
        "Request 'k2' exceeds budget 'all' (requested map[memory:2], available map[memory:1])",
    ]
