"""Events of nodes, queues and limits (spec §§ 4.14, 7.8, 8.5, 10.9, 12.1.4)."""

import pytest

from licorne_core.messages.commands import Command, NodeAction, Tick
from licorne_core.messages.events.records import EventChange, EventDetail
from support.core.builders import (
    app,
    apps,
    ask,
    asks,
    config,
    foreign,
    node,
    nodes,
    register,
    release,
    releases,
    reload,
    remove_apps,
)
from support.core.driver import Driver, heard, records


@pytest.fixture
def driver() -> Driver:
    """A core with one queue and nodes of 4 and 8 bytes; earlier events are dropped."""
    driver = Driver()
    driver.do(register(config("[{name: a}]")), nodes(node("n1", memory=4), node("n2", memory=8)))
    driver.facts.clear()
    return driver


def test_a_node_that_is_created_drained_counts_in_the_cluster(driver: Driver) -> None:
    """A node that is created drained has the event NODE_SCHEDULABLE, and counts in the cluster's size."""
    driver.send(nodes(node("n3", NodeAction.CREATE_DRAIN, memory=1)))
    assert heard(driver)[:2] == [
        "NODE n3 SET NODE_SCHEDULABLE: schedulable: false",
        "QUEUE root SET QUEUE_MAX memory=13",
    ]


def test_a_rejected_node_has_no_event(driver: Driver) -> None:
    """A second node of the same name causes no event."""
    driver.send(nodes(node("n1", memory=1)))
    assert heard(driver) == []


@pytest.mark.parametrize(
    ("action", "message"),
    [(NodeAction.DRAIN_NODE, "schedulable: false"), (NodeAction.DRAIN_TO_SCHEDULABLE, "schedulable: true")],
)
def test_a_drained_node_has_one_event(driver: Driver, action: NodeAction, message: str) -> None:
    """A change of the flag has one event NODE_SCHEDULABLE; a repetition has none."""
    if action is NodeAction.DRAIN_TO_SCHEDULABLE:
        driver.send(nodes(node("n1", NodeAction.DRAIN_NODE)))
        driver.facts.clear()
    driver.send(nodes(node("n1", action), node("n1", action)))
    assert heard(driver) == [f"NODE n1 SET NODE_SCHEDULABLE: {message}"]


def test_the_occupied_amount_is_the_sum_of_foreign_allocations(driver: Driver) -> None:
    """NODE_OCCUPIED has the sum of foreign amounts, after each change, for each affected node."""
    driver.send(asks(foreign("f1", "n1", memory=1), foreign("f2", "n1", memory=2)))
    driver.send(asks(foreign("f1", "n1", memory=2)))
    driver.send(asks(foreign("f1", "n2", memory=3)))
    driver.send(releases(release("", "f1"), release("", "unknown")))
    assert heard(driver) == [
        "NODE n1 SET NODE_OCCUPIED memory=1",
        "NODE n1 SET NODE_OCCUPIED memory=3",
        "NODE n1 SET NODE_OCCUPIED memory=4",
        "NODE n1 SET NODE_OCCUPIED memory=2",
        "NODE n2 SET NODE_OCCUPIED memory=3",
        "NODE n2 SET NODE_OCCUPIED",
    ]


CREATE = "placementrules: [{name: provided, create: true}]"
LIMITED = "[{name: a, limits: [{limit: l, users: [ann, bob], groups: [ops], maxresources: %s}]}]"


def started(text: str) -> Driver:
    """A core with this configuration; earlier events are dropped."""
    driver = Driver()
    driver.do(register(text))
    driver.facts.clear()
    return driver


def test_a_refused_registration_has_no_event_of_queues() -> None:
    """A registration that is refused causes no event of queues."""
    driver = Driver()
    driver.send(register("partitions: [{name: default, queues: [{name: root}, {name: root}]}]"))
    assert heard(driver) == []


