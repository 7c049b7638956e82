"""Filters of placement rules: allow and deny, names and patterns."""

import pytest

from licorne_core.config.schema import FilterConfig, name_list
from licorne_core.model import placement
from licorne_core.values.ids import UserGroup
from licorne_core.values.names import is_group_name, is_user_name
from support.core.trees import partition_config


def admits(
    who: tuple[str, ...], users: tuple[str, ...] = (), groups: tuple[str, ...] = ()
) -> tuple[bool, bool]:
    """Whether a user, groups following, passes these lists as an allow and as a deny filter."""
    user = UserGroup(who[0], who[1:])
    allow, deny = (
        placement.admits(
            FilterConfig(
                allow=kind, users=name_list(users, is_user_name), groups=name_list(groups, is_group_name)
            ),
            user,
        )
        for kind in (True, False)
    )
    return allow, deny


LISTED = (True, False)
NOT_LISTED = (False, True)


@pytest.mark.row(74)
def test_empty_filter() -> None:
    """A filter that lists nothing lets everyone pass, or with deny nobody."""
    assert admits(("ann",)) == (True, False)


@pytest.mark.row(74)
@pytest.mark.parametrize(
    ("who", "expected"),
    [
        (("ann", "staff"), LISTED),
        (("joe", "dev"), LISTED),
        (("joe", "staff", "ops"), LISTED),
        (("joe", "staff"), NOT_LISTED),
        (("Ann", "staff"), NOT_LISTED),
        (("dev", "ann"), NOT_LISTED),
        (("joe",), NOT_LISTED),
    ],
)
def test_lists(who: tuple[str, ...], expected: tuple[bool, bool]) -> None:
    """A user is listed by name or by any group; deny turns that round."""
    assert admits(who, users=("ann", "bob"), groups=("dev", "ops")) == expected


@pytest.mark.row(75)
@pytest.mark.parametrize(
    ("who", "expected"),
    [
        (("sarah", "sarah", "test_app", "dev_app"), LISTED),
        (("sarah", "de"), LISTED),
        (("sarah", "xdevy"), LISTED),
        (("dev", "staff"), NOT_LISTED),
        (("bob", "d", "ev"), NOT_LISTED),
        (("bob",), NOT_LISTED),
    ],
)
def test_pattern_is_tried_on_each_group(who: tuple[str, ...], expected: tuple[bool, bool]) -> None:
    """A single entry with a special character is a pattern, found anywhere in one group's name."""
    assert admits(who, groups=("dev*",)) == expected


@pytest.mark.row(75)
def test_anchored_pattern() -> None:
    """Who wants the whole name matched says so in the pattern."""
    assert admits(("ann",), users=("^(ann|bob)$",)) == LISTED
    assert admits(("anna",), users=("^(ann|bob)$",)) == NOT_LISTED


def test_full_stop_is_no_pattern() -> None:
    """A name with a full stop is that name only."""
    assert admits(("s.e",), users=("s.e",)) == LISTED
    assert admits(("sue",), users=("s.e",)) == NOT_LISTED


def test_dollar_at_the_end_is_both() -> None:
    """An entry that is a legal name and a pattern lists the name and what the pattern finds."""
    assert admits(("svc$",), users=("svc$",)) == LISTED
    assert admits(("my-svc",), users=("svc$",)) == LISTED
    assert admits(("svc1",), users=("svc$",)) == NOT_LISTED


@pytest.mark.row(74)
def test_patterns_are_for_single_entries() -> None:
    """In a longer list there are only names; what is none is skipped, a star too."""
    assert admits(("ann",), users=("a.*", "*", "bob")) == NOT_LISTED
    assert admits(("bob",), users=("a.*", "*", "bob")) == LISTED


@pytest.mark.row(74)
def test_list_of_bad_names_is_not_empty() -> None:
    """With only illegal names nobody is listed: allow passes nobody, deny everyone."""
    assert admits(("ann",), users=("a b", "c d")) == NOT_LISTED


@pytest.mark.row(74)
@pytest.mark.parametrize("spelling", ["deny", "Deny", "DENY"])
def test_deny_in_any_case(spelling: str) -> None:
    """The type of a filter is read without regard to case."""
    config = partition_config(
        f"queues: [{{name: a}}]\nplacementrules: [{{name: user, filter: {{type: {spelling}, users: [ann]}}}}]"
    )
    (rule,) = config.placement_rules
    assert rule.filter is not None
    assert not placement.admits(rule.filter, UserGroup("ann"))
    assert placement.admits(rule.filter, UserGroup("bob"))
