"""Releases by the RM: what is freed, what is acknowledged, and what is ignored (spec § 1.6.11)."""

import pytest

from licorne_core.messages.commands import ReleaseRequest, TerminationType
from licorne_core.values.ids import AppId, PartitionName
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
)
from support.core.driver import Driver, keys, released

DEFAULT = PartitionName("[rm1]default")
ACKNOWLEDGED = ("STOPPED_BY_RM", "allocation remove as per RM request")


@pytest.fixture
def driver() -> Driver:
    """Two allocations, k0 and k1, on a full node, and k2 waiting."""
    driver = Driver()
    driver.do(
        register(config("[{name: a}]")), nodes(node("n1", memory=2)), apps(app("app", "root.a"))
    )
    driver.do(asks(*(ask("app", f"k{i}", memory=1) for i in range(3))))
    return driver


def books(driver: Driver) -> tuple[object, ...]:
    """What the application has and waits for."""
    report = driver.views.application(DEFAULT, AppId("app"))
    return report.allocated, report.pending, report.allocation_count, report.pending_count


@pytest.mark.row(13)
def test_a_released_allocation_is_acknowledged(driver: Driver) -> None:
    """STOPPED_BY_RM frees an allocation and is told back; what waits takes the room."""
    effects = driver.do(releases(release("app", "k0")))
    assert released(effects) == [("app", "k0", *ACKNOWLEDGED)]
    assert keys(effects) == ["k2"]


@pytest.mark.row(14)
def test_a_released_ask_vanishes_silently(driver: Driver) -> None:
    """A pending ask that the RM releases is gone, and nothing is said about it."""
    assert driver.do(releases(release("app", "k2"))) == []
    assert books(driver) == ({"memory": 2}, {}, 2, 0)


@pytest.mark.row(15)
def test_a_release_without_key_frees_everything(driver: Driver) -> None:
    """An empty key frees all allocations and all asks of that application, and of no other."""
    driver.do(apps(app("other", "root.a")))
    driver.do(asks(ask("other", "mine", memory=1)))
    effects = driver.do(releases(release("app")))
    assert released(effects) == [("app", "k0", *ACKNOWLEDGED), ("app", "k1", *ACKNOWLEDGED)]
    assert books(driver) == ({}, {}, 0, 0)
    assert keys(effects) == ["mine"]


@pytest.mark.row(15)
def test_a_timeout_without_key_leaves_asks_alone(driver: Driver) -> None:
    """TIMEOUT frees allocations only, and is itself an answer: nothing is told back."""
    effects = driver.do(releases(release("app", why=TerminationType.TIMEOUT)))
    assert released(effects) == []
    assert keys(effects) == ["k2"]


@pytest.mark.row(16)
@pytest.mark.parametrize("why", list(TerminationType), ids=lambda why: why.name)
def test_a_repeated_release_is_harmless(driver: Driver, why: TerminationType) -> None:
    """A second release of one key, of any type, says nothing and changes nothing."""
    driver.do(releases(release("app", "k2")))
    driver.do(releases(release("app", "k0", why=why)))
    if why is TerminationType.SCHEDULING_FAILED_ON_RM:
        driver.do(releases(release("app", "k0")))
    before = books(driver)
    assert driver.do(releases(release("app", "k0", why=why))) == []
    assert books(driver) == before


@pytest.mark.row(12)
@pytest.mark.parametrize("why", [TerminationType.TIMEOUT, TerminationType.PREEMPTED_BY_SCHEDULER])
def test_a_confirmation_frees_and_is_not_acknowledged(driver: Driver, why: TerminationType) -> None:
    """What confirms a request of the core's frees the allocation, and the core says nothing."""
    effects = driver.do(releases(release("app", "k0", why=why)))
    assert released(effects) == []
    assert keys(effects) == ["k2"]


@pytest.mark.row(17)
def test_what_the_rm_could_not_run_is_scheduled_again(driver: Driver) -> None:
    """SCHEDULING_FAILED_ON_RM makes the allocation an ask again, with its old priority and age,
    and it is tried again after a second."""
    driver.do(nodes(node("n2", memory=1)))
    failed = release("app", "k0", why=TerminationType.SCHEDULING_FAILED_ON_RM)
    effects = driver.do(releases(failed))
    assert (released(effects), keys(effects)) == ([], [])
    assert keys(driver.wait(0.9)) == []
    assert keys(driver.wait(0.1)) == ["k0"]


@pytest.mark.parametrize(
    "unknown",
    [
        release("nobody", "k0"),
        release("nobody"),
        release("app", "k9"),
        release("app", "k0", partition="other"),
        release("app", "k0", partition="[rm2]default"),
        release("", "k0"),
    ],
    ids=["app", "app without key", "key", "partition", "foreign partition", "foreign allocation"],
)
def test_releases_of_what_is_not_there_are_ignored(driver: Driver, unknown: ReleaseRequest) -> None:
    """Nothing is said and nothing changes."""
    before = books(driver)
    assert driver.do(releases(unknown)) == []
    assert books(driver) == before


def test_the_most_that_an_application_had_is_remembered(driver: Driver) -> None:
    """It rises with what it has, stays when that goes, and rises again only above it."""

    def most() -> object:
        return driver.views.application(DEFAULT, AppId("app")).max_allocated

    driver.do(releases(release("app", "k2")))
    assert most() == {"memory": 2}
    driver.do(releases(release("app")))
    driver.do(asks(ask("app", "small", memory=1)))
    assert most() == {"memory": 2}
    driver.do(nodes(node("n2", memory=9)), asks(ask("app", "large", memory=4)))
    assert most() == {"memory": 5}
