"""Partitions and queues: parsing, inserted roots, normalization and refusals (spec §§ 2.1, 2.5)."""

import pytest

from licorne_core.values.names import INVALID_QUEUE_NAME
from support.core.configurations import complaint, find, loaded, messages, partition_text, problems, root

NOT_SET = "scheduler config is not set"


@pytest.mark.row(20)
def test_root_is_inserted_above_several_queues() -> None:
    """Several top-level queues become children of an inserted root, to which nobody may submit."""
    top = root("queues: [{name: a}, {name: b}]")
    assert (top.name, top.parent, [child.name for child in top.queues]) == ("root", True, ["a", "b"])
    assert not top.submit_acl.everyone


@pytest.mark.row(21)
def test_root_is_inserted_above_a_single_queue() -> None:
    """A single top-level queue that is not root becomes a child of an inserted root."""
    assert [child.name for child in root("queues: [{name: default}]").queues] == ["default"]


@pytest.mark.parametrize("name", ["root", "ROOT", "Root"])
def test_root_without_children_is_a_parent(name: str) -> None:
    """Root may be written in any case, and is a parent even without children."""
    top = root(f"queues: [{{name: {name}, submitacl: '*'}}]")
    assert (top.name, top.parent, top.queues) == ("root", True, ())
    assert top.submit_acl.everyone


@pytest.mark.row(22)
def test_partitions_are_independent() -> None:
    """Every partition has its own tree, rules and settings."""
    config = loaded("""\
        partitions:
          - name: default
            queues: [{name: a}]
          - name: gpu
            nodesortpolicy: binpacking
            queues: [{name: a}]
        """)
    assert [p.name for p in config.partitions] == ["default", "gpu"]
    assert [p.node_sort.type.value for p in config.partitions] == ["auto", "binpacking"]


@pytest.mark.parametrize("name", ["", "default", "DEFAULT", "Default"])
def test_the_default_partition_may_be_unnamed(name: str) -> None:
    """A missing name, and `default` in any case, mean the partition `default`."""
    config = loaded(f"partitions: [{{name: '{name}', queues: [{{name: a}}]}}]")
    assert config.partitions[0].name == "default"


@pytest.mark.row(22)
@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        ("gpu", "gpu", "gpu"),
        ("gpu", "GPU", "GPU"),
        ("default", "Default", "default"),
        ("", "default", "default"),
    ],
)
def test_partition_names_differ_in_more_than_case(one: str, other: str, shown: str) -> None:
    """Two partitions whose names differ only in case are refused, at the place of the second."""
    text = f"partitions:\n- {{name: '{one}', queues: [{{name: a}}]}}\n"
    text += f"- {{name: '{other}', queues: [{{name: a}}]}}\n"
    (problem,) = problems(text)
    assert problem.message == f"duplicate partition name found with name {shown}"
    assert (problem.path, problem.line) == ("partitions[1].name", 3)


@pytest.mark.parametrize("name", ["[rm]a", "a/b", "a b", "a" * 65])
def test_ambiguous_partition_names_are_refused(name: str) -> None:
    """A partition name that contains brackets or a path separator is refused."""
    (problem,) = problems(f"partitions: [{{name: '{name}', queues: [{{name: a}}]}}]")
    assert problem.message.startswith(f"invalid partition name '{name}'")


@pytest.mark.parametrize(
    "text", ["~", "null", "partitions: []", "partitions:", "{}", "partitions: ~", "checksum: ''"]
)
def test_a_configuration_needs_a_partition(text: str) -> None:
    """A document without a partition is refused."""
    assert [problem.message for problem in problems(text)] == [NOT_SET]


@pytest.mark.parametrize("queues", ["queues: []", "queues:", "preemption: {enabled: true}"])
def test_a_partition_needs_queues(queues: str) -> None:
    """A partition without queues is refused."""
    assert complaint(queues) == "queue config is not set"


@pytest.mark.row(23)
@pytest.mark.parametrize("second", ["a", "A"])
def test_siblings_have_different_names(second: str) -> None:
    """Two children of one queue must differ in more than the case of their names."""
    body = f"queues: [{{name: root, queues: [{{name: a}}, {{name: {second}}}]}}]"
    assert complaint(body) == f"duplicate child name found with name '{second}', level 1"


@pytest.mark.row(23)
def test_the_level_of_duplicates_is_reported() -> None:
    """The message about duplicate names has the level of their parent; the level of root is 1."""
    body = "queues: [{name: p, queues: [{name: x}, {name: x}]}]"
    assert complaint(body) == "duplicate child name found with name 'x', level 2"


@pytest.mark.row(24)
def test_queues_of_different_parents_may_share_a_name() -> None:
    """A name may occur below several parents, and below itself."""
    top = root("queues: [{name: t}, {name: p, queues: [{name: t, queues: [{name: t}]}]}]")
    assert find(top, "root.p.t.t").name == "t"