def test_a_queue_created_by_placement_has_the_detail_dynamic() -> None:
    """Events of creation and removal have QUEUE_DYNAMIC; parents are added first and removed last."""
    driver = started(config("[{name: p, parent: true}]", rest=CREATE))
    driver.do(apps(app("app", "root.p.x.y")))
    assert heard(driver, "QUEUE_DYNAMIC") == [
        "QUEUE root.p.x ADD QUEUE_DYNAMIC",
        "QUEUE root.p.x.y ADD QUEUE_DYNAMIC",
    ]
    driver.do(remove_apps("app"))
    driver.facts.clear()
    driver.wait(20.0)
    assert heard(driver) == ["QUEUE root.p.x.y REMOVE QUEUE_DYNAMIC", "QUEUE root.p.x REMOVE QUEUE_DYNAMIC"]


def test_the_tags_of_a_namespace_have_events_of_its_queue() -> None:
    """New sizes in tags have events QUEUE_MAX and QUEUE_GUARANTEED after QUEUE_APP; equal sizes have none."""
    driver = started(config("[{name: p, parent: true}]", rest=CREATE))
    tags = {
        "namespace.resourcequota": '{"resources":{"memory":{"value":8}}}',
        "namespace.resourceguaranteed": '{"resources":{"memory":{"value":2}}}',
    }
    driver.do(apps(app("one", "root.p.x", tags=tags)))
    assert heard(driver) == [
        "QUEUE root.p.x ADD QUEUE_DYNAMIC",
        "APP one ADD APP_NEW",
        "QUEUE root.p.x ADD QUEUE_APP one",
        "QUEUE root.p.x SET QUEUE_MAX memory=8",
        "QUEUE root.p.x SET QUEUE_GUARANTEED memory=2",
    ]
    driver.do(apps(app("two", "root.p.x", tags=tags)))
    assert heard(driver) == ["APP two ADD APP_NEW", "QUEUE root.p.x ADD QUEUE_APP two"]


def test_a_reload_has_events_of_changed_queues_only() -> None:
    """New queues, types and sizes have events, and unchanged ones do not."""
    driver = started(config("[{name: a, resources: {max: {memory: 4}}}, {name: b}, {name: c}]"))
    driver.do(
        reload(
            config(
                "[{name: a, resources: {max: {memory: 6}, guaranteed: {memory: 1}}}, "
                "{name: b, queues: [{name: x}]}, {name: c}]"
            )
        )
    )
    assert heard(driver) == [
        "QUEUE root.a SET QUEUE_MAX memory=6",
        "QUEUE root.a SET QUEUE_GUARANTEED memory=1",
        "QUEUE root.b SET QUEUE_TYPE: leaf queue: false",
        "QUEUE root.b.x ADD DETAILS_NONE",
    ]


def test_a_queue_missing_in_a_reload_has_an_event_once_it_is_empty() -> None:
    """A queue that is missing in a reload has its event when it is removed; its parent becomes a leaf."""
    driver = started(config("[{name: p, queues: [{name: a}]}]"))
    driver.do(reload(config("[{name: p}]")))
    assert heard(driver) == []
    driver.wait(10.0)
    assert heard(driver) == [
        "QUEUE root.p.a REMOVE DETAILS_NONE",
        "QUEUE root.p SET QUEUE_TYPE: leaf queue: true",
    ]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (LIMITED % "{memory: 2}", []),
        (
            LIMITED % "{memory: 3}",
            [
                "USERGROUP ann SET UG_USER_LIMIT root.a memory=3",
                "USERGROUP bob SET UG_USER_LIMIT root.a memory=3",
                "USERGROUP ops SET UG_GROUP_LIMIT root.a memory=3",
            ],
        ),
        (
            "[{name: a}, {name: b}]",
            [
                "QUEUE root.b ADD DETAILS_NONE",
                "USERGROUP ann REMOVE UG_USER_LIMIT root.a",
                "USERGROUP bob REMOVE UG_USER_LIMIT root.a",
                "USERGROUP ops REMOVE UG_GROUP_LIMIT root.a",
            ],
        ),
    ],
    ids=["same", "changed", "gone"],
)
def test_a_reload_has_events_of_changed_limits(after: str, expected: list[str]) -> None:
    """New and changed limits have UG_USER_LIMIT or UG_GROUP_LIMIT with SET, removed limits with REMOVE."""
    driver = started(config(LIMITED % "{memory: 2}"))
    driver.do(reload(config(after, rest="preemption: {enabled: false}")))
    assert heard(driver) == expected


