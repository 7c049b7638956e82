"""The differences of configurations on the page for users of YuniKorn."""

from collections.abc import Callable

import pytest

from licorne_core.config import load
from licorne_core.config.extra import read_extra
from licorne_core.config.schema import Configuration, PartitionConfig
from licorne_core.values.errors import ConfigError
from support.core.configurations import CLOSED
from support.docs.pages import ROOT, Page

PAGE = Page("docs/differences.md")


def partition(*, queues: str = "[{name: root, queues: [{name: a}]}]", more: str = "") -> str:
    """A configuration of one partition."""
    return f"partitions: [{{name: default, queues: {queues}{more and ', '}{more}}}]"


def rule(text: str) -> str:
    """A configuration with a placement rule."""
    return partition(more=f"placementrules: [{text}]")


def only(configuration: Configuration) -> PartitionConfig:
    """The only partition of a configuration."""
    [found] = configuration.partitions
    return found


def fails(*texts: str) -> bool:
    """True if all texts are refused."""
    for text in texts:
        with pytest.raises(ConfigError):
            load(text)
    return True


def warns(text: str) -> bool:
    """True if the text is accepted with a warning, and refused in strict mode.

    The warning about access for nobody is ignored.
    """
    with pytest.raises(ConfigError):
        load(text, strict=True)
    return len([one for one in load(text).warnings if CLOSED not in one]) == 1


HERE: dict[str, Callable[[], object]] = {
    "`nodesortpolicy: fair` as a bare word": lambda: (
        load(partition(more="nodesortpolicy: binpacking")).partitions[0].node_sort
        == load(partition(more="nodesortpolicy: {type: binpacking}")).partitions[0].node_sort
    ),
    "no `nodesortpolicy`": lambda: only(load(partition())).node_sort.type.value == "auto",
    "a lone top queue `ROOT`": lambda: (
        only(load(partition(queues="[{name: ROOT, queues: [{name: a}]}]"))).root.queues[0].name == "a"
    ),
    "unknown rule, rule without its `value`, `recovery`": lambda: fails(
        rule("{name: nonsense}"), rule("{name: tag}"), rule("{name: recovery}")
    ),
    "filter type `Deny`": lambda: (
        not load(rule("{name: user, filter: {type: Deny, users: [ann]}}"))
        .partitions[0]
        .placement_rules[0]
        .filter.allow  # type: ignore[union-attr]
    ),
    "access list with blanks at its ends": lambda: load(
        partition(queues="[{name: root, submitacl: ' * ', queues: [{name: a}]}]")
    ),
    "resources of a child template": lambda: fails(
        partition(queues="[{name: a, parent: true, childtemplate: {resources: {max: {vcore: x}}}}]")
    ),
    "`parent: false` with children": lambda: warns(
        partition(queues="[{name: a, parent: false, queues: [{name: b}]}]")
    ),
    "a maximum with only zeros": lambda: (
        only(load(partition(queues="[{name: a, resources: {max: {vcore: 0}}}, {name: b}]")))
        .root.queues[0]
        .max
        == {"vcore": 0}
    ),
    "`checksum` that is not 64 hex digits": lambda: warns(partition() + "\nchecksum: abc"),
    "a user twice in one limit": lambda: (
        warns(partition(more="limits: [{limit: x, users: [ann, ann], maxapplications: 1}]"))
        and fails(
            partition(
                more="limits: [{limit: x, users: [ann], maxapplications: 1}, "
                "{limit: y, users: [ann], maxapplications: 2}]"
            )
        )
    ),
    "no `partitions`": lambda: fails("partitions: []", "checksum: ''"),
    "`stateaware`": lambda: not read_extra({}).flags and read_extra({"stateaware-as-fifo": "true"}).flags,
    "partitions whose names differ in case only": lambda: fails(
        "partitions: [{name: a, queues: [{name: b}]}, {name: A, queues: [{name: b}]}]"
    ),
}
ELSEWHERE = {
    "`fixed` with `value: rootxyz`": ("tests/core/config/test_rules.py", "value: rootxyz"),
    "`root.@recovery@` as a provided name": (
        "tests/standard/placement/transcripts/fallback.txt",
        "submit recovery-by-name queue=root.@recovery@",
    ),
    "an invalid second partition in an update": (
        "tests/scenarios/reload_settings.txt",
        "A problem in a second partition: the first is not changed either.",
    ),
    "a leaf with applications made a parent": (
        "tests/core/handlers/test_refused_configurations.py",
        "has applications and cannot become a parent",
    ),
    "limits of a queue whose name has capitals": (
        "tests/core/model/test_limits.py",
        "test_a_limit_applies_in_a_queue_whose_name_has_capitals",
    ),
    "limits in several partitions": (
        "tests/core/model/test_limits.py",
        "test_usage_is_counted_by_partition",
    ),
    "`fair`": (
        "tests/core/scheduling/test_fair_leaves.py",
        "test_users_of_a_fair_leaf_have_equal_usage",
    ),
    "`strict`": ("tests/extensions/state_aware/test_strict.py", "test_no_application_passes_the_first_one"),
    "a parent's guarantee": (
        "tests/core/handlers/test_museum.py",
        "test_siblings_below_one_guarantee_do_not_preempt_each_other",
    ),
    "victims": (
        "tests/standard/preemption/test_laws.py",
        "test_every_plan_keeps_all_laws",
    ),
}
"""Topics that need more than a parsed text: the file of the test, and words in it."""


def topics() -> list[str]:
    """The first column of the table."""
    return [row[0] for row in PAGE.table("Configuration")]


def test_every_difference_is_tested() -> None:
    """Every row of the table has a test, and every test a row."""
    assert sorted(topics()) == sorted([*HERE, *ELSEWHERE])
    for path, words in ELSEWHERE.values():
        assert words in (ROOT / path).read_text(encoding="utf-8"), path


@pytest.mark.parametrize("topic", HERE)
def test_a_configuration_behaves_as_the_table_says(topic: str) -> None:
    """A configuration behaves as in the column of Licorne."""
    assert HERE[topic]()
