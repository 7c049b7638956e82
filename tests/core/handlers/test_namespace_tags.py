"""Sizes of dynamic queues in the tags of applications (spec § 3.13)."""

import json
from collections.abc import Sequence

import pytest

from licorne_core.messages.commands import NewApplication
from licorne_core.messages.effects import ApplicationsAnswered
from licorne_core.messages.events.records import EventDetail, Fact
from support.core.builders import RM, app, apps, ask, asks, config, node, nodes, register, reload
from support.core.driver import Driver, keys
from support.core.reports import queues_in

BY_NAMESPACE = config("[{name: fixed}]", rest="placementrules: [{name: tag, value: namespace, create: true}]")


def tags(namespace: str, **sizes: int) -> dict[str, str]:
    """The tags of an application in a namespace with this quota."""
    wanted = {"resources": {name: {"value": value} for name, value in sizes.items()}}
    return {"namespace": namespace, "namespace.resourcequota": json.dumps(wanted)}


def details(facts: Sequence[Fact]) -> list[EventDetail]:
    """The details of the events, such as QUEUE_MAX, in order."""
    return [record.detail for fact in facts for record in fact.records()]


def started(*submitted: tuple[str, dict[str, str]]) -> Driver:
    """A core with a large node and these applications, with their tags."""
    driver = Driver()
    driver.do(register(BY_NAMESPACE), nodes(node("n1", vcore=1000, memory=1000)))
    for app_id, given in submitted:
        driver.do(apps(app(app_id, tags=given)))
    return driver


@pytest.mark.row(83)
def test_a_raised_limit_of_applications_applies_at_once() -> None:
    """A waiting application starts when the tag of another raises the number allowed in their namespace."""
    few = {**tags("ns", vcore=9), "namespace.resourcemaxapps": "1"}
    driver = started(("one", few), ("two", few))
    assert keys(driver.do(asks(ask("one", "k", vcore=1), ask("two", "k2", vcore=1)))) == ["k"]
    more = {**few, "namespace.resourcemaxapps": "2"}
    assert keys(driver.do(apps(app("three", tags=more)))) == ["k2"]


@pytest.mark.row(83)
def test_a_configured_queue_forgets_the_tags() -> None:
    """A dynamic queue that becomes configured by a reload ignores the sizes in tags."""
    driver = started(("one", tags("ns", vcore=1)))
    driver.do(reload(BY_NAMESPACE.replace("{name: fixed}", "{name: ns}")))
    assert driver.queue("root.ns").max == {}
    driver.do(apps(app("two", tags=tags("ns", vcore=3))))
    assert driver.queue("root.ns").max == {}


@pytest.mark.row(84)
def test_tags_do_not_limit_the_recovery_queue() -> None:
    """An application in the recovery queue sets no maximum by its tags."""
    given = {**tags("a,b", vcore=1), "application.create.force": "true"}
    driver = started(("one", {**given, "namespace": ""}))
    assert driver.queue("root.@recovery@").max == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json",
        "[]",
        "{}",
        '{"resources":[]}',
        '{"resources":{}}',
        '{"resources":{"vcore":5}}',
        '{"resources":{"vcore":{"value":0}}}',
        '{"resources":{"vcore":{"value":-1}}}',
        '{"resources":{"vcore":{"value":1}, "memory":{"value":-1}}}',
        '{"resources":{"vcore":{"value":1.5}}}',
        '{"resources":{"vcore":{"value":true}}}',
        '{"resources":{"vcore":{"value":9223372036854775808}}}',
        "[" * 10_000,
    ],
)
def test_an_invalid_tag_is_ignored(text: str) -> None:
    """An invalid tag sets nothing, and its application is accepted."""
    driver = started(("one", {"namespace": "ns", "namespace.resourcequota": text}))
    assert driver.queue("root.ns").max == {}


def test_a_later_guarantee_changes_the_order_of_applications() -> None:
    """A guarantee set by a later tag changes the shares by which a fair queue orders applications."""
    fair = "childtemplate: {properties: {application.sort.policy: fair}}"
    root = f"[{{name: root, submitacl: '*', {fair}, queues: [{{name: fixed}}]}}]"
    rules = "[{name: tag, value: namespace, create: true}]"
    text = f"partitions: [{{name: default, placementrules: {rules}, queues: {root}}}]"
    driver = Driver()
    driver.do(register(text), nodes(node("n1", memory=10, vcore=20)))
    driver.do(apps(app("m", tags={"namespace": "ns"}), app("v", tags={"namespace": "ns"})))
    driver.do(asks(ask("m", "m0", memory=10), ask("v", "v0", vcore=20)))
    driver.do(asks(ask("m", "m1", memory=1), ask("v", "v1", vcore=1)))
    wanted = json.dumps({"resources": {"memory": {"value": 10}, "vcore": {"value": 1000}}})
    guaranteed = {"namespace": "ns", "namespace.resourceguaranteed": wanted}
    driver.send(apps(app("third", tags=guaranteed)))
    assert keys(driver.do(nodes(node("n2", memory=10, vcore=20)))) == ["v1", "m1"]


