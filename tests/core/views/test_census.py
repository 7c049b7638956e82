"""The census of the asks and applications of a partition, and the state of one ask."""

from collections import Counter

from extensions.queue_stops.building import start, stop
from licorne_core.messages.commands import Hold, PredicatePolicy, SetHold
from licorne_core.messages.reports import Census
from licorne_core.values.ids import PartitionName, QueuePath, RmId
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
    remove_apps,
)
from support.core.driver import Driver

DEFAULT = PartitionName("[rm1]default")


def census(driver: Driver) -> Census:
    """The census of the partition, without its pauses."""
    *pauses, found = driver.views.census(DEFAULT)
    assert pauses == [None] * len(pauses)
    assert found is not None
    return found


def reasons(driver: Driver) -> Counter[str]:
    """The number of asks for each reason, over all queues."""
    found: Counter[str] = Counter()
    for (_, code), count in census(driver).pending.items():
        found[code] += count
    assert found.total() == driver.views.partition(DEFAULT).pending_asks
    return found


def test_asks_are_counted_by_queue_and_blocker() -> None:
    """Each pending ask counts once, under the check that blocks it; allocated asks do not count."""
    limits = "limits: [{limit: x, users: [bob], maxresources: {vcore: 2m}}]"
    driver = Driver()
    driver.do(
        register(config("[{name: a, resources: {max: {vcore: 4m}}}, {name: b}]", rest=limits)),
        nodes(node("n1", vcore=11)),
        apps(app("one", "root.a"), app("two", "root.b"), app("three", "root.b", user="bob")),
        asks(*[ask("one", f"a{n}", vcore=3) for n in range(4)], ask("one", "wide", vcore=5)),
        asks(ask("three", "c0", vcore=1), ask("three", "c", vcore=2), ask("three", "far", vcore=3)),
        asks(ask("two", "b1", vcore=9), ask("two", "b2", vcore=9), ask("two", "huge", vcore=12)),
    )
    assert census(driver).pending == {
        ("root.a", "QUEUE_MAX_EXCEEDED"): 3,
        ("root.a", "NEVER_FITS"): 1,
        ("root.b", "QUEUE_MAX_EXCEEDED"): 2,
        ("root.b", "USER_QUOTA_EXCEEDED"): 1,
        ("root.b", "NEVER_FITS"): 2,
    }
    reasons(driver)
    driver.do(nodes(node("n2", vcore=5)), releases(*(release("two", key) for key in ("b2", "b1", "huge"))))
    driver.do(asks(ask("two", "b3", vcore=8)))
    assert census(driver).pending[QueuePath("root.b"), "NO_NODE_FITS"] == 1


def test_asks_of_blocked_applications_are_counted() -> None:
    """Asks count under the hold, stopped queue or maximum of applications that blocks their application."""
    driver = Driver()
    driver.do(
        register(config("[{name: a, maxapplications: 1}]")),
        nodes(node("n1", vcore=10)),
        apps(app("one", "root.a"), app("two", "root.a")),
        asks(ask("one", "k1", vcore=1)),
        asks(ask("two", "k2", vcore=1), ask("two", "k3", vcore=2)),
    )
    assert reasons(driver) == {"QUEUE_MAX_APPLICATIONS": 2}
    driver.do(SetHold(rm_id=RmId(RM), hold=Hold.OUTBOX_FULL, on=True))
    assert reasons(driver) == {"PARTITION_NOT_SCHEDULING": 2}
    driver.do(SetHold(rm_id=RmId(RM), hold=Hold.OUTBOX_FULL, on=False), stop("root"))
    assert reasons(driver) == {"QUEUE_STOPPED": 2}


def test_placeholders_and_real_asks_are_counted() -> None:
    """Waiting placeholders count as asks, and real asks count as waiting for a placeholder."""
    driver = Driver()
    driver.do(
        register(config("[{name: a}]")),
        nodes(node("n1", vcore=3)),
        apps(app("gang", "root.a", gang={"vcore": 4})),
        asks(*[ask("gang", f"p{n}", vcore=2, placeholder=True, group="w") for n in range(2)]),
    )
    found = census(driver)
    assert (found.placeholders_waiting, found.placeholders) == (1, 1)
    assert (found.running["user", "ann"], found.usage["user", "ann"]) == (1, {"vcore": 2})
    driver.do(asks(ask("gang", "real", vcore=2, group="w"), ask("gang", "next", vcore=2, group="w")))
    assert reasons(driver) == {
        "REPLACES_PLACEHOLDER": 1,
        "WAITS_FOR_PLACEHOLDER": 1,
        "QUEUE_MAX_EXCEEDED": 1,
    }


