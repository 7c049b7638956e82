"""A draining queue accepts nothing new, and leaves no state behind (reliability Q1, § 2.7.4)."""

import gc

import pytest

from licorne_core.handlers.lifecycle import CLEANING_TIME
from licorne_core.messages.commands import NewApplication
from licorne_core.model.queues.queue import Queue
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import PartitionName
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, reload, remove_apps
from support.core.driver import Driver, refused_apps
from support.core.steps import last

DEFAULT = PartitionName("[rm1]default")
QUEUES = "[{name: old}, {name: up, parent: true}, {name: stays}]"
WITHOUT = "[{name: stays}]"
NO_RULE = "application rejected: no placement rule matched"
FORCED = {"application.create.force": "true"}


def draining(*rules: str, queues: str = QUEUES) -> Driver:
    """A core with these rules, and draining queues `old` and `up` with an application each."""
    rest = "\n".join(["placementrules:", *(f"  - {{{rule}}}" for rule in rules)])
    driver = Driver()
    creates = "placementrules: [{name: provided, create: true}]"
    driver.do(register(config(queues, rest=creates)), nodes(node("n1", memory=100)))
    driver.do(apps(app("first", "root.old"), app("second", "root.up.made", user="bob")))
    driver.do(asks(ask("first", "k", memory=1), ask("second", "k", memory=1)))
    driver.do(reload(config(WITHOUT, rest=rest)))
    assert driver.queue("root.old").state == "Draining"
    assert driver.queue("root.up").state == "Draining"
    return driver


WAYS: dict[str, tuple[str, NewApplication]] = {
    "named in full": ("name: provided", app("new", "root.old")),
    "named shortly": ("name: provided", app("new", "old")),
    "named, and created if missing": ("name: provided, create: true", app("new", "root.old")),
    "fixed": ("name: fixed, value: old, create: true", app("new")),
    "by its user": ("name: user", app("new", user="old")),
    "by a tag": ("name: tag, value: ns", app("new", tags={"ns": "old"})),
    "by a tag in full": ("name: tag, value: ns", app("new", tags={"ns": "root.old"})),
    "below it": ("name: provided", app("new", "root.up.made")),
    "below it, created if missing": ("name: provided, create: true", app("new", "root.up.made")),
}


@pytest.mark.row(50)
@pytest.mark.parametrize(("rule", "new"), WAYS.values(), ids=WAYS)
def test_rules_skip_a_draining_queue(rule: str, new: NewApplication) -> None:
    """A rule that names a draining queue is skipped; without another rule the application is rejected."""
    alone = draining(rule)
    (reason,) = refused_apps(alone.do(apps(new))).values()
    assert reason.startswith(f"failed to place application new: {NO_RULE}: rule 1 (")
    followed = draining(rule, "name: fixed, value: stays")
    assert refused_apps(followed.do(apps(new))) == {}
    assert followed.app("new").queue == "root.stays"


@pytest.mark.row(50, 61)
def test_a_draining_default_queue_is_not_used() -> None:
    """An application without a matching rule is rejected while root.default drains."""
    driver = Driver()
    driver.do(register(config("[{name: default}, {name: stays}]")))
    driver.do(apps(app("first", "root.default")), reload(config(WITHOUT)))
    assert refused_apps(driver.do(apps(app("new")))).keys() == {"new"}


@pytest.mark.row(84)
def test_a_forced_application_is_placed_in_the_recovery_queue() -> None:
    """A forced application that names a draining queue is accepted in the recovery queue."""
    driver = draining("name: provided, create: true")
    forced = [app("one", "root.old", tags=FORCED), app("two", "root.up.more", tags=FORCED)]
    assert refused_apps(driver.do(apps(*forced))) == {}
    where = {driver.app(name).queue for name in ("one", "two")}
    assert where == {"root.@recovery@"}


@pytest.mark.row(50)
def test_a_removed_queue_leaves_no_usage() -> None:
    """A removed queue leaves no usage of users and groups, and no deadline."""
    limit = "limits: [{users: [ann], maxapplications: 9}, {groups: [dev], maxapplications: 9}]"
    driver = Driver()
    driver.do(register(config(f"[{{name: old, {limit}}}, {{name: stays}}]")))
    driver.do(nodes(node("n1", memory=9)))
    driver.do(apps(app("first", "root.old", groups=["dev"]), app("other", "root.stays")))
    driver.do(asks(ask("first", "k", memory=1), ask("other", "k", memory=1)))
    driver.do(reload(config(WITHOUT)), remove_apps("first"))
    driver.wait(10.0)
    with pytest.raises(NotFound):
        driver.queue("root.old")
    assert [queue.path for queue in last(driver.views.usage(DEFAULT, "user", "ann")).queues.children] == [
        "root.stays"
    ]
    with pytest.raises(NotFound):
        last(driver.views.usage(DEFAULT, "group", "dev"))
    assert driver.scheduler.next_deadline() is None


@pytest.mark.row(50, 104)
def test_a_new_queue_under_a_former_name_starts_empty() -> None:
    """A new queue under a former name has none of the former settings, usage or counts."""
    sized = "[{name: old, maxapplications: 1, resources: {max: {memory: 1}}}, {name: stays}]"
    driver = Driver()
    driver.do(register(config(sized)), nodes(node("n1", memory=9)))
    driver.do(apps(app("first", "root.old")), asks(ask("first", "k", memory=1)))
    driver.do(reload(config(WITHOUT)), remove_apps("first"))
    driver.wait(10.0)
    driver.do(reload(config("[{name: old}, {name: stays}]")))
    found = driver.queue("root.old")
    assert (found.max, found.max_applications, found.allocated) == ({}, 0, {})
    assert (found.counters.allocations_made, found.running_applications) == (0, 0)


def test_a_removed_dynamic_queue_leaves_nothing() -> None:
    """A removed dynamic queue leaves no state behind, even without nodes."""
    driver = Driver()
    rules = "placementrules: [{name: provided, create: true}]"
    driver.do(register(config("[{name: a}]", rest=rules)))
    driver.do(apps(app("app-1", "root.passing")), asks(ask("app-1", "k", vcore=1)))
    driver.do(remove_apps("app-1"))
    driver.wait(3 * CLEANING_TIME)
    gc.collect()
    left = [thing.path for thing in gc.get_objects() if isinstance(thing, Queue)]
    assert "root.passing" not in left
