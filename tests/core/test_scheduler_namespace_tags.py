"""Sizes that applications bring for their dynamic queues (spec § 3.13)."""

import json

import pytest

from licorne_core.reports import QueueReport
from support.builders import (
    RM,
    app,
    apps,
    ask,
    asks,
    config,
    node,
    nodes,
    register,
    reload,
    remove_apps,
)
from support.driver import Driver, keys

BY_NAMESPACE = config(
    "[{name: fixed}]", rest="placementrules: [{name: tag, value: namespace, create: true}]"
)


def tags(namespace: str, **sizes: int) -> dict[str, str]:
    """The tags of an application in a namespace that may have so much."""
    wanted = {"resources": {name: {"value": value} for name, value in sizes.items()}}
    return {"namespace": namespace, "namespace.resourcequota": json.dumps(wanted)}


def queue(driver: Driver, path: str) -> QueueReport:
    """A queue's report."""
    return driver.views.queue(driver.views.resolve(f"[{RM}]default"), path)


def started(*submitted: tuple[str, dict[str, str]]) -> Driver:
    """A driver with a roomy node and these applications."""
    driver = Driver()
    driver.do(register(BY_NAMESPACE), nodes(node("n1", vcore=1000, memory=1000)))
    for app_id, given in submitted:
        driver.do(apps(app(app_id, tags=given)))
    return driver


@pytest.mark.row(83)
def test_tags_size_a_dynamic_queue() -> None:
    """Quota, guarantee and number of applications of a namespace's queue come from the tags."""
    given = tags("ns", vcore=2)
    given["namespace.resourceguaranteed"] = '{"resources":{"vcore":{"value":"1"}}}'
    given["namespace.resourcemaxapps"] = "3"
    driver = started(("one", given))
    found = queue(driver, "root.ns")
    assert (found.max, found.guaranteed, found.max_applications) == ({"vcore": 2}, {"vcore": 1}, 3)
    assert keys(driver.do(asks(*(ask("one", f"k{n}", vcore=1) for n in range(4))))) == ["k0", "k1"]


@pytest.mark.row(83)
def test_tags_leave_a_managed_queue_alone() -> None:
    """What the configuration has is not changed by an application."""
    assert queue(started(("one", tags("fixed", vcore=2))), "root.fixed").max == {}


def test_a_later_application_brings_other_sizes() -> None:
    """The last tags count, and what waited below the old maximum goes on."""
    driver = started(("one", tags("ns", vcore=1)))
    driver.do(asks(ask("one", "k1", vcore=1), ask("one", "k2", vcore=1)))
    assert keys(driver.do(apps(app("two", tags=tags("ns", vcore=2))))) == ["k2"]


@pytest.mark.row(83)
def test_more_applications_by_tag_start_at_once() -> None:
    """One that waits for a place in the namespace has it when another one brings more places."""
    few = {**tags("ns", vcore=9), "namespace.resourcemaxapps": "1"}
    driver = started(("one", few), ("two", few))
    assert keys(driver.do(asks(ask("one", "k", vcore=1), ask("two", "k2", vcore=1)))) == ["k"]
    more = {**few, "namespace.resourcemaxapps": "2"}
    assert keys(driver.do(apps(app("three", tags=more)))) == ["k2"]


@pytest.mark.row(83)
def test_a_reload_keeps_what_the_tags_said() -> None:
    """A template is applied again below the last tags, even if who brought them has gone."""
    later = {**tags("ns", vcore=2), "namespace.resourcemaxapps": "4"}
    driver = started(("one", tags("ns", vcore=1)), ("two", later))
    driver.do(remove_apps("two"), reload(BY_NAMESPACE.replace("fixed", "other")))
    found = queue(driver, "root.ns")
    assert (found.max, found.max_applications) == ({"vcore": 2}, 4)
    text = "partitions: [{name: default, queues: [{name: root, submitacl: '*', childtemplate: "
    text += "{maxapplications: 9, resources: {max: {vcore: 9}, guaranteed: {vcore: 1m}}}}]}]"
    driver.do(reload(text))
    found = queue(driver, "root.ns")
    assert (found.max, found.guaranteed, found.max_applications) == ({"vcore": 2}, {"vcore": 1}, 4)


@pytest.mark.row(83)
def test_a_configured_queue_forgets_the_tags() -> None:
    """A dynamic queue that a reload configures has the configured maximum, or none."""
    driver = started(("one", tags("ns", vcore=1)))
    driver.do(reload(BY_NAMESPACE.replace("{name: fixed}", "{name: ns}")))
    assert queue(driver, "root.ns").max == {}
    driver.do(apps(app("two", tags=tags("ns", vcore=3))))
    assert queue(driver, "root.ns").max == {}


@pytest.mark.row(83)
def test_a_zero_beside_an_amount_forbids_the_type() -> None:
    """A quota of two cores and no graphics card at all is in force as it stands."""
    driver = started(("one", tags("ns", vcore=2, gpu=0)))
    driver.do(nodes(node("n2", vcore=9, gpu=9)))
    wanted = [ask("one", "card", vcore=1, gpu=1), ask("one", "none", vcore=1)]
    assert keys(driver.do(asks(*wanted))) == ["none"]


@pytest.mark.row(84)
def test_tags_leave_the_recovery_queue_alone() -> None:
    """What is recovered is not bounded by the sizes that it brings along."""
    given = {**tags("a,b", vcore=1), "application.create.force": "true"}
    driver = started(("one", {**given, "namespace": ""}))
    assert queue(driver, "root.@recovery@").max == {}


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
def test_what_cannot_be_read_is_ignored(text: str) -> None:
    """A tag that makes no sense sets nothing, and the application is taken."""
    driver = started(("one", {"namespace": "ns", "namespace.resourcequota": text}))
    assert queue(driver, "root.ns").max == {}


def test_a_guarantee_that_comes_later_changes_the_order_of_applications() -> None:
    """In a fair queue those come first that have least of what is guaranteed now."""
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
