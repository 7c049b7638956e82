"""State-aware queues and back-off: applications that are not tried for a while (spec §§ 5.2, 8.3a)."""

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
from support.core.driver import Driver, keys, placed

AWARE = config("[{name: a, properties: {application.sort.policy: stateaware}}]")
BACKOFF = config(
    "[{name: a, properties: {application.unschedasks.backoff: '2', "
    "application.unschedasks.backoff.delay: 5s}}]"
)


def cluster(text: str, *app_ids: str, vcore: int = 1000, count: int = 1) -> Driver:
    """A core with this number of nodes, and applications submitted a second apart."""
    driver = Driver()
    driver.do(register(text), nodes(*(node(f"n{n}", vcore=vcore) for n in range(count))))
    for app_id in app_ids:
        driver.do(apps(app(app_id, "root.a")))
        driver.wait(1)
    return driver


def why(driver: Driver, app_id: str, key: str = "") -> str:
    """The summary of the explanation of an ask."""
    return driver.explain(app_id, key).summary


@pytest.mark.row(98)
def test_running_applications_are_ordered_by_creation() -> None:
    """Running applications are served oldest first, and before the application that is starting."""
    driver = cluster(AWARE, "one", "two", "three", vcore=5)
    for who in ("one", "two"):
        driver.do(asks(ask(who, f"{who}-a", vcore=1), ask(who, f"{who}-b", vcore=1)))
    effects = driver.do(asks(*(ask(who, f"{who}-c", vcore=1) for who in ("three", "two", "one"))))
    assert keys(effects) == ["one-c"]


@pytest.mark.parametrize(
    "goes", [releases(release("old", "huge")), releases(release("old")), remove_apps("old")]
)
def test_the_next_accepted_application_is_tried_after_the_end_of_the_older_one(goes: Command) -> None:
    """If an older application that fits nowhere is removed, or has no more asks, the younger is tried."""
    driver = cluster(AWARE, "old", "young", vcore=10)
    driver.do(asks(ask("old", "huge", vcore=11)))
    assert keys(driver.do(asks(ask("young", "y", vcore=1)))) == []
    assert keys(driver.do(goes)) == ["y"]


def test_a_tag_exempts_an_application_from_state_aware_starting() -> None:
    """An application with the tag is running after its first allocation, so the next one may start."""
    driver = Driver()
    driver.do(register(AWARE), nodes(node("n1", vcore=9)))
    driver.do(apps(app("one", "root.a", tags={"application.stateaware.disable": "true"})))
    driver.wait(1)
    driver.do(apps(app("two", "root.a")))
    effects = driver.do(asks(ask("two", "w1", vcore=1), ask("one", "o1", vcore=1)))
    assert keys(effects) == ["o1", "w1"]


def test_the_extra_configuration_changes_state_aware_to_fifo() -> None:
    """With the key in the extra configuration all applications are tried at once."""
    driver = cluster(AWARE, "one", "two")
    driver.do(asks(ask("one", "o1", vcore=1), ask("two", "w1", vcore=1)))
    assert keys(driver.do(reload(AWARE, extra={"stateaware-as-fifo": "true"}))) == ["w1"]


def test_a_reload_to_another_policy_ends_the_wait() -> None:
    """A reload to another sort policy lets all applications start."""
    driver = cluster(AWARE, "one", "two")
    driver.do(asks(ask("one", "o1", vcore=1), ask("two", "w1", vcore=1)))
    assert keys(driver.do(reload(AWARE.replace("stateaware", "fifo")))) == ["w1"]


@pytest.mark.row(103)
def test_a_back_off_is_repeated_while_asks_do_not_fit() -> None:
    """After the delay the application is tried once, and backs off again."""
    driver = cluster(BACKOFF, "one", vcore=10, count=9)
    driver.do(asks(*(ask("one", f"big{n}", vcore=20, priority=2) for n in range(2))))
    driver.do(asks(ask("one", "small", vcore=1)))
    assert keys(driver.wait(60)) == []
    assert "backs off" in why(driver, "one", "small")


def test_asks_above_a_quota_cause_no_back_off() -> None:
    """Asks beyond a queue's maximum do not count for a back-off (spec § 8.3)."""
    text = BACKOFF.replace("[{name: a, ", "[{name: a, resources: {max: {vcore: 5m}}, ")
    driver = cluster(text, "one", vcore=100)
    effects = driver.do(
        asks(*(ask("one", f"big{n}", vcore=50, priority=2) for n in range(3))),
        asks(ask("one", "small", vcore=1)),
    )
    assert keys(effects) == ["small"]


def test_an_application_has_started_with_its_second_allocation() -> None:
    """The second allocation ends the start of an application, even if the leaf is `fifo` at that time."""
    queues = config("[{name: a, properties: {application.sort.policy: stateaware}}]")
    driver = Driver()
    driver.do(
        register(queues),
        nodes(node("n", memory=10)),
        apps(app("a1", "root.a"), app("a2", "root.a")),
        asks(ask("a1", "k1", memory=1)),
        reload(queues, extra={"stateaware-as-fifo": "true"}),
        asks(ask("a1", "k2", memory=1)),
        reload(queues, extra={"stateaware-as-fifo": "false"}),
    )
    assert placed(driver.do(asks(ask("a2", "k", memory=1)))) == [("a2", "k", "n")]
