"""Loading of texts: the default configuration, the checksum, and arbitrary texts (spec § 2.1)."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne_core.config import (
    DEFAULT_CONFIG,
    InvalidConfiguration,
    built_in,
    checksum_of,
    keys,
    load,
    submitted,
)
from licorne_core.values.errors import ConfigError
from support.core.configurations import partition_text, problems

RICH = """\
partitions:
  - name: default
    nodesortpolicy: {type: binpacking, resourceweights: {vcore: 4.0}}
    preemption: {enabled: true}
    usergroupresolver: {type: test}
    limits:
      - {limit: all, users: ["*"], maxapplications: 100, maxresources: {vcore: 10}}
    placementrules:
      - name: tag
        value: namespace
        create: true
        parent: {name: fixed, value: root.team}
        filter: {type: deny, users: ["^x+$"], groups: [a, b]}
    queues:
      - name: root
        submitacl: "* dev"
        childtemplate: {maxapplications: 3, resources: {max: {memory: 1Gi}}}
        queues:
          - name: team
            parent: true
            maxapplications: 50
            resources: {guaranteed: {memory: 1Gi}, max: {memory: 2Gi}}
            properties: {priority.offset: 5, preemption.delay: 1m}
          - name: other
            limits: [{users: [sue], maxapplications: 5, maxresources: {vcore: 5}}]
