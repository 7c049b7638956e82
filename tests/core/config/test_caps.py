"""Caps of one configuration: the maximum is accepted, and one more is refused with its place."""

from collections.abc import Callable
from typing import NamedTuple

import pytest

from licorne_core.config import caps, load
from licorne_core.config.report import MAX_PROBLEMS
from licorne_core.values.errors import ConfigError, Problem
from licorne_core.values.names import Pattern, ProgramTooLarge

HEAD = "partitions: [{name: default, queues: [{name: root"
LETTERS = r"\pL"
"""Letters of all scripts: a short expression that is large when compiled."""


def partitions(number: int) -> str:
    """This number of partitions, each with one queue."""
    names = (f"{{name: p{count}, queues: [{{name: root}}]}}" for count in range(number))
    return f"partitions: [{','.join(names)}]"


def queues(number: int) -> str:
    """This number of queues in one partition, including root."""
    return f"{HEAD}, queues: [{','.join(f'{{name: q{count}}}' for count in range(number - 1))}]}}]}}]"


def inserted_root(number: int) -> str:
    """This number of queues below an implicit root, which counts as one more queue."""
    names = ",".join(f"{{name: q{count}}}" for count in range(number - 1))
    return f"partitions: [{{name: default, queues: [{names}]}}]"


def limits(number: int) -> str:
    """This number of limits, each for one user."""
    each = (f"{{limit: '', users: [u{count}], maxapplications: 1}}" for count in range(number))
    return f"{HEAD}, limits: [{','.join(each)}]}}]}}]"


def limit_names(number: int) -> str:
    """This number of users and groups, divided over two limits."""
    half = number // 2
    users = ",".join(f"u{count}" for count in range(half))
    groups = ",".join(f"g{count}" for count in range(number - half))
    return (
        f"{HEAD}, limits: [{{limit: '', users: [{users}], maxapplications: 1}},"
        f"{{limit: '', groups: [{groups}], maxapplications: 1}}]}}]}}]"
    )


def with_rules(*rules: str) -> str:
    """A configuration with these placement rules."""
    return f"{HEAD}}}], placementrules: [{','.join(rules)}]}}]"


def rules(number: int) -> str:
    """This number of rules; the last rule is the parent of the rule before it."""
    rest = ["{name: user}"] * (number - 2)
    return with_rules(*rest, "{name: user, parent: {name: user, create: true}}")


def filter_names(number: int) -> str:
    """This number of users and groups in one filter."""
    half = number // 2
    users = ",".join(f"u{count}" for count in range(half))
    groups = ",".join(f"g{count}" for count in range(number - half))
    return with_rules(f"{{name: user, filter: {{users: [{users}], groups: [{groups}]}}}}")


def patterns(number: int) -> str:
    """This number of rules, each with a regular expression."""
    return with_rules(*["{name: user, filter: {users: ['a+']}}"] * number)


def instructions(number: int) -> str:
    """Rules whose regular expressions have this total number of instructions."""
    size = number // 5
    texts = [of_size(size)] * 4 + [of_size(number - 4 * size)]
    return with_rules(*[f"{{name: user, filter: {{users: ['{text}']}}}}" for text in texts])


def acl_names(number: int) -> str:
    """This number of users and groups, divided over both access lists of a queue."""
    half = number // 2
    users = ",".join(f"u{count}" for count in range(half))
    groups = ",".join(f"g{count}" for count in range(number - half - 1))
    return f"{HEAD}, adminacl: one, submitacl: '{users} {groups}'}}]}}]"


def resources(number: int) -> str:
    """This number of distinct resources, one of which occurs twice."""
    names = ",".join(f"r{count}: 1" for count in range(number))
    sizes = f"resources: {{max: {{{names}}}, guaranteed: {{r0: 1}}}}"
    return f"{HEAD}, queues: [{{name: a, {sizes}}}]}}]}}]"


