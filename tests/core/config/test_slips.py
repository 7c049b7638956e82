"""Common mistakes give a message or a warning with the correction."""

import pytest

from licorne_core.config import checksum_of, load
from licorne_core.config.extra import meant_key
from licorne_core.values.errors import ConfigError
from support.core.configurations import CLOSED, complaint, find, loaded, partition_text, problems

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
def test_a_blank_next_to_a_comma_is_explained(key: str, text: str) -> None:
    """Groups follow a blank, so a blank next to a comma gives a warning with a correction."""
    body = f"queues: [{{name: root, {key}: '{text}'}}]"
    config = loaded(partition_text(body))
    (warning,) = config.warnings
    assert f"partitions[0].queues[0].{key}: '{text}' means users 'ann' and groups 'ben'" in warning
    assert complaint(body, strict=True).endswith("; write 'ann,ben' if all of them are users")


@pytest.mark.parametrize("text", ["ann,ben", "ann ben", "ann,ben dev,ops", " dev", "*", "ann,ben "])
def test_a_blank_before_the_groups_gives_no_warning(text: str) -> None:
    """A single blank between users and groups gives no warning."""
    assert problems(partition_text(f"queues: [{{name: root, submitacl: '{text}'}}]"), strict=True) == ()


def test_blanks_after_all_commas_are_refused() -> None:
    """A list with two blanks is refused, with a suggestion of the list without blanks."""
    assert complaint("queues: [{name: root, submitacl: 'ann, ben, eve'}]") == (
        "multiple spaces found in ACL: 'ann, ben, eve', did you mean 'ann,ben,eve'?"
    )


def test_a_queue_next_to_root_gives_a_warning() -> None:
    """A top-level queue next to root gives a warning at its place, and is refused in strict mode."""
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
def test_yaml_problems_have_a_correction(text: str, line: int, column: int, end: str) -> None:
    """Tabs, and characters with a meaning in YAML, are refused with the correction."""
    (problem,) = problems(text)
    assert (problem.line, problem.column) == (line, column)
    assert problem.message.endswith(end)