"""


@pytest.mark.parametrize("text", ["", "  \n", "---", "---\n", "# nothing\n", "\n\n# a\n---\n...\n"])
def test_an_empty_text_gives_the_default(text: str) -> None:
    """An empty text, or one without content, gives the built-in configuration."""
    assert load(text) == load(DEFAULT_CONFIG)


def test_the_default_configuration_places_by_namespace() -> None:
    """The default has one partition, open to all, with a rule that creates a queue for each namespace."""
    config = load("")
    (partition,) = config.partitions
    (rule,) = partition.placement_rules
    assert (partition.name, partition.preemption_enabled) == ("default", True)
    assert (rule.name, rule.value, rule.create) == ("tag", "namespace", True)
    assert partition.root.submit_acl.everyone
    assert config.text == DEFAULT_CONFIG
    assert config.warnings == ()


def test_the_default_is_parsed_once() -> None:
    """All RMs without a configuration share one parsed object."""
    assert load("# nothing") is built_in()
    assert load("") is built_in()


def test_submitted_returns_the_configuration_or_its_problems() -> None:
    """A text gives a configuration, or all its problems; an empty text gives neither."""
    assert submitted(RICH) == load(RICH)
    bad = partition_text("queues: [{name: a.b}, {name: c, parent: 1}]")
    assert submitted(bad) == InvalidConfiguration(bad, tuple(problems(bad)))
    assert submitted("") is None


def test_the_checksum_is_a_sha256_in_upper_case() -> None:
    """The checksum of a text is its SHA-256 in upper-case hex digits."""
    assert load(RICH).checksum == sha256(RICH.encode()).hexdigest().upper()
    assert checksum_of("") == sha256(b"").hexdigest().upper()


@pytest.mark.parametrize("quote", ['"', "'", ""])
def test_the_checksum_excludes_its_own_key(quote: str) -> None:
    """A text has the same checksum with and without the key `checksum`, wherever that key is."""
    total = checksum_of(RICH)
    line = f"checksum: {quote}{total}{quote}"
    assert load(f"{RICH}{line}\n").checksum == total
    assert load(f"{RICH}{line}").checksum == total
    assert load(f"{line}\r\n{RICH}").checksum == total
    flow = "{partitions: [{queues: [{name: a}]}], %s}"
    assert load(flow % line).checksum == load(flow % line.lower()).checksum == checksum_of(flow % "")


def test_an_invalid_checksum_is_hashed() -> None:
    """A checksum that is not 64 hex digits is hashed as a part of the text."""
    short = RICH + 'checksum: "abc"\n'
    assert load(short).checksum == sha256(short.encode()).hexdigest().upper()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("abc", "abc"),
        ("''", ""),
        ("g" * 64, "g" * 64),
        ("0" * 65, f"{'0' * 64}…"),
        (f"' {'0' * 64}'", f" {'0' * 63}…"),
    ],
)
def test_an_invalid_checksum_gives_a_warning(text: str, found: str) -> None:
    """A checksum that is not 64 hex digits gives a warning, and an error in strict mode."""
    config = partition_text("queues: [{name: a, submitacl: ann}]") + f"checksum: {text}\n"
    message = f"'{found}' is not 64 hex digits and counts as part of the text"
    assert load(config).warnings == (f"4:11: checksum: {message}",)
    (problem,) = problems(config, strict=True)
    assert (problem.path, problem.message) == ("checksum", message)


@pytest.mark.parametrize("text", ["", "~", checksum_of(RICH), checksum_of(RICH).lower()])
def test_a_valid_checksum_gives_no_warning(text: str) -> None:
    """A checksum of 64 hex digits of either case, or an empty one, gives no warning."""
    assert load(f"{RICH}checksum: {text}\n", strict=True).warnings == ()


def test_a_checksum_that_is_a_list_is_refused() -> None:
    """A checksum that is a list is refused as a value of the wrong kind."""
    (problem,) = problems(f"{RICH}checksum: [abc]\n")
    assert (problem.path, problem.message) == ("checksum", "expected a text, found a list")


def test_equal_texts_give_equal_configurations() -> None:
    """Loading a text twice gives equal configurations, with the text as it was given."""
    assert load(RICH) == load(RICH)
    assert load(RICH).text == RICH


def test_a_configuration_with_all_keys_is_valid() -> None:
    """A configuration with all keys has no problem and no warning, even in strict mode."""
    assert load(RICH, strict=True).warnings == ()


def test_each_problem_is_one_line() -> None:
    """The text of an error has one line for each problem, which begins with its line and column."""
    with pytest.raises(ConfigError) as refusal:
        load(partition_text("queues: [{name: a.b}, {name: c, parent: 1}]"))
    assert [line.partition(" ")[0] for line in str(refusal.value).splitlines()] == ["3:21:", "3:45:"]


def is_loaded_or_refused(text: str) -> None:
    """Check that loading ends with a configuration, or with printable problems."""
    for strict in (False, True):
        for problem in problems(text, strict=strict):
            assert problem.message.isprintable()
            assert str(problem).isprintable()
    checksum_of(text)


@given(st.text())
def test_any_text_is_loaded_or_refused(text: str) -> None:
    """Any text gives a configuration or a ConfigError."""
    is_loaded_or_refused(text)


PIECES = st.sampled_from(
    [
        *"{}[]:,-#&*!|>'\"%@`?\n \t(é\x00\x85\u2028\ud800",
        *("- ", ": ", "<<: ", "\n    - name: x\n", "\n  ", "9" * 25),
        *("null", "~", "true", "1e999", "root", "fixed"),
    ]
)


@given(st.lists(st.tuples(st.integers(0, len(RICH)), st.integers(0, 30), PIECES), max_size=6))
def test_a_damaged_configuration_is_loaded_or_refused(edits: list[tuple[int, int, str]]) -> None:
    """A configuration with pieces removed and inserted gives a configuration or a ConfigError."""
    text = RICH
    for start, length, piece in edits:
        text = text[:start] + piece + text[start + length :]
    is_loaded_or_refused(text)


SECTIONS = (keys.DOCUMENT, keys.PARTITION, keys.QUEUE, keys.LIMIT, keys.RULE, keys.FILTER, keys.NODE_SORT)
KEYS = st.sampled_from(
    [*dict.fromkeys(key for section in SECTIONS for key in section), "max", "enabled", "vcore"]
)
SCALARS = st.one_of(
    st.sampled_from(["root", "a", "*", "true", "~", "0", "10", "1Gi", "fixed", "user", "''", "a b c"]),
    st.integers(-2, 5).map(str),
)


def documents() -> st.SearchStrategy[str]:
    """Texts in flow style with known keys in any place, and values of any kind."""
    trees = st.recursive(
        SCALARS,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
            st.dictionaries(KEYS, inner, max_size=4).map(
                lambda entries: "{" + ", ".join(f"{key}: {value}" for key, value in entries.items()) + "}"
            ),
        ),
        max_leaves=25,
    )
    return trees.map(lambda tree: f"{{partitions: [{{queues: [{tree}], placementrules: [{tree}]}}]}}")


@given(documents())
def test_any_tree_of_known_keys_is_loaded_or_refused(text: str) -> None:
    """Known keys in wrong places give problems, and no other exception."""
    is_loaded_or_refused(text)
