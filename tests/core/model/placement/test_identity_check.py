"""The user of an application before it is placed."""

import pytest

from licorne_core.messages.commands import NewApplication
from licorne_core.model.placement import checked_user, is_forced
from licorne_core.values.errors import Rejected
from licorne_core.values.ids import AppId, UserGroup
from licorne_core.values.rule_kinds import tag_value


def by(user: str, *groups: str, **tags: str) -> NewApplication:
    """An application of that user."""
    return NewApplication(app_id=AppId("app-1"), user=UserGroup(user, groups), tags=tags)


def test_groups_are_taken_as_they_come() -> None:
    """Groups that the RM reports are the user's groups."""
    assert checked_user(by("ann", "staff", "dev"), forced=False) == UserGroup("ann", ("staff", "dev"))


def test_without_groups_there_is_one_of_the_same_name() -> None:
    """A user of whom no groups are known is in the group of the same name."""
    assert checked_user(by("ann"), forced=False) == UserGroup("ann", ("ann",))


@pytest.mark.row(85)
def test_empty_user() -> None:
    """An application of nobody is rejected, with or without groups."""
    for app in (by(""), by("", "staff")):
        with pytest.raises(Rejected, match=r"^empty user cannot resolve$"):
            checked_user(app, forced=False)


@pytest.mark.row(84, 85)
def test_forced_application_of_nobody() -> None:
    """A forced application without a user is nobody's."""
    assert checked_user(by("", "staff"), forced=True) == UserGroup("nobody", ("nogroup",))


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize("user", ["a b", "a,b", "1st", "-", "ann$bob", "ann\n", "änne"])
def test_illegal_user(user: str, forced: bool) -> None:
    """A name that no user can have is rejected and told, forced or not."""
    with pytest.raises(Rejected) as refusal:
        checked_user(by(user, "staff"), forced=forced)
    published, _, found = str(refusal.value).partition(", found ")
    assert published == "invalid username, it contains invalid characters"
    assert found == f"'{user}'".replace("\n", "\\n")


def test_long_illegal_user() -> None:
    """Of a very long name the beginning is told."""
    with pytest.raises(Rejected, match=f"found '{'-' * 64}…'$"):
        checked_user(by("-" * 100), forced=False)


@pytest.mark.parametrize("user", ["_x", "a.b@c-d", "system:serviceaccount:ns:job", "svc$"])
def test_legal_user(user: str) -> None:
    """Names as Kubernetes and directories have them are fine."""
    assert checked_user(by(user), forced=False).user == user


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
    """The tag that forces is found in any case, and says true in one of the usual ways."""
    assert is_forced(by("ann", **{key: value})) is expected


def test_tags_that_differ_in_case_only() -> None:
    """The spelling that was asked for comes first, then the first in alphabetical order."""
    assert tag_value({"TAG": "1", "Tag": "2", "tag": "3"}, "tag") == "3"
    assert tag_value({"Tag": "2", "TAG": "1"}, "tag") == "1"
    assert tag_value({"other": "1"}, "tag") == ""
