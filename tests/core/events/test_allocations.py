"""What those who watch hear of asks and allocations (spec § 12.1.4)."""

import pytest

from licorne_core.events.allocations import predicates_refused
from licorne_core.messages.commands import TerminationType
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, release, releases
from support.core.driver import Driver
from support.core.watching import heard, shown

LIMITED = "[{name: a, limits: [{limit: l, groups: [ops], maxresources: {memory: 9}}]}]"
NAMED = {
    TerminationType.STOPPED_BY_RM: "ALLOC_CANCEL",
    TerminationType.UNKNOWN: "ALLOC_CANCEL",
    TerminationType.TIMEOUT: "ALLOC_TIMEOUT",
    TerminationType.PREEMPTED_BY_SCHEDULER: "ALLOC_PREEMPT",
    TerminationType.PLACEHOLDER_REPLACED: "ALLOC_REPLACED",
}


@pytest.fixture
def driver() -> Driver:
    """A core with a node of 4 and an application of a limited group, all of which was heard."""
    driver = Driver()
    driver.do(
        register(config(LIMITED)),
        nodes(node("n1", memory=4)),
        apps(app("app", "root.a", groups=["ops"])),
    )
    driver.facts.clear()
    return driver


def test_an_existing_allocation_is_told_like_one_that_was_made(driver: Driver) -> None:
    """It was never asked for, and its application passes through Accepted."""
    driver.send(asks(ask("app", "k1", on_node="n1", memory=1)))
    assert heard(driver) == [
        "APP app SET APP_ACCEPTED: runApplication",
        "NODE n1 ADD NODE_ALLOC k1 memory=1",
        "APP app SET APP_RUNNING: runApplication",
        "USERGROUP ann ADD UG_USER_RESOURCE root.a memory=1",
        "USERGROUP ops ADD UG_GROUP_RESOURCE root.a memory=1",
        "APP app ADD APP_ALLOC k1 memory=1",
    ]


@pytest.mark.parametrize("why", NAMED, ids=lambda why: why.name)
def test_a_release_says_why_an_allocation_ended(driver: Driver, why: TerminationType) -> None:
    """User and group, state with the last one, application, node, and the ask in the end."""
    driver.do(asks(ask("app", "k1", memory=1)))
    driver.facts.clear()
    driver.send(releases(release("app", "k1", why=why)))
    assert heard(driver) == [
        "USERGROUP ann REMOVE UG_USER_RESOURCE root.a memory=1",
        "USERGROUP ops REMOVE UG_GROUP_RESOURCE root.a memory=1",
        "APP app SET APP_COMPLETING: completeApplication",
        f"APP app REMOVE {NAMED[why]} k1 memory=1",
        "NODE n1 REMOVE NODE_ALLOC k1 memory=1",
        "APP app REMOVE REQUEST_CANCEL k1 memory=1",
    ]


def test_an_application_completes_with_its_last_allocation_only(driver: Driver) -> None:
    """Several released at once: APP_COMPLETING stands with the last of them."""
    driver.do(asks(ask("app", "k1", memory=1), ask("app", "k2", memory=1)))
    driver.facts.clear()
    driver.send(releases(release("app")))
    found = heard(driver, "APP")
    assert found[2] == "APP app SET APP_COMPLETING: completeApplication"
    assert found[3] == "APP app REMOVE ALLOC_CANCEL k2 memory=1"


def test_a_cancelled_ask_may_complete_its_application(driver: Driver) -> None:
    """REQUEST_CANCEL, then the state that follows; an unknown key is not heard of."""
    driver.send(asks(ask("app", "k1", memory=1)))
    driver.facts.clear()
    driver.send(releases(release("app", "k1"), release("app", "unknown")))
    assert heard(driver) == [
        "APP app REMOVE REQUEST_CANCEL k1 memory=1",
        "APP app SET APP_COMPLETING: completeApplication",
    ]


def test_an_allocation_that_the_rm_could_not_run_is_asked_for_still(driver: Driver) -> None:
    """The allocation is cancelled, the ask is not: it never went away."""
    driver.do(asks(ask("app", "k1", memory=1)))
    driver.facts.clear()
    why = TerminationType.SCHEDULING_FAILED_ON_RM
    driver.send(releases(release("app", "k1", why=why)))
    assert heard(driver, "APP") == ["APP app REMOVE ALLOC_CANCEL k1 memory=1"]


def test_a_resized_allocation_changes_what_user_and_group_have(driver: Driver) -> None:
    """The difference is told: what came as added, what went as removed, the same size not."""
    driver.send(asks(ask("app", "k1", on_node="n1", memory=1, vcore=5)))
    driver.facts.clear()
    driver.send(asks(ask("app", "k1", memory=3, vcore=1)))
    assert heard(driver) == [
        "USERGROUP ann ADD UG_USER_RESOURCE root.a memory=2",
        "USERGROUP ops ADD UG_GROUP_RESOURCE root.a memory=2",
        "USERGROUP ann REMOVE UG_USER_RESOURCE root.a vcore=4",
        "USERGROUP ops REMOVE UG_GROUP_RESOURCE root.a vcore=4",
    ]
    driver.send(asks(ask("app", "k1", memory=3, vcore=1)))
    assert heard(driver) == []


def test_an_ask_that_the_rm_placed_itself_is_an_allocation(driver: Driver) -> None:
    """Known as an ask, it becomes an allocation without being cancelled; a resize says nothing."""
    driver.send(asks(ask("app", "k1", memory=9)))
    driver.send(asks(ask("app", "k1", memory=8)))
    driver.facts.clear()
    driver.send(asks(ask("app", "k1", on_node="n1", memory=8)))
    assert heard(driver, "APP", "NODE") == [
        "NODE n1 ADD NODE_ALLOC k1 memory=8",
        "APP app SET APP_RUNNING: runApplication",
        "APP app ADD APP_ALLOC k1 memory=8",
    ]


def test_reasons_of_refusals_are_counted_by_name() -> None:
    """A request names how many nodes were refused for each reason, in the order of the reasons."""
    record = predicates_refused(1.0, ask("app", "k", memory=1), {"taint": 2, "no answer": 1})
    assert shown(record) == (
        "REQUEST k NONE DETAILS_NONE app memory=1: Unschedulable request 'k': no answer (1x); taint (2x);"
    )