def refusals(driver: Driver, new: NewApplication) -> dict[str, str]:
    """The rejection reasons sent to the RM; empty if the application was accepted."""
    return {
        rejection.app_id: rejection.reason
        for effect in driver.do(apps(new))
        if isinstance(effect, ApplicationsAnswered)
        for rejection in effect.rejected
    }


def gang(app_id: str, wanted: int, quota: int | None = None) -> NewApplication:
    """A gang of namespace ns that requests these thousandths of a core, with a quota if given."""
    given = {"namespace": "ns"} if quota is None else tags("ns", vcore=quota)
    return app(app_id, tags=given, gang={"vcore": wanted})


def too_large(app_id: str, wanted: int, most: int) -> dict[str, str]:
    """The refusal of a gang that does not fit in the queue of namespace ns."""
    text = f"queue root.ns cannot fit application {app_id}: task group request map[vcore:{wanted}]"
    return {app_id: f"{text} larger than max queue allocation map[vcore:{most}]"}


@pytest.mark.row(83, 130)
def test_a_gang_is_compared_with_the_quota_in_its_own_tags() -> None:
    """A gang has to fit the quota in its own tags, whether that sets, raises or lowers the quota."""
    driver = started()
    assert refusals(driver, gang("one", 5000, quota=3000)) == too_large("one", 5000, 3000)
    assert refusals(driver, gang("two", 3000, quota=3000)) == {}
    assert refusals(driver, gang("three", 5000)) == too_large("three", 5000, 3000)
    assert refusals(driver, gang("four", 5000, quota=6000)) == {}
    assert refusals(driver, gang("five", 5000, quota=4000)) == too_large("five", 5000, 4000)
    assert refusals(driver, gang("six", 6000)) == {}


@pytest.mark.row(83, 130)
def test_a_refused_gang_sets_no_quota() -> None:
    """A refused gang sets no quota, causes no event, and wakes no waiting ask."""
    before = {**tags("ns", vcore=3), "namespace.resourcemaxapps": "1"}
    driver = started(("one", before), ("two", before))
    driver.do(asks(ask("one", "k", vcore=3), ask("two", "waits", vcore=1)))
    shown, noted = driver.queue("root.ns"), len(driver.facts)
    given = {
        **tags("ns", vcore=9),
        "namespace.resourceguaranteed": '{"resources":{"vcore":{"value":1}}}',
        "namespace.resourcemaxapps": "9",
    }
    new = app("large", tags=given, gang={"vcore": 10})
    assert refusals(driver, new) == too_large("large", 10, 9)
    after = driver.queue("root.ns")
    assert (after.max, after.guaranteed) == (shown.max, shown.guaranteed) == ({"vcore": 3}, {})
    assert after.max_applications == 1
    assert details(driver.facts[noted:]) == [EventDetail.APP_REJECT]


@pytest.mark.parametrize("wanted", [{"vcore": 5}, {"vcore": -1}])
def test_a_refused_gang_creates_no_queue(wanted: dict[str, int]) -> None:
    """Queues that would be created for a refused gang do not exist afterwards, and have no event."""
    deep = "[{name: tag, value: namespace, create: true, parent: {name: user, create: true}}]"
    driver = Driver()
    driver.do(register(config("[{name: fixed}]", rest=f"placementrules: {deep}")))
    partition = driver.views.resolve(f"[{RM}]default")
    before, noted = queues_in(driver.views, partition), len(driver.facts)
    assert refusals(driver, app("one", tags=tags("ns", vcore=3), gang=wanted))
    assert queues_in(driver.views, partition) == before
    assert details(driver.facts[noted:]) == [EventDetail.APP_REJECT]
    assert refusals(driver, app("two", tags=tags("ns", vcore=3), gang={"vcore": 3})) == {}
    assert driver.queue("root.ann.ns").max == {"vcore": 3}


def test_a_gang_has_to_fit_in_the_parent_of_its_namespace() -> None:
    """A gang that exceeds the maximum of the parent queue is refused, whatever its own quota."""
    rules = "[{name: tag, value: namespace, create: true, parent: {name: fixed, value: all}}]"
    driver = Driver()
    parent = "[{name: all, parent: true, resources: {max: {vcore: 4m}}}]"
    driver.do(register(config(parent, rest=f"placementrules: {rules}")))
    refused = refusals(driver, gang("one", 5, quota=9))
    assert refused["one"].endswith("larger than max queue allocation map[vcore:4]")
    assert refusals(driver, gang("two", 4, quota=9)) == {}