def in_force(number: int) -> str:
    """A configuration in which all queues together have this number of properties, mostly inherited."""
    of_root = ",".join(f"p{count}: x" for count in range(100))
    children = [f"{{name: q{count}}}" for count in range(number // 100 - 1)]
    if number % 100:
        children[-1] = f"{{name: last, properties: {{{','.join(f'o{c}: x' for c in range(number % 100))}}}}}"
    return f"{HEAD}, properties: {{{of_root}}}, queues: [{','.join(children)}]}}]}}]"


def of_size(size: int) -> str:
    """A regular expression of this number of compiled instructions."""
    begin = Pattern("(?:a{1000}){1}").size - 1000
    left, text = size - begin, ""
    while left > 0:
        text += f"a{{{min(left, 1000)}}}"
        left -= min(left, 1000)
    assert Pattern(text).size == size
    return text


class Kind(NamedTuple):
    """A cap, a function that makes a text with a given number of items, and the place of the excess item."""

    cap: caps.Cap
    text: Callable[[int], str]
    path: str


KINDS = (
    Kind(caps.PARTITIONS, partitions, "partitions[1000]"),
    Kind(caps.QUEUES, queues, "partitions[0].queues[0].queues[9999]"),
    Kind(caps.QUEUES, inserted_root, "partitions[0].queues[9999]"),
    Kind(caps.LIMITS, limits, "partitions[0].queues[0].limits[10000]"),
    Kind(caps.LIMIT_NAMES, limit_names, "partitions[0].queues[0].limits[1].groups"),
    Kind(caps.PLACEMENT_RULES, rules, "partitions[0].placementrules[999].parent"),
    Kind(caps.FILTER_NAMES, filter_names, "partitions[0].placementrules[0].filter.groups"),
    Kind(caps.PATTERNS, patterns, "partitions[0].placementrules[500].filter.users[0]"),
    Kind(caps.INSTRUCTIONS, instructions, "partitions[0].placementrules[4].filter.users[0]"),
    Kind(caps.ACL_NAMES, acl_names, "partitions[0].queues[0].submitacl"),
    Kind(caps.RESOURCE_TYPES, resources, "partitions[0].queues[0].queues[0].resources.max.r1000"),
    Kind(caps.PROPERTIES_IN_FORCE, in_force, "partitions[0].queues[0].queues[1998].properties"),
)


def only_problem(text: str) -> Problem:
    """The only problem of the text."""
    with pytest.raises(ConfigError) as refusal:
        load(text)
    (problem,) = refusal.value.problems
    return problem


def in_filter(text: str) -> str:
    """A configuration with this expression in the filter of a placement rule."""
    return with_rules(f"{{name: user, filter: {{users: ['{text}']}}}}")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.text.__name__)
def test_a_configuration_at_a_cap_is_accepted(kind: Kind) -> None:
    """A configuration with exactly the maximum number of an item is accepted."""
    assert load(kind.text(kind.cap.limit)).partitions


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.text.__name__)
def test_one_item_above_a_cap_is_refused(kind: Kind) -> None:
    """One item above a cap is the only problem; the message has the number, the cap and the place."""
    problem = only_problem(kind.text(kind.cap.limit + 1))
    limit = kind.cap.limit
    assert problem.message == f"{limit + 1} {kind.cap.what}, at most {limit} are allowed"
    assert problem.path == kind.path
    assert (problem.line, problem.column > 1) == (1, True)


def test_the_length_of_an_expression_is_capped() -> None:
    """An expression of the maximum length is accepted, and one that is a character longer is refused."""
    longest = "a+".ljust(caps.MAX_PATTERN_LENGTH, "a")
    assert load(in_filter(longest)).partitions
    problem = only_problem(in_filter(f"{longest}a"))
    assert problem.message == "513 characters in a regular expression, at most 512 are allowed"
    assert problem.path == "partitions[0].placementrules[0].filter.users[0]"


