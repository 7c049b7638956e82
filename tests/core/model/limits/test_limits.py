"""User and group limits, and how many applications may run (spec §§ 4.12, 10)."""

import pytest

from support.core.builders import RM, app, apps, ask, asks, config, node, nodes, register, release, releases
from support.core.driver import Driver, keys, placed, states
from support.core.steps import last

ROOMY = nodes(node("n1", vcore=1_000_000, memory=1_000_000))


def limited(queues: str, *limits: str) -> str:
    """A configuration whose root has these limits."""
    return config(queues, rest="limits:\n" + "\n".join(f"  - {limit}" for limit in limits))


def started(text: str, *submitted: object) -> Driver:
    """A driver with an empty cluster that everything fits in, and these applications."""
    driver = Driver()
    driver.do(register(text), ROOMY, apps(*submitted))  # type: ignore[arg-type]
    return driver


def used(driver: Driver, app_id: str) -> int:
    """The milli-cores that an application has."""
    partition = driver.views.resolve(f"[{RM}]default")
    return driver.views.application(partition, app_id).allocated.get("vcore", 0)


@pytest.mark.row(155)
def test_a_user_limit_is_for_each_user_listed() -> None:
    """A limit of ten for two users lets both of them have ten."""
    driver = started(
        limited("[{name: a}]", "{limit: x, users: [sue, bob], maxresources: {vcore: 10m}}"),
        app("s", "root.a", user="sue"),
        app("b", "root.a", user="bob"),
    )
    driver.do(asks(*(ask(who, f"{who}{n}", vcore=4) for who in "sb" for n in range(5))))
    assert (used(driver, "s"), used(driver, "b")) == (8, 8)


@pytest.mark.row(91)
def test_one_application_too_many_for_the_queue_waits() -> None:
    """A queue's maximum of applications counts those below it; the next starts when one ends."""
    driver = started(
        config("[{name: p, maxapplications: 1, queues: [{name: a, maxapplications: 1}]}]"),
        *(app(f"s{n}", "root.p.a") for n in range(3)),
    )
    effects = driver.do(asks(*(ask(f"s{n}", f"k{n}", vcore=1) for n in range(3))))
    assert keys(effects) == ["k0"]
    assert states(effects, "s1") == ["Accepted"]
    partition = driver.views.resolve(f"[{RM}]default")
    why = last(driver.views.explain(partition, "s1"))
    assert "1 of 1 applications run for queue root.p.a" in why.summary
    assert keys(driver.do(releases(release("s0", "k0")))) == ["k1"]


def test_replayed_allocations_count_and_are_never_refused() -> None:
    """What runs already is taken above the limit, and nothing more is given."""
    text = limited("[{name: a}]", "{limit: x, users: [sue], maxresources: {vcore: 2m}}")
    driver = started(text, app("s", "root.a", user="sue"))
    effects = driver.do(asks(ask("s", "old", vcore=5, on_node="n1"), ask("s", "new", vcore=1)))
    assert placed(effects) == [("s", "old", "n1")]


def test_a_user_at_the_limit_stops_nobody_else() -> None:
    """An ask that its user's limit stops does not hold up those behind it."""
    text = limited("[{name: a}]", "{limit: x, users: [sue], maxresources: {vcore: 1m}}")
    driver = started(text, app("s", "root.a", user="sue"), app("b", "root.a", user="bob"))
    driver.do(asks(ask("s", "s1", vcore=1), ask("s", "s2", vcore=1), ask("b", "b1", vcore=1)))
    assert (used(driver, "s"), used(driver, "b")) == (1, 1)
