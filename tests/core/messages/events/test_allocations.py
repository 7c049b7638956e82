"""Events of asks, allocations and waiting asks (spec §§ 4.12, 12.1)."""

import pytest

from licorne_core.messages.commands import TerminationType
from licorne_core.messages.events.allocations import predicates_refused
from licorne_core.messages.events.records import EventRecord, EventType
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
)
from support.core.driver import Driver, heard, records, shown

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
    """A core with a node and an application of a limited group; earlier events are dropped."""
    driver = Driver()
    driver.do(
        register(config(LIMITED)), nodes(node("n1", memory=4)), apps(app("app", "root.a", groups=["ops"]))
    )
    driver.facts.clear()
    return driver


def test_events_of_a_replayed_allocation(driver: Driver) -> None:
    """A replayed allocation has no events of an ask; its application has the states Accepted and Running."""
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
def test_the_events_of_a_release_are_ordered(driver: Driver, why: TerminationType) -> None:
    """A release has events of user and group, application state, application, node and ask, in this order."""
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


def test_only_the_last_released_allocation_completes_the_application(driver: Driver) -> None:
    """If several allocations are released together, APP_COMPLETING follows the last one."""
    driver.do(asks(ask("app", "k1", memory=1), ask("app", "k2", memory=1)))
    driver.facts.clear()
    driver.send(releases(release("app")))
    found = heard(driver, "APP")
    assert found[2] == "APP app SET APP_COMPLETING: completeApplication"
    assert found[3] == "APP app REMOVE ALLOC_CANCEL k2 memory=1"


def test_the_events_of_a_cancelled_ask(driver: Driver) -> None:
    """REQUEST_CANCEL precedes the state change of the application; an unknown key causes no event."""
    driver.send(asks(ask("app", "k1", memory=1)))
    driver.facts.clear()
    driver.send(releases(release("app", "k1"), release("app", "unknown")))
    assert heard(driver) == [
        "APP app REMOVE REQUEST_CANCEL k1 memory=1",
        "APP app SET APP_COMPLETING: completeApplication",
    ]


def test_an_allocation_that_failed_at_the_rm_keeps_its_ask(driver: Driver) -> None:
    """A failure at the RM has an event of the cancelled allocation, and none of a cancelled ask."""
    driver.do(asks(ask("app", "k1", memory=1)))
    driver.facts.clear()
    why = TerminationType.SCHEDULING_FAILED_ON_RM
    driver.send(releases(release("app", "k1", why=why)))
    assert heard(driver, "APP") == ["APP app REMOVE ALLOC_CANCEL k1 memory=1"]


def test_a_resize_has_an_event_of_the_difference(driver: Driver) -> None:
    """A larger amount has an event that adds the difference, a smaller one an event that removes it."""
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


def test_an_ask_that_the_rm_places_is_not_cancelled(driver: Driver) -> None:
    """An ask placed by the RM has the events of an allocation, and none of a cancelled ask."""
    driver.send(asks(ask("app", "k1", memory=9)))
    driver.send(asks(ask("app", "k1", memory=8)))
    driver.facts.clear()
    driver.send(asks(ask("app", "k1", on_node="n1", memory=8)))
    assert heard(driver, "APP", "NODE") == [
        "NODE n1 ADD NODE_ALLOC k1 memory=8",
        "APP app SET APP_RUNNING: runApplication",
        "APP app ADD APP_ALLOC k1 memory=8",
    ]


def test_refusals_are_counted_by_reason() -> None:
    """The event of a request has the number of refused nodes for each reason, ordered by reason."""
    record = predicates_refused(1.0, ask("app", "k", memory=1), {"taint": 2, "no answer": 1})
    assert shown(record) == (
        "REQUEST k NONE DETAILS_NONE app memory=1: Unschedulable request 'k': no answer (1x); taint (2x);"
    )