def test_asks_with_an_open_check_are_counted() -> None:
    """An assumed ask counts as waiting, although its amounts are booked in its queue."""
    driver = Driver()
    driver.do(
        register(config("[{name: a}]"), predicates=PredicatePolicy()),
        nodes(node("n1", vcore=10)),
        apps(app("one", "root.a")),
        asks(ask("one", "k1", vcore=1, predicate="x")),
    )
    assert reasons(driver) == {"WAITS_FOR_ANSWER": 1}


def test_removed_applications_and_asks_are_not_counted() -> None:
    """Applications count by queue and state, and removed ones do not count."""
    driver = Driver()
    driver.do(
        register(config("[{name: a}]")),
        nodes(node("n1", vcore=10)),
        apps(app("one", "root.a"), app("two", "root.a")),
        asks(ask("one", "k1", vcore=1)),
    )
    assert census(driver).applications == {("root.a", "running"): 1, ("root.a", "new"): 1}
    driver.do(remove_apps("one", "two"))
    found = census(driver)
    assert not found.applications
    assert not found.pending
    assert not found.usage
    assert set(found.preemptions.values()) == {0}


PARTITION = "[rm1]default"


def stands(driver: Driver, key: str, *, app_id: str = "one", partition: str = "") -> Standing | None:
    """The state of an ask; None if it is unknown."""
    return driver.views.standing(RmId(RM), partition, app_id, key)


def reason(driver: Driver, key: str) -> str | None:
    """The reason why the ask waits; empty on a node, None if unknown."""
    found = stands(driver, key)
    return None if found is None else found.reason


def test_an_ask_reports_its_present_reason() -> None:
    """An ask has its present reason, empty once it is on a node, and full names of queue and partition."""
    driver = Driver()
    driver.do(
        register(config("[{name: a, resources: {max: {vcore: 4m}}}]")),
        apps(app("one", "root.a")),
        asks(ask("one", "k1", vcore=3), ask("one", "k2", vcore=3)),
    )
    assert reason(driver, "k2") == "PARTITION_NOT_SCHEDULING"
    driver.do(nodes(node("n1", vcore=10)))
    assert stands(driver, "k2") == (PARTITION, "root.a", "QUEUE_MAX_EXCEEDED")
    assert reason(driver, "k1") == ""
    driver.do(stop("root.a"))
    assert reason(driver, "k2") == "QUEUE_STOPPED"
    driver.do(start("root.a"), releases(release("one", "k1")))
    assert reason(driver, "k2") == ""
    assert reason(driver, "k1") is None


def test_an_assumed_ask_waits_for_the_answer_of_the_rm() -> None:
    """An ask is not reported as placed until the RM has accepted its node."""
    driver = Driver()
    driver.do(
        register(config("[{name: a}]"), predicates=PredicatePolicy(deadline=60.0)),
        nodes(node("n1", vcore=10)),
        apps(app("one", "root.a")),
        asks(ask("one", "k1", vcore=3, predicate="p")),
    )
    assert reason(driver, "k1") == "WAITS_FOR_ANSWER"


def test_the_state_of_an_unknown_ask_is_none() -> None:
    """An unknown RM, partition or key gives None; a partition is found by any name used on the wire."""
    driver = Driver()
    driver.do(
        register(config("[{name: a}]")),
        apps(app("one", "root.a")),
        asks(ask("one", "k1", vcore=3)),
    )
    for partition in ("", "default", PARTITION):
        assert stands(driver, "k1", partition=partition) is not None
    assert stands(driver, "k1", partition="other") is None
    assert stands(driver, "k1", partition="[rm2]default") is None
    assert stands(driver, "k1", app_id="two") is None
    assert stands(driver, "k2") is None
    assert driver.views.standing(RmId("rm2"), "", "one", "k1") is None
