"""Back-off of asks that their RM could not run (spec §§ 1.4, 1.6)."""

import pytest

from licorne_core.messages.commands import TerminationType
from licorne_core.values.ids import AppId, PartitionName
from licorne_core.views import Views
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
    remove_apps,
)
from support.core.driver import Driver, heard, keys
from support.core.steps import last

DEFAULT = PartitionName("[rm1]default")
LEAF = config("[{name: a}, {name: b}]")


@pytest.fixture
def driver() -> Driver:
    """A node with room for one ask, and an application in each of two queues."""
    driver = Driver()
    driver.do(register(LEAF), nodes(node("n", vcore=1)))
    driver.do(apps(app("one", "root.a"), app("two", "root.b")))
    return driver


def fail(driver: Driver, key: str, app_id: str = "one") -> list[str]:
    """Report that the RM could not run the ask; return the keys of the asks placed instead."""
    why = TerminationType.SCHEDULING_FAILED_ON_RM
    return keys(driver.do(releases(release(app_id, key, why=why))))


def code(views: Views, key: str) -> str:
    """The code of the first check that blocks an ask."""
    found = last(views.explain(DEFAULT, AppId("one"), key))
    return next(check.code for check in found.checks if not check.passed)


def test_each_failure_doubles_the_back_off_up_to_a_minute(driver: Driver) -> None:
    """An ask that always fails is tried after 1, 2, 4 … s, and later once a minute."""
    driver.do(asks(ask("one", "k", vcore=1)))
    for delay in (1, 2, 4, 8, 16, 32, 60, 60):
        assert fail(driver, "k") == []
        assert keys(driver.wait(delay - 0.5)) == []
        assert keys(driver.wait(0.5)) == ["k"]


def test_explain_chooses_an_ask_that_backs_off_if_no_other_is_pending(
    driver: Driver,
) -> None:
    """Explain without a key reports an ask in its back-off if no other ask is pending."""
    driver.do(asks(ask("one", "k", vcore=1)))
    fail(driver, "k")
    found = driver.explain("one", "")
    assert (found.key, found.verdict) == ("k", "pending")
    assert next(check.code for check in found.checks if not check.passed) == "ASK_BACKS_OFF"


def test_other_asks_are_served_during_a_back_off(driver: Driver) -> None:
    """During a back-off other asks of the class and of other queues are placed, then the ask itself."""
    driver.do(asks(ask("one", "k1", vcore=1, priority=9)))
    driver.do(asks(ask("one", "k2", vcore=1), ask("two", "k3", vcore=1)))
    assert fail(driver, "k1") == ["k2"]
    assert keys(driver.do(releases(release("one", "k2")))) == ["k3"]
    assert keys(driver.wait(1.0)) == []
    assert keys(driver.do(releases(release("two", "k3")))) == ["k1"]


def test_explain_shows_the_failures_and_the_end_of_a_back_off(driver: Driver) -> None:
    """The failed check is the back-off, with the number of failures in a row and the end of the back-off."""
    driver.do(asks(ask("one", "k", vcore=1)))
    fail(driver, "k")
    driver.wait(1.0)
    fail(driver, "k")
    found = driver.explain("one", "k")
    assert (found.verdict, found.summary) == (
        "pending",
        "ask k backs off: it failed at the RM 2 times in a row",
    )
    [check] = [check for check in found.checks if not check.passed]
    assert getattr(check, "until", None) == driver.now + 2.0
    driver.wait(2.0)
    assert driver.explain("one", "k").verdict == "allocated"


def test_each_failure_has_an_event(driver: Driver) -> None:
    """Each failure has a REQUEST event with the number of failures in a row and the delay, and is counted."""
    driver.do(asks(ask("one", "k", vcore=1)))
    driver.facts.clear()
    why = TerminationType.SCHEDULING_FAILED_ON_RM
    driver.send(releases(release("one", "k", why=why)))
    [told] = heard(driver, "REQUEST")
    assert "Request 'k' failed at the RM once and is tried again in 1 s" in told
    assert driver.views.counters(DEFAULT).allocations_failed_on_rm == 1


@pytest.mark.parametrize("how", ["long", "said", "new"])
def test_the_count_of_failures_is_reset(driver: Driver, how: str) -> None:
    """The count of failures is reset by a long run, by a report of the RM, and by a new ask under the key."""
    driver.do(asks(ask("one", "k", vcore=1)))
    fail(driver, "k")
    driver.wait(1.0)
    if how == "long":
        driver.wait(61.0)
    elif how == "said":
        driver.do(asks(ask("one", "k", vcore=1, on_node="n")))
    else:
        driver.do(releases(release("one", "k")))
        driver.do(asks(ask("one", "k", vcore=1)))
    assert fail(driver, "k") == []
    assert keys(driver.wait(1.0)) == ["k"]


def test_an_ask_that_backs_off_can_be_changed(driver: Driver) -> None:
    """An ask that backs off can be resized, placed by the RM, released and removed."""
    driver.do(nodes(node("m", vcore=9)))
    driver.do(asks(*(ask("one", key, vcore=1) for key in ("k1", "k2", "k3", "k4"))))
    for key in ("k1", "k2", "k3", "k4"):
        fail(driver, key)
    assert code(driver.views, "k1") == "ASK_BACKS_OFF"
    assert keys(driver.do(asks(ask("one", "k1", vcore=2)))) == []
    assert code(driver.views, "k1") == "ASK_BACKS_OFF"
    assert keys(driver.do(asks(ask("one", "k2", vcore=1, on_node="m")))) == ["k2"]
    assert keys(driver.do(releases(release("one", "k3")))) == []
    assert keys(driver.wait(1.0)) == ["k1", "k4"]
    for key in ("k1", "k4"):
        fail(driver, key)
    driver.do(remove_apps("one"))
    assert keys(driver.wait(60.0)) == []