def test_limits_are_removed_together_with_their_queue() -> None:
    """The limits of a drained queue hold until the queue is removed, and then have events."""
    driver = started(config(LIMITED % "{memory: 2}"))
    driver.do(reload(config("[{name: b}]")))
    assert heard(driver) == ["QUEUE root.b ADD DETAILS_NONE"]
    driver.wait(10.0)
    assert heard(driver) == [
        "QUEUE root.a REMOVE DETAILS_NONE",
        "USERGROUP ann REMOVE UG_USER_LIMIT root.a",
        "USERGROUP bob REMOVE UG_USER_LIMIT root.a",
        "USERGROUP ops REMOVE UG_GROUP_LIMIT root.a",
    ]


def test_a_removed_partition_has_events_for_all_its_objects() -> None:
    """A removed partition has events of applications, nodes, the cluster's size, and queues, leaves first."""
    two = config("[{name: a}]") + config("[{name: a}]", name="second").removeprefix("partitions:\n")
    driver = started(two)
    driver.do(
        nodes(node("n1", partition="second", memory=2), node("n2", partition="second", memory=3)),
        apps(app("app", "root.a", partition="second")),
        asks(ask("app", "w", partition="second", memory=9)),
    )
    driver.facts.clear()
    driver.do(reload(config("[{name: a}]")))
    assert heard(driver) == [
        "APP app SET APP_FAILING: PartitionRemoved",
        "APP app REMOVE REQUEST_CANCEL w memory=9",
        "APP app SET APP_FAILED: PartitionRemoved",
        "QUEUE root.a REMOVE QUEUE_APP app",
        "APP app REMOVE DETAILS_NONE",
        "QUEUE root SET QUEUE_MAX memory=3",
        "NODE n1 REMOVE NODE_DECOMISSION: Node removed from the scheduler",
        "QUEUE root SET QUEUE_MAX",
        "NODE n2 REMOVE NODE_DECOMISSION: Node removed from the scheduler",
        "QUEUE root.a REMOVE DETAILS_NONE",
        "QUEUE root REMOVE DETAILS_NONE",
    ]


AGE = 2.0
"""Seconds after which an ask that fits nowhere has a node reserved."""

Change = tuple[EventChange, str, float]


def reservations(driver: Driver, begin: float) -> list[Change]:
    """The events of reservations since the previous call, with their times in seconds after `begin`."""
    return [
        (record.change, record.reference_id, record.time - begin)
        for record in records(driver)
        if record.detail is EventDetail.NODE_RESERVATION
    ]


ENDS: dict[str, Command] = {
    "the ask is not wanted": releases(release("job", "large")),
    "the ask fits the node": releases(release("job", "small")),
    "the ask is of another size": asks(ask("job", "large", memory=9)),
    "the ask is put on a node": asks(ask("job", "large", on_node="n", memory=4)),
    "another ask requires the node": asks(ask("job", "daemon", required_node="n", memory=2)),
    "the node shrinks": nodes(node("n", NodeAction.UPDATE, memory=3)),
    "the node goes": nodes(node("n", NodeAction.DECOMISSION)),
    "the time is over": Tick(),
}


@pytest.mark.parametrize("command", ENDS.values(), ids=ENDS.keys())
def test_events_of_reservations_have_the_time_of_the_command(command: Command) -> None:
    """The events of a reservation's start and end have the times of the commands that caused them."""
    driver = Driver()
    driver.do(register(config("[{name: a}]")), nodes(node("n", memory=4), node("m", memory=3)))
    driver.do(apps(app("job", "root.a")), asks(ask("job", "small", on_node="n", memory=1)))
    begin = driver.now
    driver.do(asks(ask("job", "large", memory=4)))
    driver.wait(AGE)
    assert reservations(driver, begin) == [(EventChange.ADD, "large", AGE)]
    driver.now += 3600.0
    driver.do(command)
    ended = (EventChange.REMOVE, "large", AGE + 3600.0)
    assert reservations(driver, begin)[0] == ended
