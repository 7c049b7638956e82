"""What people write by mistake: the message, or the warning, says what to write instead."""

import pytest

from licorne_core.config import checksum_of, load
from licorne_core.values.errors import ConfigError
from support.core.configurations import complaint, find, loaded, partition_text, problems

BLANKS = ": indent with blanks, not with tabs"
MAP = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: configs
data:
  log.level: INFO
  queues.yaml: |

    partitions:
      - name: default
        queues:
          - name: root
            submitacl: 'ann, ben'
"""
INNER = "\npartitions:\n  - name: default\n    queues:\n      - name: root\n"


@pytest.mark.parametrize("key", ["submitacl", "adminacl"])
@pytest.mark.parametrize("text", ["ann, ben", "ann ,ben"])
def test_a_blank_beside_a_comma(key: str, text: str) -> None:
    """A list that a blank cuts in two is told with what it means, and what to write."""
    body = f"queues: [{{name: root, {key}: '{text}'}}]"
    config = loaded(partition_text(body))
    (warning,) = config.warnings
    assert f"partitions[0].queues[0].{key}: '{text}' means users 'ann' and groups 'ben'" in warning
    assert complaint(body, strict=True).endswith("; write 'ann,ben' if all of them are users")


@pytest.mark.parametrize("text", ["ann,ben", "ann ben", "ann,ben dev,ops", " dev", "*", "ann,ben "])
def test_lists_as_they_are_meant(text: str) -> None:
    """A blank between users and groups says nothing wrong."""
    assert problems(partition_text(f"queues: [{{name: root, submitacl: '{text}'}}]"), strict=True) == ()


def test_blanks_behind_all_commas() -> None:
    """Three lists are refused as ever, with what is probably meant."""
    assert complaint("queues: [{name: root, submitacl: 'ann, ben, eve'}]") == (
        "multiple spaces found in ACL: 'ann, ben, eve', did you mean 'ann,ben,eve'?"
    )


def test_a_queue_beside_root() -> None:
    """Two queues on top of which one is root are told where they are, at the other one."""
    body = "queues: [{name: Root, queues: [{name: a}]}, {name: b}, {name: c}]"
    config = loaded(partition_text(body))
    (warning,) = config.warnings
    assert warning.startswith("3:56: partitions[0].queues[1].name: queue 'b' stands beside root")
    assert find(config.partitions[0].root, "root.root.a").name == "a"
    assert complaint(body, strict=True).endswith("put 'b' into the queues of root")


@pytest.mark.parametrize(
    ("text", "line", "column", "end"),
    [
        ("partitions:\n\t- name: a\n", 2, 1, BLANKS),
        ("partitions:\n  - name: a\n\t  queues: []\n", 3, 1, BLANKS),
        ("partitions:\n  -\tname: a\n", 2, 4, BLANKS),
        ("a:\n  b: c\n  \td: e\n", 3, 3, BLANKS),
        ("submitacl: *\n", 1, 13, ": put what begins with * in quotes, as in '*'"),
        ("users: [*]\n", 1, 10, ": put what begins with * in quotes, as in '*'"),
        ("submitacl: *ann\n", 1, 12, ": put what begins with * in quotes, as in '*'"),
        ("name: @x\n", 1, 7, ": put what begins with @ in quotes, as in '@'"),
        ("a: b: c\n", 1, 5, "not allowed in this context"),
    ],
)
def test_yaml_says_what_to_write(text: str, line: int, column: int, end: str) -> None:
    """Tabs and signs that mean something to YAML are refused with what to write instead."""
    (problem,) = problems(text)
    assert (problem.line, problem.column) == (line, column)
    assert problem.message.endswith(end)


def test_a_config_map() -> None:
    """The text in it counts, as if it came alone; all places are those of the whole text."""
    config = load(MAP)
    inner = INNER + "        submitacl: 'ann, ben'\n"
    assert (config.text, config.checksum) == (inner, checksum_of(inner))
    assert config.checksum == load(inner).checksum
    first, second = config.warnings
    assert first == (
        "7:16: data.queues.yaml: this is a ConfigMap, of which queues.yaml is read, "
        "and none of its other keys such as log.level"
    )
    assert second.startswith("13:24: partitions[0].queues[0].submitacl: 'ann, ben' means")
    with pytest.raises(ConfigError) as refused:
        load(MAP, strict=True)
    assert [problem.line for problem in refused.value.problems] == [7, 13]


@pytest.mark.parametrize(
    ("more", "line", "column", "message"),
    [
        ("submitACL: x", 14, 13, "unknown key 'submitACL', did you mean 'submitacl'?"),
        ("submitacl: x", 14, 13, "key 'submitacl' is given twice, first in line 13"),
        ("adminacl: &x", 14, 23, "anchors are not allowed"),
        ("adminacl: *", 14, 24, "not valid YAML: "),
        ("\tadminacl: a", 14, 13, "not valid YAML: "),
    ],
)
def test_problems_in_a_config_map(more: str, line: int, column: int, message: str) -> None:
    """Whatever is wrong in the text inside is told at its place in the whole text."""
    (problem,) = problems(f"{MAP}            {more}\n")
    assert (problem.line, problem.column) == (line, column)
    assert problem.message.startswith(message)


def test_a_config_map_in_one_line() -> None:
    """A text that has no lines of its own has the place of its value."""
    data = INNER.replace("root", "r.t").replace("\n", "\\n")
    (problem,) = problems(f'apiVersion: v1\nkind: ConfigMap\ndata: {{queues.yaml: "{data}"}}\n')
    assert (problem.line, problem.column) == (3, 21)
    assert problem.path == "partitions[0].queues[0].name"


@pytest.mark.parametrize("data", ["", "data: {}", "data: {other.yaml: a}", "data: {queues.yaml: []}"])
def test_a_config_map_without_configuration(data: str) -> None:
    """It is refused with what to give instead."""
    (problem,) = problems(f"apiVersion: v1\nkind: ConfigMap\n{data}\n")
    assert problem.message == (
        "a ConfigMap without a text 'queues.yaml' in its data: give the configuration alone"
    )