@pytest.mark.row(25, 26)
@pytest.mark.parametrize(
    ("name", "found"),
    [
        *((name, f"'{name}'") for name in ("a.b", "a b", "ä", "a*", "root.a", "a$", "[a]", "a,b")),
        ("a" * 65, f"'{'a' * 64}…'"),
        ("a\\n", "'a\\n'"),
        ("", "an empty name"),
    ],
)
def test_an_invalid_queue_name_is_refused(name: str, found: str) -> None:
    """A dot, a foreign letter, and a 65th character are refused; the message ends with the name."""
    message = complaint(f'queues: [{{name: root, queues: [{{name: "{name}"}}]}}]')
    assert message == f"{INVALID_QUEUE_NAME}, found {found}"


@pytest.mark.parametrize("queue", ["{parent: true}", "{name: ~}"])
def test_a_queue_without_a_name_is_refused(queue: str) -> None:
    """A queue without a name is refused, and the message says that the name is missing."""
    assert complaint(f"queues: [{queue}]") == f"{INVALID_QUEUE_NAME}, found no name"


def test_a_queue_name_that_is_a_list_has_one_problem() -> None:
    """A name that is not a string gives exactly one problem."""
    assert complaint("queues: [{name: [a]}]") == "expected a text, found a list"


@pytest.mark.row(26)
@pytest.mark.parametrize("name", ["a" * 64, "A-b_9", "u:x#y/z@q", "0", "_"])
def test_queue_names_become_lower_case(name: str) -> None:
    """Names of up to 64 allowed characters are accepted, and become lower-case."""
    assert root(f"queues: [{{name: '{name}'}}]").queues[0].name == name.lower()


@pytest.mark.row(27)
def test_children_or_a_flag_make_a_parent() -> None:
    """A queue with children or the flag `parent` is a parent; any other queue is a leaf."""
    top = root("queues: [{name: a, queues: [{name: x}]}, {name: b, parent: true}, {name: c}]")
    assert [child.parent for child in top.queues] == [True, True, False]


@pytest.mark.row(28)
def test_parent_false_with_children_gives_a_warning() -> None:
    """A queue with children and `parent: false` gives a warning, and an error in strict mode."""
    body = "queues: [{name: a, parent: false, queues: [{name: x}]}]"
    config = loaded(partition_text(body))
    (warning,) = config.warnings
    assert "partitions[0].queues[0].parent" in warning
    assert find(config.partitions[0].root, "root.a").parent
    (problem,) = problems(partition_text(body), strict=True)
    assert problem.message.startswith("a queue with child queues is a parent")


@pytest.mark.row(29)
@pytest.mark.parametrize("resources", ["max: {memory: 1}", "guaranteed: {vcore: 1}", "max: {}"])
def test_resources_of_root_are_refused(resources: str) -> None:
    """Root takes its size from the cluster: even an empty maximum is refused."""
    body = f"queues: [{{name: root, resources: {{{resources}}}}}]"
    assert complaint(body) == "root queue must not have resource limits set"


@pytest.mark.parametrize("resources", ["{}", "~", "{max: ~}"])
def test_empty_resources_of_root_are_accepted(resources: str) -> None:
    """The key `resources` of root is accepted if it is empty."""
    assert root(f"queues: [{{name: root, resources: {resources}}}]").max is None


def test_every_key_of_a_queue_is_parsed() -> None:
    """Every key of a queue sets its field in the tree."""
    queue = find(
        root("""
            queues:
              - name: Team
                maxapplications: 12
                adminacl: " admins"
                submitacl: "*"
                resources:
                  guaranteed: {memory: 1Gi, vcore: 500m}
                  max: {memory: "2Gi", vcore: 1, gpu: 0}
                properties:
                  application.sort.policy: fair
            """),
        "root.team",
    )
    assert queue.max_applications == 12
    assert queue.guaranteed == {"memory": 1 << 30, "vcore": 500}
    assert queue.max == {"memory": 2 << 30, "vcore": 1000, "gpu": 0}
    assert queue.admin_acl.groups == {"admins"}
    assert queue.submit_acl.everyone
    assert queue.properties == {"application.sort.policy": "fair"}


@pytest.mark.row(33)
@pytest.mark.parametrize("key", ["resources", "childtemplate: {resources"])
@pytest.mark.parametrize(
    "sizes",
    [
        "max: {vcore: 0}",
        "max: {vcore: 0m, memory: 0Gi}",
        "max: {vcore: 0, memory: 1Mi}",
        "max: {}",
        "max: ~",
        "guaranteed: {vcore: 0}",
    ],
)
def test_zeros_and_missing_maxima_are_accepted(key: str, sizes: str) -> None:
    """Zeros in a maximum or a guarantee, or no maximum, give no warning."""
    body = f"queues: [{{name: a, {key}: {{{sizes}}}{'}' * key.count('{')}}}]"
    assert loaded(partition_text(body), strict=True).warnings == ()


@pytest.mark.row(32)
@pytest.mark.parametrize("quantity", ["1.5", "-1", "K", "5m", "~", "[1]", "''"])
def test_an_invalid_quantity_has_its_place(quantity: str) -> None:
    """An invalid quantity is refused with its place, in queues and in templates."""
    for key in ("resources", "childtemplate: {resources"):
        body = f"queues: [{{name: a, {key}: {{max: {{memory: {quantity}}}}}{'}' * key.count('{')}}}]"
        (problem,) = problems(partition_text(body))[:1]
        assert problem.path.endswith("resources.max.memory")
        assert problem.line == 3


