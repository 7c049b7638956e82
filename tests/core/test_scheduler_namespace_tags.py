"""Sizes that applications bring for their dynamic queues (spec § 3.13)."""

import json

import pytest

from licorne_core.reports import QueueReport
from support.builders import RM, app, apps, ask, asks, config, node, nodes, register, reload
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


def test_a_reload_keeps_what_the_tags_said() -> None:
    """The template in force is applied again, and the tags of those in the queue above it."""
    driver = started(("one", tags("ns", vcore=1)))
    driver.do(reload(BY_NAMESPACE.replace("fixed", "other")))
    assert queue(driver, "root.ns").max == {"vcore": 1}


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
