"""Releases by the RM: freed amounts, confirmations, and ignored releases (spec § 1.6.11)."""

import pytest

from licorne_core.messages.commands import TerminationType
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, release, releases
from support.core.driver import Driver, keys, released


@pytest.fixture
def driver() -> Driver:
    """A full node with the allocations k0 and k1, while k2 waits."""
    driver = Driver()
    driver.do(register(config("[{name: a}]")), nodes(node("n1", memory=2)), apps(app("app", "root.a")))
    driver.do(asks(*(ask("app", f"k{i}", memory=1) for i in range(3))))
    return driver


def books(driver: Driver) -> tuple[object, ...]:
    """The allocated and pending amounts and counts of the application."""
    report = driver.app("app")
    return report.allocated, report.pending, report.allocation_count, report.pending_count


@pytest.mark.row(15)
def test_a_timeout_without_a_key_frees_allocations_only(driver: Driver) -> None:
    """A release by TIMEOUT without a key frees all allocations, keeps the asks, and is not answered."""
    effects = driver.do(releases(release("app", why=TerminationType.TIMEOUT)))
    assert released(effects) == []
    assert keys(effects) == ["k2"]


@pytest.mark.row(16)
@pytest.mark.parametrize("why", list(TerminationType), ids=lambda why: why.name)
def test_a_repeated_release_changes_nothing(driver: Driver, why: TerminationType) -> None:
    """A second release of one key, of any type, is not answered and changes nothing."""
    driver.do(releases(release("app", "k2")))
    driver.do(releases(release("app", "k0", why=why)))
    if why is TerminationType.SCHEDULING_FAILED_ON_RM:
        driver.do(releases(release("app", "k0")))
    before = books(driver)
    assert driver.do(releases(release("app", "k0", why=why))) == []
    assert books(driver) == before


def test_the_highest_usage_of_an_application_is_recorded(driver: Driver) -> None:
    """The highest usage of an application rises with its usage, and does not fall with it."""

    def most() -> object:
        return driver.app("app").max_allocated

    driver.do(releases(release("app", "k2")))
    assert most() == {"memory": 2}
    driver.do(releases(release("app")))
    driver.do(asks(ask("app", "small", memory=1)))
    assert most() == {"memory": 2}
    driver.do(nodes(node("n2", memory=9)), asks(ask("app", "large", memory=4)))
    assert most() == {"memory": 5}
