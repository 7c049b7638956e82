"""Parsing and checks of placement rules (spec §§ 2.5 #14, #15, 3.8, 14)."""

import pytest

from licorne_core.config.schema import name_list
from licorne_core.values.names import is_group_name, is_user_name
from support.core.configurations import messages, partition

QUEUES = """
queues:
  - name: root
    queues:
      - {name: users, parent: true}
      - {name: default}
      - {name: teams, queues: [{name: a}]}
"""


def rule_problems(rules: str) -> list[str]:
    """The problems of a list of rules, with the parent `users` and the leaves `default` and `teams.a`."""
    return messages(f"placementrules: [{rules}]{QUEUES}")


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (
            "{name: fixed, value: root.users}",
            "placement rule no. #1 (fixed) references a queue (root.users) which is not a leaf",
        ),
        (
            "{name: fixed, value: root}",
            "placement rule no. #1 (fixed) references a queue (root) which is not a leaf",
        ),
        (
            "{name: fixed, value: ROOT.Users}",
            "placement rule no. #1 (fixed) references a queue (root.users) which is not a leaf",
        ),
        (
            "{name: fixed, value: nowhere}",
            (
                "placement rule no. #1 (fixed) references non-existing queues (root.nowhere) "
                "and create is 'false'"
            ),
        ),
        (
            "{name: fixed, value: b, parent: {name: fixed, value: teams}}",
            (
                "placement rule no. #1 (fixed->fixed) references non-existing queues "
                "(root.teams.b) and create is 'false'"
            ),
        ),
        (
            (
                "{name: user, create: true, parent: {name: tag, value: t, parent: "
                "{name: fixed, value: nowhere}}}"
            ),
            (
                "placement rule no. #1 (user->tag->fixed) references non-existing queues "
                "(root.nowhere) and create is 'false'"
            ),
        ),
        (
            "{name: fixed, value: root.default.x, create: true}",
            (
                "placement rule no. #1 (fixed) references non-existing queues (root.default.x) "
                "which cannot be created because the last queue (default) "
                "in the hierarchy is a leaf"
            ),
        ),
        (
            "{name: user, parent: {name: fixed, value: default}}",
            "placement rule no. #1 (user->fixed) references a queue (root.default) which is a leaf",
        ),
    ],
)
def test_invalid_fixed_paths_are_refused(rule: str, message: str) -> None:
    """A fixed path that names a parent, an unknown queue, or a queue below a leaf is refused."""
    assert rule_problems(f"{{name: provided}}, {rule}") == [message]


@pytest.mark.parametrize(
    "rule",
    [
        "{name: fixed, value: default}",
        "{name: fixed, value: root.teams.a}",
        "{name: fixed, value: teams.new, create: true}",
        "{name: fixed, value: a, parent: [{name: fixed, value: teams}]}",
        "{name: user, parent: {name: fixed, value: root}}",
        "{name: fixed, value: x, parent: {name: user, parent: {name: fixed, value: users}}}",
        "{name: fixed, value: rootxyz, create: true}",
        "{name: tag, value: namespace}",
    ],
)
def test_valid_fixed_paths_are_accepted(rule: str) -> None:
    """Existing leaves, leaves that may be created, and parents of a remaining path are accepted."""
    assert rule_problems(rule) == []


@pytest.mark.row(76)
def test_rules_with_parents_and_filters_are_parsed() -> None:
    """Rules with filters, with parents in both forms, and with a whole fixed path are parsed."""
    first, second, third = partition(
        """
        placementrules:
          - name: User
            create: true
            filter: {type: Allow, groups: [dev*]}
            parent:
              - name: tag
                value: NameSpace
          - {name: tag, value: namespace, create: true, parent: {name: fixed, value: root.users}}
          - {name: fixed, value: root.Default, filter: {type: DENY, users: [bob, sue]}}
        """
        + QUEUES.replace("\n", "\n        ")
    ).placement_rules
    assert (first.name, first.create) == ("user", True)
    assert first.filter is not None
    assert (first.filter.allow, first.filter.groups) == (True, name_list(("dev*",), is_group_name))
    assert first.parent is not None
    assert (first.parent.name, first.parent.value, first.parent.create) == ("tag", "namespace", False)
    assert second.parent is not None
    assert second.parent.value == "root.users"
    assert third.value == "root.default"
    assert third.filter is not None
    assert (third.filter.allow, third.filter.users) == (False, name_list(("bob", "sue"), is_user_name))


