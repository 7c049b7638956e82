"""Each backfilled allocation records whose planned start it passed in the order of asks at its placement."""

from extensions.backfill.test_shadows import CONSERVATIVE, at, job, starts, world
from licorne_core.messages.commands import TerminationType
from licorne_core.values.tags import RUNTIME
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, release, releases
from support.core.driver import Driver


def passed(driver: Driver) -> dict[str, str]:
    """By key of the allocation, the key of the holder that it passed; empty for none."""
    booked = [one for app in driver.partition.applications.values() for one in app.booked()]
    return {
        one.key: one.allocation.passed.key if one.allocation.passed else ""
        for one in booked
        if one.allocation
    }


def test_an_ask_behind_a_holder_passes_it() -> None:
    """An ask ahead of the holder in the order, or placed before the holder has a start, passes nobody."""
    driver = world(10, 4)
    driver.do(
        asks(job("first", "runs", 6, 100), job("first", "small", 4)), asks(job("second", "large", 8, 50))
    )
    driver.do(asks(job("third", "ends", 1, 100)), asks(job("first", "ahead", 1, 50)))
    driver.do(asks(job("second", "beside", 1, 50)))
    assert passed(driver) == {"runs": "", "small": "", "ends": "large", "ahead": "", "beside": "large"}
    assert driver.partition.counters.allocations_passing == 2


def test_a_holder_passes_others_but_not_itself() -> None:
    """Of two holders the later one starts first, and passes the earlier one, which passes nobody."""
    driver = world(10, 4, properties=CONSERVATIVE)
    driver.do(asks(job("first", "runs", 10, 100), job("first", "short", 4, 50)))
    driver.do(asks(job("second", "large", 8, 50)), asks(job("third", "next", 4, 60)))
    assert starts(driver) == {"large": (100.0, ["n0"]), "next": (50.0, ["n1"])}
    at(driver, 50.0)
    driver.do(releases(release("first", "short")))
    at(driver, 100.0)
    driver.do(releases(release("first", "runs")))
    assert passed(driver) == {"next": "large", "large": ""}


def test_the_order_at_the_decision_counts() -> None:
    """An ask of the queue with less usage passes nobody, although its queue has more after the placement."""
    driver = Driver()
    driver.do(register(config("[{name: a}, {name: b}]", properties="{backfill: easy}")))
    driver.do(nodes(node("n0", vcore=10)), apps(app("one", "root.a"), app("two", "root.b")))
    driver.do(asks(job("one", "runs", 3, 100)), asks(job("two", "small", 2, 100)))
    driver.do(asks(job("one", "large", 9, 50)))
    driver.do(asks(ask("two", "equal", vcore=4, tags={RUNTIME: "50"})))
    assert passed(driver) == {"runs": "", "small": "", "equal": ""}
    driver.do(asks(job("two", "behind", 1, 50)))
    assert passed(driver)["behind"] == "large"


def test_a_replacement_has_passed_the_holder_that_its_placeholder_passed() -> None:
    """The replacement of a backfilled placeholder counts as backfilled as well."""
    driver = world(10)
    driver.do(asks(job("first", "runs", 6, 100)), asks(job("second", "large", 8, 50)))
    at(driver, 1.0)
    driver.do(apps(app("gang", "root.a", gang={"vcore": 1}, tags={RUNTIME: "20"})))
    driver.do(asks(ask("gang", "room", placeholder=True, group="g", vcore=1)))
    assert passed(driver)["room"] == "large"
    driver.do(asks(ask("gang", "member", group="g", vcore=1)))
    driver.do(releases(release("gang", "room", why=TerminationType.PLACEHOLDER_REPLACED)))
    assert passed(driver) == {"runs": "", "member": "large"}