BOUNDS = ("APP_CANNOTRUN_QUEUE", "APP_RUNNABLE_QUEUE", "APP_CANNOTRUN_QUOTA", "APP_RUNNABLE_QUOTA")
USER_LIMIT = "[{name: a, limits: [{limit: l, users: ['*'], %s}]}]"
QUEUE_MAX = "[{name: a, resources: {max: {memory: 3}}}]"


def waiting(queues: str) -> Driver:
    """A core with these queues and a large node; earlier events are dropped."""
    driver = Driver()
    driver.do(register(config(queues)), nodes(node("n1", memory=100)))
    driver.facts.clear()
    return driver


def submit(driver: Driver, app_id: str, user: str = "ann") -> None:
    """Submit an application to root.a with one ask of the same name."""
    driver.do(apps(app(app_id, "root.a", user=user)), asks(ask(app_id, app_id, memory=1)))


def requests(driver: Driver) -> list[EventRecord]:
    """The events about requests since the previous call."""
    return [record for record in records(driver) if record.type is EventType.REQUEST]


@pytest.mark.row(91)
def test_a_waiting_application_has_one_event() -> None:
    """More asks, more nodes and a longer wait cause no second event of a waiting application."""
    driver = waiting("[{name: a, maxapplications: 1}]")
    submit(driver, "one")
    submit(driver, "two")
    driver.facts.clear()
    driver.do(asks(ask("two", "more", memory=1)), nodes(node("n2", memory=1)))
    driver.wait(60.0)
    assert heard(driver, *BOUNDS) == []


def test_limits_of_queue_and_user_have_separate_events() -> None:
    """An application blocked by its queue and by its user's limit has separate events for both."""
    limit = "limits: [{limit: l, users: [ann], maxapplications: 1}]"
    driver = waiting(f"[{{name: a, maxapplications: 1, {limit}}}]")
    submit(driver, "one")
    submit(driver, "two")
    assert heard(driver, *BOUNDS) == ["APP two NONE APP_CANNOTRUN_QUEUE", "APP two NONE APP_CANNOTRUN_QUOTA"]
    driver.do(reload(config(f"[{{name: a, maxapplications: 2, {limit}}}]")))
    assert heard(driver, *BOUNDS) == ["APP two NONE APP_RUNNABLE_QUEUE"]


def test_an_ask_exceeds_the_queue_in_a_full_cluster() -> None:
    """The maximum of root is the size of the cluster, so a type that no node has exceeds the queue."""
    driver = waiting("[{name: a}]")
    driver.do(apps(app("app", "root.a")), asks(ask("app", "k", memory=101, gpu=1)))
    [refused] = requests(driver)
    assert refused.message == (
        "Request 'k' does not fit in queue 'root.a' "
        "(requested map[gpu:1 memory:101], available map[gpu:0 memory:100])"
    )


def test_an_ask_above_the_quota_of_its_user_has_one_event() -> None:
    """An ask above its user's quota has one event until it fits, whatever the room in the queue."""
    driver = waiting(USER_LIMIT % "maxresources: {memory: 3}")
    driver.do(apps(app("app", "root.a")), asks(ask("app", "k1", memory=2)))
    driver.do(asks(ask("app", "k2", memory=2)), nodes(node("n2", memory=1)))
    [refused] = requests(driver)
    assert refused.message == (
        "Request 'k2' exceeds the available user quota (requested map[memory:2], available map[memory:1])"
    )
    driver.do(releases(release("app", "k1")))
    [fits] = requests(driver)
    assert fits.message == "Request 'k2' fits in the available user quota"


def test_a_new_ask_of_a_former_size_has_an_event_again() -> None:
    """After the last ask of a size was removed, the next one that does not fit has an event again."""
    driver = waiting(QUEUE_MAX)
    driver.do(apps(app("app", "root.a")), asks(ask("app", "k1", memory=2)))
    driver.do(asks(ask("app", "k2", memory=2)), releases(release("app", "k2")))
    driver.facts.clear()
    driver.do(asks(ask("app", "k3", memory=2)))
    assert [record.object_id for record in requests(driver)] == ["k3"]
