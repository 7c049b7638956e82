"""The order of users in a fair leaf, and of sibling queues, by their usage (spec §§ 4.9, 5.2)."""

from collections import Counter

import pytest

from licorne_core.messages.commands import Tick
from licorne_core.scheduling import order
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, reload
from support.core.driver import Driver, placed
from support.core.steps import lines_in

FAIR = config("[{name: a, properties: {application.sort.policy: fair}}, {name: b}]")


def cluster(slots: int, **counts: int) -> Driver:
    """A node with this number of free cores, and applications of users, named by number and user."""
    driver = Driver(sweep=200)
    driver.do(register(FAIR), nodes(node("n1", vcore=slots)))
    driver.do(apps(*(app(name, "root.a", user=name.partition("-")[2]) for name in names(counts))))
    return driver


def names(counts: dict[str, int]) -> list[str]:
    """The names of the applications of these users."""
    return [f"{number:03}-{user}" for user, count in counts.items() for number in range(count)]


def started(driver: Driver, *wanted: tuple[str, int]) -> Counter[str]:
    """The new allocations of each user after the applications have submitted this number of asks."""
    made = (ask(app_id, f"{app_id}-{number}", vcore=1) for app_id, count in wanted for number in range(count))
    return Counter(app_id.partition("-")[2] for app_id, *_ in placed(driver.do(asks(*made))))


def test_users_of_a_fair_leaf_have_equal_usage() -> None:
    """A user with one application receives as much as a user with nine."""
    counts = {"ann": 1, "ben": 9}
    found = started(cluster(20, **counts), *((name, 20) for name in names(counts)))
    assert found == {"ann": 10, "ben": 10}


def test_applications_of_one_user_are_ordered_by_usage() -> None:
    """Applications of the only user in a leaf are ordered by their usage."""
    driver = cluster(6, ann=3)
    made = (ask(name, f"{name}{number}", vcore=1) for name in names({"ann": 3}) for number in range(6))
    effects = driver.do(asks(*made))
    assert [app_id[:3] for app_id, *_ in placed(effects)] == ["000", "001", "002"] * 2


def test_priority_precedes_the_usage_of_a_user() -> None:
    """The user with an ask of higher priority comes first, whatever the usage."""
    driver = cluster(4, ann=1, ben=1)
    assert started(driver, ("000-ben", 4)) == {"ben": 4}
    driver.do(asks(ask("000-ann", "low", vcore=1), ask("000-ben", "high", vcore=1, priority=1)))
    assert [key for _, key, _ in placed(driver.do(nodes(node("n2", vcore=1))))] == ["high"]
    assert [key for _, key, _ in placed(driver.do(nodes(node("n3", vcore=1))))] == ["low"]


@pytest.mark.parametrize("before", ["fair", "fifo"])
def test_a_reload_of_the_policy_reorders_users_at_once(before: str) -> None:
    """A reload to `fair` orders users by their present usage, and a reload to `fifo` by submission."""
    after = {"fair": "fifo", "fifo": "fair"}[before]
    text = FAIR.replace("fair", before)
    driver = Driver(sweep=50)
    driver.do(register(text), nodes(node("n1", vcore=4)))
    driver.do(apps(app("one", "root.a", user="ann"), app("two", "root.a", user="ben")))
    driver.do(asks(*(ask("one", f"one-{number}", vcore=1) for number in range(8))))
    driver.do(asks(*(ask("two", f"two-{number}", vcore=1) for number in range(8))))
    driver.do(reload(text.replace(before, after)))
    found = placed(driver.do(nodes(node("n2", vcore=4))))
    assert {app_id for app_id, *_ in found} == {"two" if after == "fair" else "one"}


@pytest.mark.parametrize("guaranteed", ["3", "4", "4500m"])
def test_types_without_a_guarantee_order_equal_shares(guaranteed: str) -> None:
    """Of queues with equal shares of guarantees, the one with less usage of other types comes first."""
    sizes = f"resources: {{guaranteed: {{vcore: {guaranteed}}}}}"
    driver = Driver(sweep=50)
    driver.do(register(config(f"[{{name: a, {sizes}}}, {{name: b, {sizes}}}]")))
    driver.do(nodes(node("n1", vcore=9000, memory=18)), apps(app("x", "root.a"), app("y", "root.b")))
    large = [ask("x", f"x{number}", vcore=1000, memory=4) for number in range(9)]
    small = [ask("y", f"y{number}", vcore=3000, memory=1) for number in range(9)]
    found = Counter(app_id for app_id, *_ in placed(driver.do(asks(*large, *small))))
    assert found == {"x": 3, "y": 2}


@pytest.mark.pure
def test_an_allocation_does_not_rank_other_applications_of_the_user() -> None:
    """Ten allocations compute as many keys for 20 applications of a user as for 200."""

    def work(count: int) -> int:
        driver = cluster(1000, ann=count, ben=count)
        made = [ask(name, name, vcore=1) for name in names({"ann": count, "ben": count})]
        driver.begin(asks(*made))
        driver.begin(Tick(decisions=1))
        return lines_in(lambda: driver.begin(Tick(decisions=10)), order)["app_key"]

    assert work(200) == work(20)
