"""User and group limits, and how many applications may run (spec §§ 4.12, 10)."""

import pytest

from support.core.builders import (
    RM,
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


@pytest.mark.row(156)
def test_a_group_limit_is_shared_by_its_members() -> None:
    """Members of one group have no more together than the limit says."""
    driver = started(
        limited("[{name: a}]", "{limit: x, groups: [dev], maxresources: {vcore: 10m}}"),
        app("s", "root.a", user="sue", groups=["dev"]),
        app("b", "root.a", user="bob", groups=["dev"]),
        app("o", "root.a", user="oda", groups=["ops"]),
    )
    driver.do(asks(*(ask(who, f"{who}{n}", vcore=2) for n in range(5) for who in "sbo")))
    assert used(driver, "s") + used(driver, "b") == 10
    assert used(driver, "o") == 10


@pytest.mark.row(157)
def test_the_wildcard_is_for_everybody_not_named() -> None:
    """A wildcard limit holds for each user without a limit of their own, one by one."""
    driver = started(
        limited(
            "[{name: a}]",
            "{limit: x, users: [sue], maxresources: {vcore: 10m}}",
            "{limit: y, users: ['*'], maxresources: {vcore: 2m}}",
        ),
        *(app(user[0], "root.a", user=user) for user in ("sue", "bob", "oda")),
    )
    driver.do(asks(*(ask(who, f"{who}{n}", vcore=1) for n in range(12) for who in "sbo")))
    assert [used(driver, who) for who in "sbo"] == [10, 2, 2]


@pytest.mark.row(157)
def test_the_wildcard_group_is_one_group_of_all_the_others() -> None:
    """A wildcard group limit is shared by all users that no named group is theirs."""
    driver = started(
        limited(
            "[{name: a}]",
            "{limit: x, groups: [dev], maxresources: {vcore: 10m}}",
            "{limit: y, groups: ['*'], maxresources: {vcore: 3m}}",
        ),
        app("s", "root.a", user="sue", groups=["dev"]),
        app("b", "root.a", user="bob", groups=["b"]),
        app("o", "root.a", user="oda", groups=["o"]),
    )
    driver.do(asks(*(ask(who, f"{who}{n}", vcore=1) for n in range(12) for who in "sbo")))
    assert used(driver, "s") == 10
    assert used(driver, "b") + used(driver, "o") == 3


@pytest.mark.row(158)
def test_limits_hold_at_every_level() -> None:
    """A limit at root bounds what a user has in all queues together."""
    driver = started(
        limited(
            "[{name: a, limits: [{limit: z, users: [sue], maxresources: {vcore: 6m}}]}, {name: b}]",
            "{limit: x, users: [sue], maxresources: {vcore: 10m}}",
        ),
        app("s1", "root.a", user="sue"),
        app("s2", "root.b", user="sue"),
    )
    driver.do(asks(*(ask("s1", f"x{n}", vcore=1) for n in range(12))))
    assert used(driver, "s1") == 6
    driver.do(asks(*(ask("s2", f"y{n}", vcore=1) for n in range(12))))
    assert used(driver, "s2") == 4
    driver.do(releases(release("s1", "x0")))
    assert used(driver, "s1") + used(driver, "s2") == 10


@pytest.mark.row(159)
def test_a_third_application_of_the_user_waits() -> None:
    """With two applications running the third stays Accepted until one has nothing left."""
    driver = started(
        limited("[{name: a}]", "{limit: x, users: [sue], maxapplications: 2}"),
        *(app(f"s{n}", "root.a", user="sue") for n in range(3)),
    )
    effects = driver.do(asks(*(ask(f"s{n}", f"k{n}", vcore=1) for n in range(3))))
    assert keys(effects) == ["k0", "k1"]
    assert states(effects, "s2") == ["Accepted"]
    assert keys(driver.do(releases(release("s0", "k0")))) == ["k2"]


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


@pytest.mark.row(160)
def test_a_raised_limit_lets_the_waiting_ask_in() -> None:
    """A reload with a higher limit is in force at once."""
    text = limited("[{name: a}]", "{limit: x, users: [sue], maxresources: {vcore: 1m}}")
    driver = started(text, app("s", "root.a", user="sue"))
    driver.do(asks(ask("s", "k1", vcore=1), ask("s", "k2", vcore=1)))
    assert used(driver, "s") == 1
    why = last(driver.views.explain(driver.views.resolve("default"), "s"))
    assert "exceeds the limit of user sue in queue root" in why.summary
    assert keys(driver.do(reload(text.replace("1m", "2m")))) == ["k2"]


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