@pytest.mark.row(38)
def test_access_lists_are_checked() -> None:
    """An access list with three parts is refused; impossible names are dropped with a warning."""
    assert complaint("queues: [{name: a, submitacl: 'a b c'}]") == ("multiple spaces found in ACL: 'a b c'")
    config = loaded(partition_text("queues: [{name: a, adminacl: 'bob,1up'}]"))
    assert config.partitions[0].root.queues[0].admin_acl.users == {"bob"}
    assert "'1up'" in config.warnings[0]


@pytest.mark.row(56)
@pytest.mark.parametrize(
    ("body", "line", "key", "hint"),
    [
        ("queues:\n- name: a\n  colour: red", 5, "colour", ""),
        ("queues: [{name: a}]\nmemory: 3", 4, "memory", ""),
        ("queues: [{name: a, submitACL: x}]", 3, "submitACL", "submitacl"),
        ("queue: [{name: a}]", 3, "queue", "queues"),
        ("queues: [{name: a, maxApplication: 1}]", 3, "maxApplication", "maxapplications"),
        ("preemption: {enable: true}\nqueues: [{name: a}]", 3, "enable", "enabled"),
        ("queues: [{name: a,\n resources: {min: {}}}]", 4, "min", ""),
        ("limits:\n- {users: [a], maxapplications: 1,\n   user: x}\nqueues: [{name: a}]", 5, "user", "users"),
        ("placementrules: [{name: user, creates: true}]\nqueues: [{name: a}]", 3, "creates", "create"),
    ],
)
def test_unknown_keys_are_refused(body: str, line: int, key: str, hint: str) -> None:
    """An unknown key is refused with its line, and a similar key is suggested."""
    (problem,) = [each for each in problems(partition_text(body)) if "unknown" in each.message]
    meant = f", did you mean '{hint}'?" if hint else ""
    assert problem.message == f"unknown key '{key}'{meant}"
    assert problem.line == line
    assert problem.path.endswith(key)


def test_all_problems_are_reported_in_order() -> None:
    """All problems of a text are reported, in the order of the text, each with its place."""
    found = problems("""\
        partitions:
          - name: default
            nodesortpolicy: random
            queues:
              - name: a.b
                resources: {max: {memory: lots}}
              - name: c
                submitacl: a b c
                parent: perhaps
                flavour: sweet
        """)
    assert [str(problem) for problem in found] == [
        (
            "3:21: partitions[0].nodesortpolicy: undefined policy: random, expected one of auto, fair, "
            "binpacking, spread"
        ),
        f"5:15: partitions[0].queues[0].name: {INVALID_QUEUE_NAME}, found 'a.b'",
        (
            "6:35: partitions[0].queues[0].resources.max.memory: invalid quantity 'lots' for memory, "
            "expected a whole number, alone or with k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei"
        ),
        "8:20: partitions[0].queues[1].submitacl: multiple spaces found in ACL: 'a b c'",
        "9:17: partitions[0].queues[1].parent: expected true or false, found 'perhaps'",
        "10:9: partitions[0].queues[1].flavour: unknown key 'flavour'",
    ]


@pytest.mark.row(46, 47)
def test_child_templates_are_parsed() -> None:
    """A template has its limits and properties; an empty template counts as none."""
    top = root("""
        queues:
          - name: root
            childtemplate:
              maxapplications: 10
              properties: {application.sort.policy: stateaware}
              resources: {guaranteed: {vcore: 1}, max: {vcore: 20, memory: 600000}}
            queues:
              - {name: parent, parent: true, childtemplate: {resources: {max: {vcore: 21}}}}
              - {name: notemplate, parent: true}
              - {name: empty, parent: true, childtemplate: {}}
              - {name: zeros, parent: true, childtemplate: {resources: {guaranteed: {vcore: 0}}}}
              - {name: closed, parent: true, childtemplate: {resources: {max: {vcore: 0}}}}
        """)
    template = top.child_template
    assert template is not None
    assert template.max_applications == 10
    assert template.properties == {"application.sort.policy": "stateaware"}
    assert (template.guaranteed, template.max) == ({"vcore": 1000}, {"vcore": 20000, "memory": 600000})
    parent, *others, closed = top.queues
    assert parent.child_template is not None
    assert parent.child_template.max == {"vcore": 21000}
    assert closed.child_template is not None
    assert closed.child_template.max == {"vcore": 0}
    assert [queue.child_template for queue in others] == [None, None, None]


@pytest.mark.row(84)
def test_the_recovery_queue_cannot_be_configured() -> None:
    """The name of the recovery queue is refused directly below root."""
    text = "queues: [{name: root, queues: [{name: '@recovery@', parent: true}]}]"
    assert messages(text) == ["queue name '@recovery@' is kept for recovery"]
