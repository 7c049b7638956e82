"""Filters of placement rules, and the user of an application before its placement (spec §§ 3.9, 3.10)."""

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
    """Whether a user, followed by groups, passes these lists in an allow and in a deny filter."""
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
def test_an_empty_filter_applies_to_everyone() -> None:
    """An allow filter without entries lets everyone pass, and a deny filter nobody."""
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
def test_a_filter_lists_users_and_groups(who: tuple[str, ...], expected: tuple[bool, bool]) -> None:
    """A user is listed by name or by any group, and deny inverts the result."""
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
def test_a_pattern_is_tried_on_each_group(who: tuple[str, ...], expected: tuple[bool, bool]) -> None:
    """A single entry with a special character is a pattern, which may match anywhere in a group's name."""
    assert admits(who, groups=("dev*",)) == expected


@pytest.mark.row(75)
def test_a_pattern_for_the_whole_name_is_anchored() -> None:
    """A pattern matches the whole name only if it has anchors."""
    assert admits(("ann",), users=("^(ann|bob)$",)) == LISTED
    assert admits(("anna",), users=("^(ann|bob)$",)) == NOT_LISTED


def test_a_name_with_a_full_stop_is_no_pattern() -> None:
    """A name with a full stop matches exactly this name."""
    assert admits(("s.e",), users=("s.e",)) == LISTED
    assert admits(("sue",), users=("s.e",)) == NOT_LISTED


def test_a_name_that_ends_with_a_dollar_is_also_a_pattern() -> None:
    """An entry that is both a valid name and a pattern matches the name and the pattern."""
    assert admits(("svc$",), users=("svc$",)) == LISTED
    assert admits(("my-svc",), users=("svc$",)) == LISTED
    assert admits(("svc1",), users=("svc$",)) == NOT_LISTED


@pytest.mark.row(74)
def test_a_list_of_several_entries_has_only_names() -> None:
    """A list of several entries has only names; invalid names, even a star, are skipped."""
    assert admits(("ann",), users=("a.*", "*", "bob")) == NOT_LISTED
    assert admits(("bob",), users=("a.*", "*", "bob")) == LISTED


@pytest.mark.row(74)
def test_a_list_of_invalid_names_matches_nobody() -> None:
    """An allow list with only invalid names lets nobody pass, and a deny list everyone."""
    assert admits(("ann",), users=("a b", "c d")) == NOT_LISTED


@pytest.mark.row(74)
@pytest.mark.parametrize("spelling", ["deny", "Deny", "DENY"])
def test_the_type_of_a_filter_ignores_case(spelling: str) -> None:
    """The type of a filter is read without regard to case."""
    config = partition_config(
        f"queues: [{{name: a}}]\nplacementrules: [{{name: user, filter: {{type: {spelling}, users: [ann]}}}}]"
    )
    (rule,) = config.placement_rules
    assert rule.filter is not None
    assert not chain.admits(rule.filter, UserGroup("ann"))
    assert chain.admits(rule.filter, UserGroup("bob"))


def by(user: str, *groups: str, **tags: str) -> NewApplication:
    """An application of this user, with these groups and tags."""
    return NewApplication(app_id=AppId("app-1"), user=UserGroup(user, groups), tags=tags)


@pytest.mark.parametrize("user", ["ann", "_x", "a.b@c-d", "system:serviceaccount:ns:job", "svc$"])
def test_groups_are_those_sent_by_the_rm(user: str) -> None:
    """A user has the groups sent by the RM; without any, a group named like the user."""
    assert checked_user(by(user, "staff", "dev"), forced=False) == UserGroup(user, ("staff", "dev"))
    assert checked_user(by(user), forced=False) == UserGroup(user, (user,))


@pytest.mark.row(84, 85)
def test_a_forced_application_without_a_user_belongs_to_nobody() -> None:
    """A forced application without a user has the user `nobody` and the group `nogroup`."""
    assert checked_user(by("", "staff"), forced=True) == UserGroup("nobody", ("nogroup",))


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize("user", ["a b", "a,b", "1st", "-", "ann$bob", "ann\n", "änne", "-" * 100])
def test_an_invalid_user_name_is_rejected(user: str, forced: bool) -> None:
    """An application with an invalid user name is rejected with that name, even if it is forced."""
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
def test_the_force_tag_ignores_case(key: str, value: str, expected: bool) -> None:
    """The forcing tag is read in upper or lower case, with any usual spelling of true."""
    assert is_forced(by("ann", **{key: value})) is expected
