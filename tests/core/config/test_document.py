"""Hostile texts are refused quickly, with the place of the problem, before a configuration is built."""

from collections import Counter
from collections.abc import Callable
from sys import setprofile

import pytest

from licorne_core.config import document, load
from licorne_core.config.caps import MAX_BYTES, MAX_DEPTH
from licorne_core.values.errors import ConfigError, Problem
from support.core.configurations import problems


def only_problem(text: str) -> Problem:
    """The only problem of the text."""
    (problem,) = problems(text)
    return problem


def alias_bomb() -> str:
    """Nine levels of lists, each with nine aliases of the level before."""
    levels = ["a: &a [x, x, x]"]
    for above, name in zip("abcdefghi", "bcdefghij", strict=True):
        levels.append(f"{name}: &{name} [{', '.join([f'*{above}'] * 9)}]")
    return "\n".join(levels)


def merge_bomb() -> str:
    """Nine levels of mappings, each with merge keys for three copies of the level before."""
    levels = ["a: &a {x: 1}"]
    for above, name in zip("abcdefghi", "bcdefghij", strict=True):
        levels.append(f"{name}: &{name} {{<<: [{', '.join([f'*{above}'] * 3)}]}}")
    return "\n".join(levels)


@pytest.mark.parametrize(
    ("bomb", "message"),
    [
        (lambda: "[" * 100_000, f"nested deeper than {MAX_DEPTH} levels"),
        (lambda: "a: " + "{a: " * 25_000, f"nested deeper than {MAX_DEPTH} levels"),
        (lambda: "- " * 50_000, f"nested deeper than {MAX_DEPTH} levels"),
        (lambda: "? " * 50_000, f"nested deeper than {MAX_DEPTH} levels"),
        (lambda: "[" * 50_000 + "]" * 50_000, f"nested deeper than {MAX_DEPTH} levels"),
        (alias_bomb, "anchors are not allowed"),
        (merge_bomb, "anchors are not allowed"),
        (lambda: "a: {<<: {b: c}}", "merge keys are not allowed"),
        (lambda: "a: *b", "aliases are not allowed: put what begins with * in quotes, as in '*'"),
        (lambda: "a: !!python/name:os.system x", "tags are not allowed"),
        (lambda: "a: ! x", "tags are not allowed"),
        (lambda: "? [a]\n: b", "a key must be a plain text"),
        (lambda: "x" * (MAX_BYTES + 1), f"the configuration is larger than {MAX_BYTES} bytes"),
        (lambda: "é" * (MAX_BYTES // 2 + 1), f"the configuration is larger than {MAX_BYTES} bytes"),
        (lambda: "a: 1\n---\nb: 2", "a second document is not allowed"),
        (lambda: "a: \ud800", "not valid UTF-8"),
    ],
)
def test_yaml_that_would_expand_without_bound_is_refused(bomb: Callable[[], str], message: str) -> None:
    """Each text is refused with one problem, after few calls."""
    assert refused_in_few_calls(bomb()) == message


def test_reading_ends_at_the_first_value_above_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of very many small values is refused at the first value above the cap."""
    monkeypatch.setattr(document, "MAX_NODES", 100)
    assert refused_in_few_calls(f"[{'a,' * 100_000}]") == "more than 100 values"


def refused_in_few_calls(text: str) -> str:
    """The problem of a text that is refused after a small number of calls."""
    calls = Counter[str]()
    setprofile(lambda frame, event, argument: calls.update((event,)))
    try:
        problem = only_problem(text)
    finally:
        setprofile(None)
    assert calls["call"] < 10_000
    return problem.message


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("a: 'x\n", 2, 1, "found unexpected end of stream while scanning a quoted scalar"),
        ("a: 1\nb: é\x07", 2, 5, "control characters are not allowed"),
        ("a:\n  - b: }", 2, 8, "did not find expected node content while parsing a block node"),
        ("a: b: c", 1, 5, "mapping values are not allowed in this context"),
    ],
)
def test_a_yaml_error_has_its_place_and_reason(text: str, line: int, column: int, message: str) -> None:
    """The problem of an invalid YAML text has its line, column and reason."""
    problem = only_problem(text)
    assert (problem.line, problem.message) == (line, f"not valid YAML: {message}")
    assert problem.column == column


def test_duplicate_keys_are_refused_with_their_line() -> None:
    """A key that occurs twice in one mapping is refused, and the message has the lines of both."""
    text = """\
        partitions:
          - name: default
            queues:
              - name: a
                submitacl: "*"
                submitacl: alice
        """
    problem = only_problem(text)
    assert (problem.line, problem.column) == (6, 9)
    assert problem.message == "key 'submitacl' is given twice, first in line 5"


def test_scalars_are_read_as_text() -> None:
    """Words and numbers that YAML would convert, such as `no` and `010`, keep their text."""
    config = load("partitions: [{name: 010, queues: [{name: no, properties: {since: 12:30, on: 0x1F}}]}]")
    (partition,) = config.partitions
    (queue,) = partition.root.queues
    assert partition.name == "010"
    assert queue.name == "no"
    assert queue.properties == {"since": "12:30", "on": "0x1F"}


def test_the_number_of_problems_is_capped() -> None:
    """Checking ends after some hundreds of problems, with a note that there are too many."""
    with pytest.raises(ConfigError) as refusal:
        load("partitions: [{queues: [" + "{}," * 10_000 + "]}]")
    assert 100 < len(refusal.value.problems) < 1000
    assert refusal.value.problems[-1].message == "there are too many problems to continue"


def test_a_message_has_one_line() -> None:
    """Messages escape control characters of the configuration, and cut long texts."""
    long = "d" * 999
    problem = only_problem(f'partitions: [{{queues: [{{name: a, submitacl: "a\\nb c {long}"}}]}}]')
    assert problem.message.startswith(r"multiple spaces found in ACL: 'a\nb c ddd")
    assert problem.message.isprintable()
    assert len(problem.message) < 600


@pytest.mark.slow
def test_a_configuration_as_large_as_a_config_map_is_loaded() -> None:
    """A text of 1 MiB of queues, each with resources and properties, is loaded."""
    head = "partitions: [{name: default, queues: [{name: root, queues: [\n"
    line = (
        "  {{name: queue-{0}, resources: {{guaranteed: {{memory: 1G, vcore: 1}}}},"
        " properties: {{application.sort.policy: fair}}, submitacl: '*', maxapplications: {0}}},\n"
    )
    lines = [line.format(number) for number in range(1, 2**20 // len(line) + 1000)]
    text = head + "".join(lines) + "]}]}]"
    assert 2**20 < len(text) < MAX_BYTES
    (partition,) = load(text).partitions
    assert len(partition.root.queues) == len(lines)
