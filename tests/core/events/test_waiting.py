"""What those who watch hear of asks and applications that must wait (spec §§ 4.12, 12.1.3)."""

import pytest

from licorne_core.events.journal import EventRecord, EventType
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
from support.core.driver import Driver
from support.core.watching import heard, records

BOUNDS = ("APP_CANNOTRUN_QUEUE", "APP_RUNNABLE_QUEUE", "APP_CANNOTRUN_QUOTA", "APP_RUNNABLE_QUOTA")
USER_LIMIT = "[{name: a, limits: [{limit: l, users: ['*'], %s}]}]"
QUEUE_MAX = "[{name: a, resources: {max: {memory: 3}}}]"


def started(queues: str) -> Driver:
    """A core with these queues and a large node, of which everything was heard."""
    driver = Driver()
    driver.do(register(config(queues)), nodes(node("n1", memory=100)))
    driver.facts.clear()
    return driver


def submit(driver: Driver, app_id: str, user: str = "ann") -> None:
    """An application of root.a with one ask of its name."""
    driver.do(apps(app(app_id, "root.a", user=user)), asks(ask(app_id, app_id, memory=1)))


def requests(driver: Driver) -> list[EventRecord]:
    """The events about single requests since last time."""
    return [record for record in records(driver) if record.type is EventType.REQUEST]


@pytest.mark.row(91)
def test_what_is_known_of_a_waiting_application_is_not_told_again() -> None:
    """More asks, more nodes and more waiting change nothing for those who watch."""
    driver = started("[{name: a, maxapplications: 1}]")
    submit(driver, "one")
    submit(driver, "two")
    driver.facts.clear()
    driver.do(asks(ask("two", "more", memory=1)), nodes(node("n2", memory=1)))
    driver.wait(60.0)
    assert heard(driver, *BOUNDS) == []


def test_queue_and_quota_are_told_apart() -> None:
    """An application may be too many for both, and become runnable for one after the other."""
    limit = "limits: [{limit: l, users: [ann], maxapplications: 1}]"
    driver = started(f"[{{name: a, maxapplications: 1, {limit}}}]")
    submit(driver, "one")
    submit(driver, "two")
    assert heard(driver, *BOUNDS) == [
        "APP two NONE APP_CANNOTRUN_QUEUE",
        "APP two NONE APP_CANNOTRUN_QUOTA",
    ]
    driver.do(reload(config(f"[{{name: a, maxapplications: 2, {limit}}}]")))
    assert heard(driver, *BOUNDS) == ["APP two NONE APP_RUNNABLE_QUEUE"]


def test_a_full_cluster_is_a_lack_of_room_in_the_queue() -> None:
    """Root's maximum is the size of the cluster; a type that no node has is not available."""
    driver = started("[{name: a}]")
    driver.do(apps(app("app", "root.a")), asks(ask("app", "k", memory=101, gpu=1)))
    [refused] = requests(driver)
    assert refused.message == (
        "Request 'k' does not fit in queue 'root.a' "
        "(requested map[gpu:1 memory:101], available map[gpu:0 memory:100])"
    )


def test_an_ask_too_large_for_its_user_is_told_once_until_it_fits() -> None:
    """The quota is that of the user, whatever the queue would have."""
    driver = started(USER_LIMIT % "maxresources: {memory: 3}")
    driver.do(apps(app("app", "root.a")), asks(ask("app", "k1", memory=2)))
    driver.do(asks(ask("app", "k2", memory=2)), nodes(node("n2", memory=1)))
    [refused] = requests(driver)
    assert refused.message == (
        "Request 'k2' exceeds the available user quota (requested map[memory:2], available map[memory:1])"
    )
    driver.do(releases(release("app", "k1")))
    [fits] = requests(driver)
    assert fits.message == "Request 'k2' fits in the available user quota"


def test_new_asks_of_a_known_size_are_looked_at_afresh() -> None:
    """When the last ask of a size is gone, the next one that does not fit is told again."""
    driver = started(QUEUE_MAX)
    driver.do(apps(app("app", "root.a")), asks(ask("app", "k1", memory=2)))
    driver.do(asks(ask("app", "k2", memory=2)), releases(release("app", "k2")))
    driver.facts.clear()
    driver.do(asks(ask("app", "k3", memory=2)))
    assert [record.object_id for record in requests(driver)] == ["k3"]
