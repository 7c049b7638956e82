"""Configurations: short ways to load one, and one with each possible mistake, and its message."""

from dataclasses import replace
from textwrap import dedent, indent

from licorne_core.config import load
from licorne_core.config.schema import Configuration, PartitionConfig, QueueConfig
from licorne_core.values.errors import ConfigError, Problem
from support.core.builders import config


def partition_text(body: str) -> str:
    """A configuration of one partition; the body follows its name."""
    return f"partitions:\n  - name: default\n{indent(dedent(body).strip(), '    ')}\n"


CLOSED = "nobody may submit applications"
"""The beginning of a warning about most configurations of tests, which have no access lists."""


def loaded(text: str, *, strict: bool = False) -> Configuration:
    """The configuration of a text that is written with the test's own indentation."""
    if strict and (found := problems(text, strict=True)):
        raise ConfigError(found)
    config = load(dedent(text))
    return replace(config, warnings=tuple(one for one in config.warnings if CLOSED not in one))


def partition(body: str) -> PartitionConfig:
    """The only partition, with this body after its name."""
    return load(partition_text(body)).partitions[0]


def root(body: str) -> QueueConfig:
    """The root queue of the only partition."""
    return partition(body).root


def problems(text: str, *, strict: bool = False) -> tuple[Problem, ...]:
    """The problems of the text; none if it can be loaded."""
    try:
        load(dedent(text), strict=strict)
    except ConfigError as error:
        return tuple(problem for problem in error.problems if CLOSED not in problem.message)
    return ()


def messages(body: str, *, strict: bool = False) -> list[str]:
    """The messages about a partition with this body."""
    return [problem.message for problem in problems(partition_text(body), strict=strict)]


def complaint(body: str, *, strict: bool = False) -> str:
    """The only message about a partition."""
    (message,) = messages(body, strict=strict)
    return message


def find(queue: QueueConfig, path: str) -> QueueConfig:
    """The queue at a path that begins with the queue's own name."""
    for name in path.split(".")[1:]:
        (queue,) = [child for child in queue.queues if child.name == name]
    return queue


LIMITS = "limits: [{limit: all, users: ['*'], maxresources: {vcore: 20}}]"
LATER = "[{name: a, queues: [{name: x}]}, {name: new}]"
"""Queues that differ much from the running ones, for tests with an additional mistake."""


def _queue(settings: str) -> str:
    """A configuration with a queue of these settings among the later ones."""
    return config(f"{LATER[:-1]}, {{name: wrong, {settings}}}]", rest=LIMITS)


def _rest(settings: str) -> str:
    """A configuration with these settings of the partition."""
    return config(LATER, rest=settings)


def _rule(settings: str) -> str:
    """A configuration with one more placement rule."""
    return _rest(f"placementrules: [{{name: user}}, {{{settings}}}]")


def _second(settings: str) -> str:
    """A configuration whose first partition is fine and whose second one is not."""
    return config(LATER) + config(settings, name="second").removeprefix("partitions:\n")