def test_the_compiled_size_of_an_expression_is_capped() -> None:
    """A short expression with a large compiled program is refused."""
    assert load(in_filter(of_size(caps.MAX_PROGRAM))).partitions
    problem = only_problem(in_filter(of_size(caps.MAX_PROGRAM - 1) + "aa"))
    assert problem.message.endswith("it has 4097 instructions, at most 4096 are allowed)")
    assert problem.path == "partitions[0].placementrules[0].filter.users[0]"
    assert problem.column > 1


def test_the_compilation_of_a_huge_expression_is_abandoned() -> None:
    """The compilation of an expression far above the cap ends early, with a message that has the cap."""
    with pytest.raises(ProgramTooLarge, match="more than 4096 instructions, at most 4096 are"):
        Pattern(f"({LETTERS}{{1,30}}){{1,30}}")


def test_a_few_expressions_above_the_cap_end_the_reading() -> None:
    """An expression above the cap counts as one of the maximum size, so reading ends after a few of them."""
    each = f"{{name: user, filter: {{users: ['({LETTERS}{{1,30}}){{1,30}}']}}}}"
    with pytest.raises(ConfigError) as refusal:
        load(with_rules(*[each] * 400))
    *_, last = refusal.value.problems
    assert len(refusal.value.problems) == caps.INSTRUCTIONS.limit // caps.MAX_PROGRAM + 1
    assert last.message.startswith("20480 instructions of all compiled regular expressions, ")


def test_the_properties_of_a_queue_and_a_template_are_capped() -> None:
    """Queues and templates may have 100 properties; one more is refused."""

    def text(number: int, key: str) -> str:
        names = ",".join(f"p{count}: x" for count in range(number))
        properties = f"properties: {{{names}}}"
        inner = properties if key == "queue" else f"childtemplate: {{{properties}}}"
        return f"{HEAD}, {inner}}}]}}]"

    for key, path in (("queue", ""), ("template", ".childtemplate")):
        assert load(text(caps.MAX_PROPERTIES, key)).partitions
        problem = only_problem(text(caps.MAX_PROPERTIES + 1, key))
        assert problem.message == "101 properties, at most 100 are allowed"
        assert problem.path == f"partitions[0].queues[0]{path}.properties"


def test_the_length_of_a_property_is_capped() -> None:
    """A property of the maximum length is accepted, and a longer one is refused."""
    longest = "x" * caps.MAX_PROPERTY_LENGTH
    assert load(f"{HEAD}, properties: {{k: {longest}}}}}]}}]").partitions
    problem = only_problem(f"{HEAD}, properties: {{k: {longest}x}}}}]}}]")
    assert problem.message == "4097 characters in property k, at most 4096 are allowed"
    assert problem.path == "partitions[0].queues[0].properties.k"


def test_the_amounts_in_a_property_are_capped() -> None:
    """A property with more amounts than the cap counts as not given."""

    def losses(number: int) -> tuple[int, tuple[str, ...]]:
        amounts = ",".join(f"r{count}=1" for count in range(number))
        config = load(f"{HEAD}, submitacl: ann, properties: {{preemption.loss.limit: '{amounts}'}}}}]}}]")
        return len(config.partitions[0].root.settings.preemption_loss_limit), config.warnings

    assert losses(caps.MAX_AMOUNTS) == (100, ())
    number, (warning,) = losses(caps.MAX_AMOUNTS + 1)
    assert number == 0
    assert "has 101 amounts, at most 100 are allowed; taken as none" in warning


def test_the_number_of_warnings_is_capped() -> None:
    """Of very many warnings only the first are returned, with a note that there are more."""

    def warnings(number: int) -> tuple[str, ...]:
        names = ",".join(["same"] * (number + 1))
        limit = f"{{limit: '', users: [{names}], maxapplications: 1}}"
        return load(f"{HEAD}, submitacl: ann, limits: [{limit}]}}]}}]").warnings

    assert len(warnings(MAX_PROBLEMS)) == MAX_PROBLEMS
    more = warnings(MAX_PROBLEMS + 3)
    assert (len(more), more[-1]) == (MAX_PROBLEMS + 1, "there are more warnings")
