"""Which events are recorded, for which RM, and in which form (spec § 12.1.1-2)."""

import pytest

from licorne.si.v1 import si_pb2 as si
from licorne_core.messages.effects import AllocationsMade, Happened
from licorne_core.messages.events.records import MAX_MESSAGE, EventChange, EventDetail, EventType
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, reload
from support.core.driver import Driver, heard, records

OFF = {"event.trackingEnabled": "false"}
ON = {"event.trackingEnabled": "true"}


def test_an_rm_without_tracking_has_no_events() -> None:
    """An RM that registers with event.trackingEnabled false has no events."""
    driver = Driver()
    driver.do(register(config("[{name: a, maxapplications: 1}]"), extra=OFF))
    driver.do(nodes(node("n1", memory=2)), apps(app("one", "root.a"), app("two", "root.a")))
    driver.do(asks(ask("one", "k", memory=1), ask("two", "k", memory=1), ask("one", "l", memory=9)))
    driver.do(reload(config("[{name: b}]")))
    driver.wait(60.0)
    assert driver.facts == []


def test_tracking_can_be_changed_while_the_rm_runs() -> None:
    """An update switches tracking on or off at once, for this RM only."""
    driver = Driver()
    text = config("[{name: a}]")
    driver.do(register(text), register(text, rm="rm2"), nodes(node("n1", memory=9)))
    driver.do(reload(text, extra=OFF))
    driver.facts.clear()
    driver.do(apps(app("app", "root.a")), asks(ask("app", "k1", memory=1)))
    assert heard(driver) == []
    driver.do(apps(app("app", "root.a"), rm="rm2"))
    assert heard(driver) == ["APP app ADD APP_NEW", "QUEUE root.a ADD QUEUE_APP app"]
    driver.do(reload(text, extra=ON), asks(ask("app", "k2", memory=1)))
    assert heard(driver, "NODE", "APP") == [
        "APP app ADD APP_REQUEST k2 memory=1",
        "NODE n1 ADD NODE_ALLOC k2 memory=1",
        "APP app ADD APP_ALLOC k2 memory=1",
    ]


def test_a_refused_update_has_no_events_of_queues() -> None:
    """A refused configuration causes no event of queues."""
    driver = Driver()
    driver.do(register(config("[{name: a}]")))
    driver.facts.clear()
    driver.do(reload(config("[{name: b}, {name: b}]")))
    assert heard(driver) == []


@pytest.mark.row(6)
def test_each_rm_has_its_own_events() -> None:
    """RMs whose objects have equal names receive only their own events, after all other effects."""
    driver = Driver()
    for rm in ("rm1", "rm2"):
        driver.do(register(config("[{name: a}]"), rm=rm), nodes(node("n1", memory=9), rm=rm))
    effects = driver.scheduler.handle(
        apps(app("app", "root.a"), rm="rm2"), driver.now
    ) + driver.scheduler.handle(asks(ask("app", "k", memory=1), rm="rm2"), driver.now)
    assert {effect.rm_id for effect in effects} == {"rm2"}
    effects = driver.scheduler.handle(apps(app("app", "root.a")), driver.now)
    assert [effect.rm_id for effect in effects if isinstance(effect, Happened)] == ["rm1"]
    assert isinstance(effects[-1], Happened)


def test_the_events_of_an_allocation_are_one_object() -> None:
    """The events of an allocation are stored as one small object, in the order of decisions."""
    driver = Driver()
    driver.do(register(config("[{name: a}]")), nodes(node("n1", memory=9)))
    driver.do(apps(app("app", "root.a")))
    driver.send(asks(*(ask("app", f"k{i}", memory=1) for i in range(5))))
    driver.facts.clear()
    made = [effect for effect in driver.run() if isinstance(effect, AllocationsMade)]
    assert len(driver.facts) == 5
    assert [fact.count for fact in driver.facts] == [4, 3, 3, 3, 3]
    keys = [record.reference_id for record in records(driver) if record.type is EventType.NODE]
    assert keys == [allocation.key for effect in made for allocation in effect.allocations]


def test_events_have_the_time_of_their_change() -> None:
    """Events have the time of the change in Unix seconds, and are not affected by later changes."""
    driver = Driver()
    driver.do(register(config("[{name: a}]")), nodes(node("n1", memory=4)))
    start = driver.now
    driver.wait(5.0)
    driver.do(nodes(node("n2", memory=4)))
    found = [r for r in records(driver) if r.detail is EventDetail.QUEUE_MAX]
    assert [(record.time, record.resource) for record in found] == [
        (start, {"memory": 4}),
        (start + 5.0, {"memory": 8}),
    ]


def test_a_long_message_is_cut() -> None:
    """A reason is cut to 1024 characters in an event (spec § 12.1.1)."""
    driver = Driver()
    driver.do(register(config("[{name: a}]")))
    driver.facts.clear()
    driver.do(apps(app("x" * 3000, "root.none")))
    [refusal] = records(driver)
    assert len(refusal.message) == MAX_MESSAGE
    assert refusal.object_id == "x" * 3000


def test_events_have_the_published_numbers() -> None:
    """Types, changes and details have the published names and numbers (spec § 1.4)."""
    types = {kind.name: kind.value for kind in EventType}
    assert {**types, "UNKNOWN_EVENTRECORD_TYPE": 0} == dict(si.EventRecord.Type.items())
    assert {change.name: change.value for change in EventChange} == dict(si.EventRecord.ChangeType.items())
    assert {detail.name: detail.value for detail in EventDetail} == dict(si.EventRecord.ChangeDetail.items())
