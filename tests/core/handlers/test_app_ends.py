"""The ends of applications, and rejected submissions (spec §§ 3.12, 5.1)."""

import pytest

from licorne_core.messages.commands import TerminationType
from licorne_core.messages.effects import ApplicationsAnswered
from licorne_core.model.apps.states import TERMINATED_TIME
from licorne_core.values.ids import PartitionName
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
from support.core.driver import Driver, keys, messages, refused, refused_apps, released, states
from support.core.reports import applications_in

DEFAULT = PartitionName("[rm1]default")


@pytest.fixture
def driver() -> Driver:
    """A node with room for two asks, and the application `job`."""
    driver = Driver()
    driver.do(register(config("[{name: a}]")), nodes(node("n1", memory=2)))
    driver.do(apps(app("job", "root.a")))
    return driver


def listed(driver: Driver, state: str) -> list[str]:
    """The ids of the applications that reports list under this state."""
    return [report.app_id for report in applications_in(driver.views, DEFAULT, state=state)]


@pytest.mark.row(105)
def test_every_update_names_the_event_of_its_state(driver: Driver) -> None:
    """Each state sent to the RM, from acceptance to expiry, has the event that led to the state."""
    effects = driver.do(asks(ask("job", "k", memory=1)), releases(release("job")))
    effects += driver.wait(TERMINATED_TIME + 31)
    assert messages(effects) == [
        ("Accepted", "runApplication"),
        ("Running", "runApplication"),
        ("Completing", "completeApplication"),
        ("Completed", "completeApplication"),
        ("Expired", "expireApplication"),
    ]
    assert listed(driver, "completed") == []


@pytest.mark.row(105)
def test_an_application_without_an_ask_remains_new(driver: Driver) -> None:
    """An application without an ask neither completes nor expires, however long it waits."""
    assert driver.wait(TERMINATED_TIME * 2) == []
    assert driver.app("job").state == "New"


@pytest.mark.row(109)
def test_a_rejected_application_is_listed_for_three_days(driver: Driver) -> None:
    """A rejected application is listed with its reason for three days; then its expiry is sent to the RM."""
    reasons = refused_apps(driver.do(apps(app("one", "nowhere"), app("two", "nowhere"))))
    shown = {r.app_id: r.message for r in applications_in(driver.views, DEFAULT, state="rejected")}
    assert shown == reasons
    driver.wait(TERMINATED_TIME - 1)
    assert listed(driver, "rejected") == ["one", "two"]
    assert messages(driver.wait(1.0)) == [("Expired", "expireApplication")] * 2
    assert listed(driver, "rejected") == []


@pytest.mark.row(109)
def test_a_rejection_is_still_listed_when_the_id_is_accepted(driver: Driver) -> None:
    """A rejection is listed beside an accepted application of the same id; its expiry is not sent."""
    driver.do(apps(app("one", "nowhere"), app("two", "nowhere")))
    driver.wait(60.0)
    assert refused_apps(driver.do(apps(app("one", "root.a")))) == {}
    assert listed(driver, "rejected") == ["one", "two"]
    assert driver.app("one").state == "New"
    driver.do(asks(ask("one", "waits", memory=10**6)))
    told = driver.wait(TERMINATED_TIME - 60.0)
    assert (messages(told), listed(driver, "rejected")) == ([("Expired", "expireApplication")], [])
    assert driver.app("one").state == "Accepted"

    driver.do(asks(ask("job", "k", memory=1)), releases(release("job")))
    driver.wait(30.0)
    assert listed(driver, "completed") == ["job"]
    driver.do(apps(app("job", "nowhere")))
    assert refused_apps(driver.do(apps(app("job", "root.a")))) == {}
    ended = [listed(driver, state) for state in ("active", "rejected", "completed")]
    assert ended == [["job", "one"], ["job"], ["job"]]


@pytest.mark.row(109)
def test_the_latest_ended_application_of_an_id_is_listed(driver: Driver) -> None:
    """A completed application replaces an older rejection of its id, and is replaced by a later one."""

    def shown() -> str:
        return driver.app("job").state

    driver.do(asks(ask("job", "k", memory=1)), releases(release("job")))
    driver.wait(30.0)
    assert shown() == "Completed"
    driver.wait(1.0)
    driver.do(apps(app("job", "nowhere")))
    assert shown() == "Rejected"
    driver.wait(1.0)
    driver.do(apps(app("job", "root.a")), asks(ask("job", "k", memory=1)), releases(release("job")))
    assert shown() == "Completing"
    driver.wait(30.0)
    assert shown() == "Completed"


