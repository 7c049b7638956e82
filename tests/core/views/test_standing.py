"""Where one ask stands: the same words as in a census, for a single ask."""

from licorne_core.messages.commands import PredicatePolicy
from licorne_core.values.ids import RmId
from licorne_core.views import Standing
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
    start,
    stop,
)
from support.core.driver import Driver

DEFAULT = "[rm1]default"


def stands(driver: Driver, key: str, *, app_id: str = "one", partition: str = "") -> Standing | None:
    """Where the ask stands."""
    return driver.views.standing(RmId(RM), partition, app_id, key)


def reason(driver: Driver, key: str) -> str | None:
    """What is in the way of the ask."""
    found = stands(driver, key)
    return None if found is None else found.reason


def test_an_ask_goes_from_reason_to_reason_until_it_is_placed() -> None:
    """The reason is that of now, and empty on a node; queue and partition are named in full."""
    driver = Driver()
    driver.do(
        register(config("[{name: a, resources: {max: {vcore: 4m}}}]")),
        apps(app("one", "root.a")),
        asks(ask("one", "k1", vcore=3), ask("one", "k2", vcore=3)),
    )
    assert reason(driver, "k2") == "PARTITION_NOT_SCHEDULING"
    driver.do(nodes(node("n1", vcore=10)))
    assert stands(driver, "k2") == (DEFAULT, "root.a", "QUEUE_MAX_EXCEEDED")
    assert reason(driver, "k1") == ""
    driver.do(stop("root.a"))
    assert reason(driver, "k2") == "QUEUE_STOPPED"
    driver.do(start("root.a"), releases(release("one", "k1")))
    assert reason(driver, "k2") == ""
    assert reason(driver, "k1") is None


def test_an_ask_that_the_rm_is_asked_about_waits_for_the_answer() -> None:
    """Until the RM has agreed the ask is not placed."""
    driver = Driver()
    driver.do(
        register(config("[{name: a}]"), predicates=PredicatePolicy(deadline=60.0)),
        nodes(node("n1", vcore=10)),
        apps(app("one", "root.a")),
        asks(ask("one", "k1", vcore=3, predicate="p")),
    )
    assert reason(driver, "k1") == "WAITS_FOR_ANSWER"


def test_what_is_not_there_stands_nowhere() -> None:
    """Names of partitions are those of the wire; an RM, a partition or a key may be unknown."""
    driver = Driver()
    driver.do(
        register(config("[{name: a}]")),
        apps(app("one", "root.a")),
        asks(ask("one", "k1", vcore=3)),
    )
    for partition in ("", "default", DEFAULT):
        assert stands(driver, "k1", partition=partition) is not None
    assert stands(driver, "k1", partition="other") is None
    assert stands(driver, "k1", partition="[rm2]default") is None
    assert stands(driver, "k1", app_id="two") is None
    assert stands(driver, "k2") is None
    assert driver.views.standing(RmId("rm2"), "", "one", "k1") is None