def test_the_configuration_in_a_config_map_is_read() -> None:
    """The configuration in a ConfigMap is read like a separate file; problems have places in the map."""
    config = load(MAP)
    inner = INNER + "        submitacl: 'ann, ben'\n"
    assert (config.text, config.checksum) == (inner, checksum_of(inner))
    assert config.checksum == load(inner).checksum
    first, second = config.warnings
    assert first == (
        "7:16: data.queues.yaml: this is a ConfigMap, of which queues.yaml is read; keys such as log.level "
        "belong in the extra configuration that an RM registers with"
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
def test_problems_in_a_config_map_have_their_place(more: str, line: int, column: int, message: str) -> None:
    """A problem of the configuration in a ConfigMap has its place in the ConfigMap."""
    (problem,) = problems(f"{MAP}            {more}\n")
    assert (problem.line, problem.column) == (line, column)
    assert problem.message.startswith(message)


def test_a_config_map_in_one_line_has_the_place_of_its_value() -> None:
    """If the configuration is a quoted text in one line, its problems have the place of that text."""
    data = INNER.replace("root", "r.t").replace("\n", "\\n")
    (problem,) = problems(f'apiVersion: v1\nkind: ConfigMap\ndata: {{queues.yaml: "{data}"}}\n')
    assert (problem.line, problem.column) == (3, 21)
    assert problem.path == "partitions[0].queues[0].name"


@pytest.mark.parametrize("data", ["", "data: {}", "data: {other.yaml: a}", "data: {queues.yaml: []}"])
def test_a_config_map_without_a_configuration_is_refused(data: str) -> None:
    """A ConfigMap without a configuration is refused, with a message that names the expected key."""
    (problem,) = problems(f"apiVersion: v1\nkind: ConfigMap\n{data}\n")
    assert problem.message == (
        "a ConfigMap without a text 'queues.yaml' in its data: give the configuration alone"
    )


VALUES = """\
image: licorne
yunikornDefaults:
  service:
    clusterId: c
  queues.yaml: |
    partitions:
      - name: default
        queues:
          - name: root
            submitacl: "*"
"""


@pytest.mark.parametrize(
    "text",
    [
        VALUES,
        VALUES.replace("queues.yaml:", "configuration:"),
        "configuration: |\n" + VALUES.partition("queues.yaml: |\n")[2],
    ],
)
def test_the_only_configuration_among_chart_values_is_read(text: str) -> None:
    """The only configuration among the values of a chart is read; places are those in the file of values."""
    config = load(text)
    assert config.partitions[0].root.submit_acl.everyone
    (warning,) = config.warnings
    assert "these are the values of a chart, of which" in warning
    wrong = text.replace("submitacl", "submitacls")
    (problem,) = problems(wrong)
    assert wrong.splitlines()[problem.line - 1][problem.column - 1 :].startswith("submitacls")
    assert len(problems(text, strict=True)) == 1


def test_several_configurations_among_chart_values_are_refused() -> None:
    """Several configurations among the values of a chart are refused; the message has their lines."""
    (problem,) = problems(VALUES + "configuration: |\n  partitions: []\n")
    assert problem.message == (
        "several texts have a configuration: yunikornDefaults.queues.yaml in line 5, "
        "configuration in line 11; give one of them alone"
    )


@pytest.mark.parametrize(
    "other", ["partitions: 3", "partitions:\n    count: 3", "partitions: # three\n    3"]
)
def test_chart_values_with_partitions_that_are_not_a_list_are_ignored(other: str) -> None:
    """A chart value in which `partitions` is not a list is not taken for a configuration."""
    text = f"kafka.topic: |\n  {other}\n"
    (warning,) = load(VALUES + text).warnings
    assert "of which yunikornDefaults.queues.yaml is read" in warning
    assert not any("of which" in problem.message for problem in problems(text))
    listed = VALUES.replace("partitions:\n", "partitions: # all\n\n")
    assert load(listed).partitions[0].root.submit_acl.everyone


def test_misspelled_keys_of_a_config_map_are_reported() -> None:
    """A misspelled key of the extra configuration in a ConfigMap is reported."""
    text = MAP.replace("log.level", "log.core.scheduler.levle")
    assert text != MAP
    first, second, _ = load(text).warnings
    assert second.endswith("queues.yaml is read, and none of its other keys such as log.core.scheduler.levle")
    assert first.endswith("key log.core.scheduler.levle means nothing, did you mean 'log.<logger>.level'?")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        *dict.fromkeys(
            (
                *("budget", "budget.gpu-hour", "budgets.gpu-hours", "budget.gpu_hours", "budget.gpu-hrs"),
                *("buget.gpu-hours", "Budget.gpu-hours", "budget-gpu-hours", "budget.-hours"),
                f"budget.{'g' * 64}-hour",
            ),
            "budget.<resource>-hours",
        ).items(),
        ("topology", "topology.levels"),
        ("topology.level", "topology.levels"),
        ("topologies.levels", "topology.levels"),
        ("topology.swap_seconds", "topology.swap-seconds"),
        ("budget.gpu-hours", ""),
        ("budget.nvidia.com/gpu-hours", ""),
        ("budget.nvidia.com/gpu-hour", "budget.<resource>-hours"),
        ("budgetary.owner", ""),
        ("budgets", ""),
        ("team", ""),
        ("team.budget", ""),
    ],
)
def test_misspelled_properties_with_a_variable_part_are_reported(name: str, meant: str) -> None:
    """A property with a variable part, such as a budget, is compared by its fixed part."""
    body = f"queues: [{{name: a, properties: {{{name}: 5/day}}}}]"
    told = [one for one in loaded(partition_text(body)).warnings if "means nothing" in one]
    assert [one.partition("did you mean ")[2] for one in told] == ([f"'{meant}'?"] if meant else [])
    assert bool(problems(partition_text(body), strict=True)) == bool(meant)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("log.core.level", ""),
        ("log.level", ""),
        ("service.clusterId", ""),
        ("log.levle", "log.level"),
        ("log.core.levels", "log.<logger>.level"),
        ("logs.core.level", "log.<logger>.level"),
        *((name, "") for name in ("login.timeout", "logging.format", "logstash.url", "logo", "log-format")),
        ("event.trackingenabled", "event.trackingEnabled"),
    ],
)
def test_misspelled_keys_of_the_extra_configuration_are_reported(name: str, meant: str) -> None:
    """A misspelled key of the extra configuration is reported; keys of other programs are not."""
    assert meant_key(name) == meant


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("quota.preemption.delay", "quota.preemption.delay"),
        ("quota.preemption.delays", "quota.preemption.delay"),
        ("budget.gpu-hours", "budget.<resource>-hours"),
    ],
)
def test_a_property_among_resources_is_reported(name: str, key: str) -> None:
    """A property among resources is reported with the key to which it belongs."""
    body = f"queues: [{{name: a, resources: {{max: {{vcore: 4, {name}: 10}}}}}}]"
    (warning,) = loaded(partition_text(body)).warnings
    assert warning.endswith(f"'{name}' is no resource here, but a property: '{key}' belongs in 'properties'")
    assert complaint(body, strict=True) in warning


