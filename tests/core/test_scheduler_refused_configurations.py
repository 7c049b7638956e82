"""A configuration that is refused changes nothing at all, whatever is wrong with it (§ 2.7.1)."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from licorne_core.commands import Command, NodeAction
from licorne_core.effects import ConfigurationRefused, Effect, RegistrationFailed
from support.builders import (
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
from support.digest import digest_of
from support.driver import Driver

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
LATER = "[{name: a, queues: [{name: x}]}, {name: new}]"
"""Queues that differ in much from those that run, to go with something that is wrong."""


@pytest.fixture
def driver() -> Driver:
    """A partition in the middle of everything: nothing in it is at rest."""
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


def told(effects: list[Effect]) -> str:
    """Why the only thing that was asked for was refused."""
    (refusal,) = effects
    assert isinstance(refusal, ConfigurationRefused | RegistrationFailed)
    assert refusal.problems
    return refusal.reason


def queue(settings: str) -> str:
    """A configuration with a queue of these settings among those that are to come."""
    return config(f"{LATER[:-1]}, {{name: wrong, {settings}}}]", rest=REST)


def rest(settings: str) -> str:
    """A configuration with these settings of the partition."""
    return config(LATER, rest=settings)


def rule(settings: str) -> str:
    """A configuration with one more placement rule."""
    return rest(f"placementrules: [{{name: user}}, {{{settings}}}]")


def second(settings: str) -> str:
    """A configuration whose first partition is fine and whose second one is not."""
    return config(LATER) + config(settings, name="second").removeprefix("partitions:\n")


WRONG = {
    "no yaml": ("partitions: [", "not valid YAML"),
    "no partition": ("partitions: []", "scheduler config is not set"),
    "no queue": ("partitions: [{name: default}]", "queue config is not set"),
    "an unknown key": (queue("colour: red"), "unknown key 'colour'"),
    "a key twice": (queue("parent: true, parent: true"), "key 'parent' is given twice"),
    "a partition twice": (
        config(LATER) + config(LATER).removeprefix("partitions:\n"),
        "duplicate partition name found with name default",
    ),
    "a queue twice": (queue("queues: [{name: x}, {name: X}]"), "duplicate child name found with"),
    "a dot in a name": (queue("queues: [{name: x.y}]"), "invalid queue name, max 64 characters"),
    "a name too long": (queue(f"queues: [{{name: {'x' * 65}}}]"), "invalid queue name, max 64"),
    "a guarantee above the maximum": (
        queue("resources: {guaranteed: {vcore: 2}, max: {vcore: 1}}"),
        ("guaranteed resource map[vcore:2000] is larger than maximum resource map[vcore:1000] "
        "for queue wrong"),
    ),
    "a maximum above the parent's": (
        queue("resources: {max: {vcore: 1}}, queues: [{name: x, resources: {max: {vcore: 2}}}]"),
        ("max resource of parent map[vcore:1000] is smaller than maximum resource "
        "map[vcore:2000] for queue x"),
    ),
    "too much guaranteed below": (
        queue(
            "resources: {guaranteed: {vcore: 1}}, queues: [{name: x, resources: "
            "{guaranteed: {vcore: 2}}}]"
        ),
        ("guaranteed resource of parent map[vcore:1000] is smaller than sum of guaranteed "
        "resources map[vcore:2000]"),
    ),
    "a bad amount": (queue("resources: {max: {memory: 5m}}"), "invalid suffix '5m' for memory"),
    "a bad amount in a template": (
        queue("parent: true, childtemplate: {resources: {max: {memory: 1.5}}}"),
        "invalid quantity '1.5' for memory",
    ),
    "resources of root": (
        "partitions: [{name: default, queues: [{name: root, resources: {max: {vcore: 1}}}]}]",
        "root queue must not have resource limits set",
    ),
    "too many applications": (
        queue("maxapplications: 1, queues: [{name: x, maxapplications: 2}]"),
        "parent maxApplications must be larger than child maxApplications",
    ),
    "any number of applications": (
        queue("maxapplications: 1, queues: [{name: x}]"),
        "maxApplications is either undefined or zero",
    ),
    "three lists of access": (queue("submitacl: a b c"), "multiple spaces found in ACL: 'a b c'"),
    "a limit for nobody": (
        queue("limits: [{limit: l, maxapplications: 1}]"),
        "empty user and group lists defined in limit 'l'",
    ),
    "a limit twice": (
        queue("limits: [{users: [u], maxapplications: 1}, {users: [u], maxapplications: 1}]"),
        "duplicated user name 'u', already exists",
    ),
    "a limit of nothing": (
        queue("limits: [{limit: l, users: [u]}]"),
        "invalid resource combination for limit l all resource limits are null",
    ),
    "a limit above the one above": (
        config(
            "[{name: x, limits: [{users: [u], maxapplications: 9}]}]",
            rest="limits: [{users: [u], maxapplications: 1}]",
        ),
        "user u max applications 9 of queue x is greater than immediate or ancestor parent",
    ),
    "limits of partition and root": (
        ("partitions: [{name: default, limits: [{users: [u], maxapplications: 1}], queues: "
        "[{name: root, limits: [{users: [u], maxapplications: 2}]}]}]"),
        "partition limits and root queue limits are not equivalent",
    ),
    "an unknown rule": (rule("name: nonsense"), "unknown rule name specified nonsense"),
    "the rule recovery": (rule("name: recovery"), "recovery rule cannot be part of the config"),
    "a rule's name": (rule("name: 1st"), "invalid rule name 1st"),
    "a tag rule without a tag": (rule("name: tag"), "a tag queue rule must have a tag name set"),
    "a fixed rule without a queue": (
        rule("name: fixed, create: true"),
        "a fixed queue rule must have a queue name set",
    ),
    "a fixed rule to a parent": (rule("name: fixed, value: a"), "which is not a leaf"),
    "a fixed rule to nowhere": (rule("name: fixed, value: b"), "references non-existing queues"),
    "a qualified rule with a parent": (
        rule("name: fixed, value: root.new, parent: {name: user}"),
        "cannot have a fixed queue rule with qualified queue getName and a parent rule",
    ),
    "a filter's type": (rule("name: user, filter: {type: some}"), "invalid rule filter type some"),
    "a filter's pattern": (
        rule("name: user, filter: {users: ['a(']}"),
        "invalid rule filter user list is not a proper list or regexp: [a(]",
    ),
    "a node order": (rest("nodesortpolicy: random"), "undefined policy: random"),
    "a negative weight": (
        rest("nodesortpolicy: {type: fair, resourceweights: {vcore: -1}}"),
        "negative resource weight for vcore is not allowed",
    ),
    "a flag that is a text": (rest("preemption: {enabled: 'true'}"), "expected true or false"),
    "a resolver": (rest("usergroupresolver: {type: magic}"), "unknown user group resolver"),
    "a second partition": (second("[{name: x.y}]"), "invalid queue name, max 64 characters"),
    "a second partition's rule": (
        config(LATER)
        + config("[{name: x}]", name="second", rest="placementrules: [{name: nonsense}]")
        .removeprefix("partitions:\n"),
        "unknown rule name specified nonsense",
    ),
}  # fmt: skip


@pytest.mark.row(23, 25, 26, 29, 31, 32, 35, 36, 37, 38, 53, 54, 56)
@pytest.mark.parametrize(("text", "reason"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("command", [reload, register])
def test_a_refused_configuration_changes_not_one_bit(
    driver: Driver, command: Callable[[str], Command], text: str, reason: str
) -> None:
    """It is refused with its reason, by an update and by a registration, and nothing has moved."""
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
def test_a_leaf_in_use_stays_a_leaf(driver: Driver, text: str) -> None:
    """What only those who are in the queues have against an update leaves no trace either."""
    before = digest_of(driver.scheduler)
    assert "has applications and cannot become a parent" in told(driver.send(reload(text)))
    assert digest_of(driver.scheduler) == before


@pytest.mark.row(55)
def test_the_same_text_changes_not_one_bit(driver: Driver) -> None:
    """An update with the text in force is a success that changes nothing."""
    before = digest_of(driver.scheduler)
    driver.send(reload(GOOD))
    assert digest_of(driver.scheduler) == before


def test_a_digest_shows_every_change(driver: Driver) -> None:
    """Of two texts that differ in one amount, the one that is taken shows in the digest."""
    before = digest_of(driver.scheduler)
    driver.send(reload(GOOD.replace("vcore: 8", "vcore: 7")))
    assert digest_of(driver.scheduler) != before