WRONG: dict[str, tuple[str, str]] = {
    "no yaml": ("partitions: [", "not valid YAML"),
    "no partition": ("partitions: []", "scheduler config is not set"),
    "no queue": ("partitions: [{name: default}]", "queue config is not set"),
    "an unknown key": (_queue("colour: red"), "unknown key 'colour'"),
    "a key twice": (_queue("parent: true, parent: true"), "key 'parent' is given twice"),
    "a partition twice": (
        config(LATER) + config(LATER).removeprefix("partitions:\n"),
        "duplicate partition name found with name default",
    ),
    "a queue twice": (_queue("queues: [{name: x}, {name: X}]"), "duplicate child name found with"),
    "a dot in a name": (_queue("queues: [{name: x.y}]"), "invalid queue name, max 64 characters"),
    "a name too long": (_queue(f"queues: [{{name: {'x' * 65}}}]"), "invalid queue name, max 64"),
    "a guarantee above the maximum": (
        _queue("resources: {guaranteed: {vcore: 2}, max: {vcore: 1}}"),
        ("guaranteed resource map[vcore:2000] is larger than maximum resource map[vcore:1000] "
        "for queue wrong"),
    ),
    "a maximum above the parent's": (
        _queue("resources: {max: {vcore: 1}}, queues: [{name: x, resources: {max: {vcore: 2}}}]"),
        ("max resource of parent map[vcore:1000] is smaller than maximum resource "
        "map[vcore:2000] for queue x"),
    ),
    "too much guaranteed below": (
        _queue(
            "resources: {guaranteed: {vcore: 1}}, queues: [{name: x, resources: "
            "{guaranteed: {vcore: 2}}}]"
        ),
        ("guaranteed resource of parent map[vcore:1000] is smaller than sum of guaranteed "
        "resources map[vcore:2000]"),
    ),
    "too much guaranteed for the maximum": (
        _queue(
            "resources: {max: {vcore: 1}}, queues: [{name: x, resources: "
            "{guaranteed: {vcore: 2}}}]"
        ),
        ("max resource map[vcore:1000] is smaller than sum of guaranteed resources "
        "map[vcore:2000]"),
    ),
    "a bad amount": (_queue("resources: {max: {memory: 5m}}"), "invalid suffix '5m' for memory"),
    "a bad amount in a template": (
        _queue("parent: true, childtemplate: {resources: {max: {memory: 1.5}}}"),
        "invalid quantity '1.5' for memory",
    ),
    "resources of root": (
        "partitions: [{name: default, queues: [{name: root, resources: {max: {vcore: 1}}}]}]",
        "root queue must not have resource limits set",
    ),
    "too many applications": (
        _queue("maxapplications: 1, queues: [{name: x, maxapplications: 2}]"),
        "parent maxApplications must be larger than child maxApplications",
    ),
    "any number of applications": (
        _queue("maxapplications: 1, queues: [{name: x}]"),
        "maxApplications is either undefined or zero",
    ),
    "three lists of access": (_queue("submitacl: a b c"), "multiple spaces found in ACL: 'a b c'"),
    "a limit for nobody": (
        _queue("limits: [{limit: l, maxapplications: 1}]"),
        "empty user and group lists defined in limit 'l'",
    ),
    "a limit twice": (
        _queue("limits: [{users: [u], maxapplications: 1}, {users: [u], maxapplications: 1}]"),
        "duplicated user name 'u', already exists",
    ),
    "a limit of nothing": (
        _queue("limits: [{limit: l, users: [u]}]"),
        "invalid resource combination for limit l all resource limits are null",
    ),
    "a limit of zeros": (
        _queue("limits: [{limit: l, users: [u], maxresources: {vcore: 0}}]"),
        "MaxResources should be greater than zero in 'l' limit",
    ),
    "a name behind the wildcard": (
        _queue("limits: [{users: ['*'], maxapplications: 1}, {users: [u], maxapplications: 1}]"),
        "should not set no wildcard user u after wildcard user limit",
    ),
    "a wildcard beside a name": (
        _queue("limits: [{users: [u, '*'], maxapplications: 1}]"),
        "the wildcard cannot stand beside user names in one limit",
    ),
    "a group wildcard alone": (
        _queue("limits: [{groups: ['*'], maxapplications: 1}]"),
        "should not specify only one group limit that is using the wildcard",
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
    "an unknown rule": (_rule("name: nonsense"), "unknown rule name specified nonsense"),
    "the rule recovery": (_rule("name: recovery"), "recovery rule cannot be part of the config"),
    "a rule's name": (_rule("name: 1st"), "invalid rule name 1st"),
    "a tag rule without a tag": (_rule("name: tag"), "a tag queue rule must have a tag name set"),
    "a fixed rule without a queue": (
        _rule("name: fixed, create: true"),
        "a fixed queue rule must have a queue name set",
    ),
    "a fixed rule to a parent": (_rule("name: fixed, value: a"), "which is not a leaf"),
    "a fixed rule to nowhere": (_rule("name: fixed, value: b"), "references non-existing queues"),
    "a qualified rule with a parent": (
        _rule("name: fixed, value: root.new, parent: {name: user}"),
        "cannot have a fixed queue rule with qualified queue getName and a parent rule",
    ),
    "a filter's type": (_rule("name: user, filter: {type: some}"), "invalid rule filter type some"),
    "a filter's pattern": (
        _rule("name: user, filter: {users: ['a(']}"),
        "invalid rule filter user list is not a proper list or regexp: [a(]",
    ),
    "a node order": (_rest("nodesortpolicy: random"), "undefined policy: random"),
    "a negative weight": (
        _rest("nodesortpolicy: {type: fair, resourceweights: {vcore: -1}}"),
        "negative resource weight for vcore is not allowed",
    ),
    "a flag that is a text": (_rest("preemption: {enabled: 'true'}"), "expected true or false"),
    "a resolver": (_rest("usergroupresolver: {type: magic}"), "unknown user group resolver"),
    "a second partition": (_second("[{name: x.y}]"), "invalid queue name, max 64 characters"),
    "a second partition's rule": (
        config(LATER)
        + config("[{name: x}]", name="second", rest="placementrules: [{name: nonsense}]")
        .removeprefix("partitions:\n"),
        "unknown rule name specified nonsense",
    ),
}  # fmt: skip
