"""A refused configuration changes nothing, whatever its problem (§ 2.7.1)."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from licorne_core.messages.commands import Command, NodeAction
from licorne_core.messages.effects import ConfigurationRefused, Effect, RegistrationFailed
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
from support.core.configurations import WRONG
from support.core.contents import digest_of
from support.core.driver import Driver

QUEUES = """[
  {name: a, resources: {guaranteed: {vcore: 1}, max: {vcore: 8}},
   limits: [{limit: own, users: [ann], maxapplications: 2}]},
  {name: aware, properties: {application.sort.policy: stateaware}},
  {name: tired, properties: {application.unschedasks.backoff: '1'}},
  {name: p, childtemplate: {maxapplications: 3}, queues: [{name: q}]},
  {name: default}]"""
REST = """\
limits:
  - {limit: all, users: ['*'], maxresources: {vcore: 20}}
placementrules: [{name: provided, create: true}]"""
GOOD = config(QUEUES, rest=REST)
BEFORE = config(QUEUES.replace("{name: default}", "{name: default}, {name: old}"), rest=REST)


def in_the_middle() -> Driver:
    """A partition with every kind of operation in progress."""
    driver = Driver()
    driver.do(register(BEFORE, extra={"log.level": "INFO"}))
    driver.do(nodes(node("n1", vcore=9000), node("n2", NodeAction.CREATE_DRAIN, vcore=9000)))
    where = ["root.a", "root.aware", "root.aware", "root.tired", "root.p.made", "root.old"]
    driver.do(apps(*(app(f"app-{i}", queue) for i, queue in enumerate(where))))
    driver.do(apps(app("refused", user=""), app("gone", "root.a"), app("done", "root.default")))
    driver.do(asks(*(ask(f"app-{i}", f"k{i}{n}", vcore=3000) for i in range(6) for n in range(3))))
    driver.do(asks(ask("done", "k", vcore=1)), releases(release("done")), remove_apps("gone"))
    driver.wait(31.0)
    driver.do(apps(app("done", "root.default")))
    foreign = replace(ask("", "daemon", on_node="n1", vcore=100), tags={"foreign": "default"})
    driver.do(asks(foreign), reload(GOOD))
    return driver


@pytest.fixture(scope="module")
def driver() -> Driver:
    """One driver for all tests, none of which changes its state."""
    return in_the_middle()


def told(effects: list[Effect]) -> str:
    """The reason for the only refusal."""
    (refusal,) = effects
    assert isinstance(refusal, ConfigurationRefused | RegistrationFailed)
    assert refusal.problems
    return refusal.reason


@pytest.mark.row(23, 25, 26, 29, 31, 32, 35, 36, 37, 38, 53, 54, 56)
@pytest.mark.parametrize(("text", "reason"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("command", [reload, register])
def test_a_refused_configuration_changes_nothing(
    driver: Driver, command: Callable[[str], Command], text: str, reason: str
) -> None:
    """A configuration refused by an update or a registration has a reason, and changes no state."""
    before = digest_of(driver.scheduler)
    assert reason in told(driver.send(command(text)))
    assert digest_of(driver.scheduler) == before


@pytest.mark.row(53)
@pytest.mark.parametrize(
    "text",
    [
        config("[{name: new}, {name: a, queues: [{name: x}]}]"),
        config("[{name: new}, {name: p, queues: [{name: made, parent: true}]}]"),
        config("[{name: new}, {name: old, parent: true}]"),
    ],
    ids=["a managed leaf", "a dynamic leaf", "a draining leaf"],
)
def test_the_refusal_to_change_a_leaf_in_use_changes_nothing(driver: Driver, text: str) -> None:
    """A refusal because of a leaf with applications changes no state."""
    before = digest_of(driver.scheduler)
    assert "has applications and cannot become a parent" in told(driver.send(reload(text)))
    assert digest_of(driver.scheduler) == before


@pytest.mark.row(55)
def test_an_update_with_the_same_text_changes_nothing(driver: Driver) -> None:
    """An update with the text in force succeeds, and changes no state."""
    before = digest_of(driver.scheduler)
    driver.send(reload(GOOD))
    assert digest_of(driver.scheduler) == before


def test_a_digest_shows_every_change() -> None:
    """A digest of the state differs after a change of a single amount."""
    driver = in_the_middle()
    before = digest_of(driver.scheduler)
    driver.send(reload(GOOD.replace("vcore: 8", "vcore: 7")))
    assert digest_of(driver.scheduler) != before