@pytest.mark.row(73)
@pytest.mark.parametrize("parent", ["{name: user}", "[{name: user}]", "\n    - name: user"])
def test_a_parent_rule_may_be_a_list_of_one(parent: str) -> None:
    """A parent rule may be a mapping, or a list with one mapping."""
    (rule,) = partition(f"placementrules:\n- name: provided\n  parent: {parent}{QUEUES}").placement_rules
    assert rule.parent is not None
    assert rule.parent.name == "user"


@pytest.mark.row(73)
@pytest.mark.parametrize(
    ("parent", "message"),
    [
        ("[]", "expected one parent rule, found 0"),
        ("[{name: user}, {name: user}]", "expected one parent rule, found 2"),
        ("user", "expected a list, found 'user'"),
    ],
)
def test_a_parent_that_is_not_one_rule_is_refused(parent: str, message: str) -> None:
    """An empty list, a list of two rules, and a word are refused as a parent rule."""
    assert rule_problems(f"{{name: provided, parent: {parent}}}") == [message]


@pytest.mark.row(68, 69, 78)
@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("{name: fixed}", "a fixed queue rule must have a queue name set"),
        ("{name: fixed, create: true}", "a fixed queue rule must have a queue name set"),
        ("{name: tag, create: true}", "a tag queue rule must have a tag name set"),
        (
            "{name: nearest}",
            (
                "unknown rule name specified nearest, failing placement rule config: expected one of "
                "provided, user, fixed, tag"
            ),
        ),
        (
            "{name: Recovery}",
            "recovery rule cannot be part of the config, failing placement rule config",
        ),
        ("{name: 9to5}", "invalid rule name 9to5, a name must be a valid identifier"),
        ("{value: x}", "invalid rule name , a name must be a valid identifier, found no name"),
        ("{name: ''}", "invalid rule name , a name must be a valid identifier, found an empty name"),
        ("{name: [user]}", "expected a text, found a list"),
        (
            "{name: fixed, value: root.default, parent: {name: user}}",
            ("cannot have a fixed queue rule with qualified queue getName and a parent rule: root.default"),
        ),
        (
            "{name: fixed, value: root.default, parent: {name: fixed, value: root.users}}",
            "illegal fully qualified 'fixed' rule with value root.default",
        ),
    ],
)
def test_an_invalid_rule_is_refused(rule: str, message: str) -> None:
    """Unknown names, missing values, and full paths in a rule with a parent are refused."""
    assert rule_problems(rule) == [message]
    assert rule_problems(f"{{name: provided, parent: {rule}}}") == [message]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("a..b", "an empty name"),
        ("x.a b", "'a b'"),
        (".a", "an empty name"),
        ("root.", "an empty name"),
        ("ü", "'ü'"),
        ("a" * 65, f"'{'a' * 64}…'"),
    ],
)
def test_every_part_of_a_fixed_value_is_a_queue_name(value: str, found: str) -> None:
    """Every part of a fixed value must be a valid queue name; the message ends with an invalid one."""
    (message,) = rule_problems(f"{{name: fixed, create: true, value: '{value}'}}")
    assert message.startswith(f"illegal fixed queue name '{value}': invalid queue name")
    assert message.endswith(f" allowed, found {found}")


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ("type: perhaps", "invalid rule filter type perhaps, filter type must be either '', allow or deny"),
        ("users: ['a b']", "invalid rule filter user list is not a proper list or regexp: [a b]"),
        ("groups: ['a@b']", "invalid rule filter group list is not a proper list or regexp: [a@b]"),
        (
            "users: ['']",
            ("invalid rule filter user list is not a proper list or regexp: [], found an empty name"),
        ),
        (
            "users: ['(a']",
            (
                "invalid rule filter user list is not a proper list or regexp: [(a] "
                "('(a' is not a regular expression: missing ): (a)"
            ),
        ),
    ],
)
def test_an_invalid_filter_is_refused(filters: str, message: str) -> None:
    """A filter of an unknown type, or with a single entry that is neither name nor expression, is refused."""
    assert rule_problems(f"{{name: user, filter: {{{filters}}}}}") == [message]


@pytest.mark.parametrize(
    "filters", ["users: [a]", "users: ['s.e']", "groups: ['dev*']", "users: ['1', '2 3']", ""]
)
def test_valid_filters_are_accepted(filters: str) -> None:
    """Names, single expressions, and lists that include invalid names are accepted."""
    assert rule_problems(f"{{name: user, filter: {{{filters}}}}}") == []