@pytest.mark.row(109)
def test_the_last_rejection_of_an_id_is_listed(driver: Driver) -> None:
    """A second rejection replaces the first, and is itself listed for three days."""
    driver.do(apps(app("one", "nowhere"), app("two", "nowhere")))
    driver.wait(60.0)
    again = refused_apps(driver.do(apps(app("one", "root.a.b"))))
    driver.wait(TERMINATED_TIME - 60.0)
    shown = {r.app_id: r.message for r in applications_in(driver.views, DEFAULT, state="rejected")}
    assert shown == again
    driver.wait(60.0)
    assert listed(driver, "rejected") == []


@pytest.mark.row(108, 109)
def test_a_repeated_submission_is_not_listed(driver: Driver) -> None:
    """A repeated submission of a present application is rejected, and not listed as rejected."""
    assert list(refused_apps(driver.do(apps(app("job", "root.a", user="bob"))))) == ["job"]
    assert (listed(driver, "rejected"), listed(driver, "active")) == ([], ["job"])


@pytest.mark.row(109)
def test_a_new_registration_drops_rejected_applications(driver: Driver) -> None:
    """A new registration empties the list of rejections, and no expiry is sent."""
    driver.do(apps(app("one", "nowhere")))
    driver.do(register(config("[{name: a}]")))
    assert listed(driver, "rejected") == []
    assert driver.wait(TERMINATED_TIME) == []


@pytest.mark.row(11, 108)
def test_the_second_submission_in_a_request_is_rejected(driver: Driver) -> None:
    """Of two submissions of one id in a request the first is accepted, and the second is rejected."""
    both = apps(app("new", "root.a"), app("new", "root.a", user="bob"))
    (answer,) = driver.do(both)
    assert isinstance(answer, ApplicationsAnswered)
    assert answer.accepted == ["new"]
    assert [rejection.app_id for rejection in answer.rejected] == ["new"]
    assert driver.app("new").user == "ann"


@pytest.mark.row(107)
def test_removing_a_completing_application_sends_nothing(driver: Driver) -> None:
    """The removal of a completing application sends nothing, cancels its timer, and frees its id."""
    driver.do(asks(ask("job", "k", memory=1)), releases(release("job")))
    assert driver.do(remove_apps("job")) == []
    assert refused_apps(driver.do(apps(app("job", "root.a")))) == {}
    assert driver.wait(60.0) == []


@pytest.mark.row(106)
@pytest.mark.parametrize("on_node", [None, "n1"], ids=["an ask", "an allocation"])
def test_a_new_ask_resumes_a_completing_application(driver: Driver, on_node: str | None) -> None:
    """An ask or an allocation within thirty seconds makes a completing application run again."""
    driver.do(asks(ask("job", "k", memory=1)), releases(release("job")))
    driver.wait(29.0)
    effects = driver.do(asks(ask("job", "late", memory=1, on_node=on_node)))
    assert (states(effects, "job"), keys(effects)) == (["Running"], ["late"])
    assert driver.wait(60.0) == []


def test_an_ask_of_a_completed_application_is_refused(driver: Driver) -> None:
    """An ask of a completed application is refused, unless the application is submitted again."""
    driver.do(asks(ask("job", "k", memory=1)), releases(release("job")))
    driver.wait(31.0)
    late = ask("job", "late", memory=1)
    assert refused(driver.do(asks(late))) == {"late": "failed to find application job"}


@pytest.mark.row(17)
def test_a_late_failure_report_is_ignored(driver: Driver) -> None:
    """A failure report has no effect on an unknown key, a pending ask, or a removed application."""
    driver.do(asks(*(ask("job", f"k{i}", memory=1) for i in range(3))))
    failed = TerminationType.SCHEDULING_FAILED_ON_RM
    for app_id, key in (("job", "k2"), ("job", "k9"), ("nobody", "k0"), ("job", "")):
        assert driver.do(releases(release(app_id, key, why=failed))) == []
    assert driver.app("job").allocation_count == 2


@pytest.mark.row(57)
def test_applications_of_a_removed_partition_fail() -> None:
    """Applications of a removed partition fail; their allocations are released, and their asks removed."""
    second = config("[{name: a}]", name="second").removeprefix("partitions:\n")
    driver = Driver()
    driver.do(register(config("[{name: a}]") + second))
    driver.do(nodes(node("n1", partition="second", memory=1)))
    driver.do(apps(app("job", "root.a", partition="second")))
    driver.do(asks(*(ask("job", f"k{i}", partition="second", memory=1) for i in range(2))))
    effects = driver.do(reload(config("[{name: a}]")))
    why = "PartitionRemoved"
    assert messages(effects) == [("Failing", why), ("Failed", why)]
    assert released(effects) == [("job", "k0", "STOPPED_BY_RM", why)]
    assert driver.do(releases(release("job", "k0", partition="second"))) == []
