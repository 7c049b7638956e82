"""Filters of placement rules, and the user of an application before it is placed (spec §§ 3.9, 3.10)."""

import pytest

from licorne_core.config.schema import FilterConfig, name_list
from licorne_core.messages.commands import NewApplication
from licorne_core.model.apps.admission import checked_user, is_forced
from licorne_core.standard.placement import chain
from licorne_core.values.errors import Rejected, shown
from licorne_core.values.ids import AppId, UserGroup
from licorne_core.values.names import is_group_name, is_user_name
from support.core.trees import partition_config


def admits(
    who: tuple[str, ...], users: tuple[str, ...] = (), groups: tuple[str, ...] = ()
) -> tuple[bool, bool]:
    """Whether a user, followed by groups, passes these lists as an allow and as a deny filter."""
    user = UserGroup(who[0], who[1:])
    allow, deny = (
        chain.admits(
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
    """A filter without entries lets everyone pass, or with deny nobody."""
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
    """A user is listed by name or by any group; deny inverts the result."""
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
    """A pattern for the whole name has to be anchored."""
    assert admits(("ann",), users=("^(ann|bob)$",)) == LISTED
    assert admits(("anna",), users=("^(ann|bob)$",)) == NOT_LISTED


def test_full_stop_is_no_pattern() -> None:
    """A name with a full stop is that name only."""
    assert admits(("s.e",), users=("s.e",)) == LISTED
    assert admits(("sue",), users=("s.e",)) == NOT_LISTED


def test_dollar_at_the_end_is_both() -> None:
    """An entry that is a valid name and a pattern lists the name and the matches of the pattern."""
    assert admits(("svc$",), users=("svc$",)) == LISTED
    assert admits(("my-svc",), users=("svc$",)) == LISTED
    assert admits(("svc1",), users=("svc$",)) == NOT_LISTED


@pytest.mark.row(74)
def test_patterns_are_for_single_entries() -> None:
    """A longer list has names only; an invalid one is skipped, a star too."""
    assert admits(("ann",), users=("a.*", "*", "bob")) == NOT_LISTED
    assert admits(("bob",), users=("a.*", "*", "bob")) == LISTED


@pytest.mark.row(74)
def test_list_of_bad_names_is_not_empty() -> None:
    """With only invalid names nobody is listed: allow passes nobody, deny everyone."""
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
    assert not chain.admits(rule.filter, UserGroup("ann"))
    assert chain.admits(rule.filter, UserGroup("bob"))


def by(user: str, *groups: str, **tags: str) -> NewApplication:
    """An application of that user."""
    return NewApplication(app_id=AppId("app-1"), user=UserGroup(user, groups), tags=tags)


@pytest.mark.parametrize("user", ["ann", "_x", "a.b@c-d", "system:serviceaccount:ns:job", "svc$"])
def test_groups_are_those_reported_by_the_rm(user: str) -> None:
    """A user has the groups that the RM reports; without any, the group of the same name."""
    assert checked_user(by(user, "staff", "dev"), forced=False) == UserGroup(user, ("staff", "dev"))
    assert checked_user(by(user), forced=False) == UserGroup(user, (user,))


@pytest.mark.row(84, 85)
def test_forced_application_of_nobody() -> None:
    """A forced application without a user belongs to nobody."""
    assert checked_user(by("", "staff"), forced=True) == UserGroup("nobody", ("nogroup",))


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize("user", ["a b", "a,b", "1st", "-", "ann$bob", "ann\n", "änne", "-" * 100])
def test_illegal_user(user: str, forced: bool) -> None:
    """An invalid user name is rejected and reported, forced or not."""
    with pytest.raises(Rejected) as refusal:
        checked_user(by(user, "staff"), forced=forced)
    published, _, found = str(refusal.value).partition(", found ")
    assert published == "invalid username, it contains invalid characters"
    assert found == f"'{shown(user)}'"


@pytest.mark.row(84)
@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("application.create.force", "true", True),
        ("Application.Create.FORCE", "True", True),
        ("application.create.force", "1", True),
        ("application.create.force", "false", False),
        ("application.create.force", "yes", False),
        ("application.create.force", "", False),
        ("application.create", "true", False),
    ],
)
def test_forced(key: str, value: str, expected: bool) -> None:
    """The tag that forces is found in any case, with true in one of the usual spellings."""
    assert is_forced(by("ann", **{key: value})) is expected