@pytest.mark.parametrize(
    ("amount", "told"),
    [
        ("400000", True),
        ("1048575", True),
        ("1", True),
        ("1Mi", False),
        ("0", False),
        ("512k", False),
        ("512Ki", False),
    ],
)
def test_an_amount_of_memory_below_1mi_is_reported(amount: str, told: bool) -> None:
    """An amount of memory below 1Mi gives a warning, except zero, which forbids memory."""
    body = f"queues: [{{name: a, resources: {{max: {{memory: {amount}}}}}}}]"
    warnings = loaded(partition_text(body)).warnings
    ends = f"{amount} is less than 1Mi, as it counts bytes: did you mean {amount}M or {amount}Mi?"
    assert [one.endswith(ends) for one in warnings] == [True] * told


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("queues: [{name: root}]", True),
        ("queues: [{name: a}, {name: b}]", True),
        ("queues: [{name: root, submitacl: ' '}]", True),
        ("queues: [{name: root, queues: [{name: a, submitacl: ann}]}]", False),
        ("queues: [{name: root, adminacl: ' ops'}]", False),
        ("queues: [{name: root, submitacl: '*'}]", False),
    ],
)
def test_a_tree_without_submit_access_is_reported(body: str, told: bool) -> None:
    """A tree in which nobody may submit gives a warning."""
    warnings = load(partition_text(body)).warnings
    assert [CLOSED in one for one in warnings] == [True] * told


@pytest.mark.parametrize(
    ("root", "below", "told"),
    [
        ("submitacl: '*'", "submitacl: ann", "root"),
        ("adminacl: '*'", "submitacl: ann", "root"),
        ("submitacl: '*'", "submitacl: '*'", ""),
        ("submitacl: '*'", "adminacl: ann", ""),
        ("submitacl: ben", "submitacl: ann", ""),
        ("submitacl: ben", "submitacl: '*', queues: [{name: c, submitacl: eve}]", "b"),
    ],
)
def test_access_lists_without_effect_are_reported(root: str, below: str, told: str) -> None:
    """An access list below a queue that is open to everyone has no effect, and gives a warning."""
    body = f"queues: [{{name: root, {root}, queues: [{{name: a, queues: [{{name: b, {below}}}]}}]}}]"
    warnings = loaded(partition_text(body)).warnings
    ends = f"closes nothing: everybody may submit below queue {told}, which is open"
    assert [one.endswith(ends) for one in warnings] == [True] * bool(told)


@pytest.mark.parametrize(
    ("acl", "told"), [("team-a-group", True), ("data_team", True), (" team-a", False), ("steam,ann", False)]
)
def test_a_user_named_like_a_group_is_reported(acl: str, told: bool) -> None:
    """A user whose name looks like that of a group gives a warning, as groups have to follow a blank."""
    warnings = loaded(partition_text(f"queues: [{{name: root, submitacl: '{acl}'}}]")).warnings
    assert ["is a user's name: groups stand behind a blank" in one for one in warnings] == [True] * told
